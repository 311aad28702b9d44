"""New tokens for frequent words, against counts by hand and a plain mean of the pieces' rows."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch
import transformers as tf
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers

from corpusfit.core.errors import ModelError, UsageError
from corpusfit.training.models import (
    LoadedModel,
    add_words,
    find_new_words,
    open_model,
    save_model,
    token_tables,
)
from corpusfit.training.plan import AdaptPlan, ModelPlan

LETTERS = "abcdefghijklmnopqrstuvwxyz"
SIZES = {
    "hidden_size": 32,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "intermediate_size": 48,
    "max_position_embeddings": 40,
}
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
TEXTS = ["Kinase the kinase, kinase-like the", "the assay kinases 1kinase the", "the assay the"]


def lower_case():
    """A word-piece tokenizer of letters, and `the`."""
    words = [*SPECIAL, *LETTERS, *(f"##{c}" for c in LETTERS), "the", "kin", "##ase", ",", "-"]
    pieces = Tokenizer(models.WordPiece({w: i for i, w in enumerate(words)}, unk_token="[UNK]"))
    pieces.normalizer = normalizers.BertNormalizer(lowercase=True)
    pieces.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    return pieces, tf.PreTrainedTokenizerFast(
        tokenizer_object=pieces,
        **dict(
            zip(
                ("pad_token", "unk_token", "cls_token", "sep_token", "mask_token"),
                SPECIAL,
                strict=True,
            )
        ),
    )


def byte_level():
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    words = ["<s>", "<pad>", "</s>", "<unk>", "<mask>", *alphabet, "th", "Ġth", "Ġthe"]
    merges = [("t", "h"), ("Ġ", "th"), ("Ġth", "e")]
    pieces = Tokenizer(models.BPE({w: i for i, w in enumerate(words)}, merges))
    pieces.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    names = {"bos": "<s>", "pad": "<pad>", "eos": "</s>", "unk": "<unk>", "mask": "<mask>"}
    return tf.PreTrainedTokenizerFast(
        tokenizer_object=pieces, **{f"{role}_token": token for role, token in names.items()}
    )


@pytest.fixture(params=["word pieces", "bytes"])
def opened(request, tmp_path):
    torch.manual_seed(0)
    if request.param == "bytes":
        tokenizer, kind, config = byte_level(), tf.RobertaForMaskedLM, tf.RobertaConfig
    else:
        tokenizer, kind, config = lower_case()[1], tf.BertForPreTraining, tf.BertConfig
    model = kind(config(**{**SIZES, "vocab_size": len(tokenizer)}, initializer_range=0.3))
    with torch.no_grad():
        model.get_output_embeddings().bias.normal_()
    model.save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    return opened_again(tmp_path)


def opened_again(folder):
    plan = ModelPlan(name=str(folder))
    return open_model(plan, "mlm", attention="eager", seed=0, on_warn=pytest.fail)


def test_the_words_that_save_most_tokens_come_first():
    """`kinase` has 2 pieces and is 3 times a whole word: 3; `assay` 5 and 2 times: 8."""
    model = SimpleNamespace(tokenizer=lower_case()[1], name="m")
    found = find_new_words(TEXTS, model, 10)
    assert found.words == ("assay", "kinase", "like", "kinases")
    vocabulary = model.tokenizer.get_vocab()
    assert found.pieces[1] == (vocabulary["kin"], vocabulary["##ase"])
    # 6 tokens of `the`, 3 x 2 of `kinase`, 2 x 5 of `assay`, 4 of `like`, 3 of `kinases`
    assert found.shorter == pytest.approx((8 + 3 + 3 + 2) / (6 + 6 + 10 + 4 + 3))
    assert find_new_words(TEXTS, model, 2).words == found.words[:2]
    assert find_new_words([], model, 2).words == ()


def test_a_new_token_begins_as_the_mean_of_its_pieces(opened, tmp_path):
    new = find_new_words(TEXTS, opened, 2)
    before = opened.model.get_input_embeddings().weight.detach().clone()
    bias = opened.model.get_output_embeddings().bias.detach().clone()
    first = len(opened.tokenizer)
    larger = add_words(opened, new, "mlm")
    assert larger.fingerprint != opened.fingerprint
    for model in (larger.model, saved(larger, tmp_path / "new").model):
        table = model.get_input_embeddings().weight.detach()
        torch.testing.assert_close(table[: len(before)], before, rtol=0, atol=0)
        head = model.get_output_embeddings()
        assert torch.equal(head.weight, table)
        torch.testing.assert_close(head.bias[: len(before)], bias, rtol=0, atol=0)
        for row, pieces in enumerate(new.pieces, first):
            torch.testing.assert_close(table[row], before[list(pieces)].mean(0))
            torch.testing.assert_close(head.bias[row], bias[list(pieces)].mean(0))


def saved(opened, folder):
    save_model(opened.model, opened.tokenizer, folder)
    return opened_again(folder)


def test_only_whole_words_become_new_tokens(opened, tmp_path):
    new = find_new_words(["kinase assay"] * 3, opened, 2)
    text = "the kinase, the kinases and the-kinase the"
    before = opened.tokenizer(text, add_special_tokens=False).input_ids
    first = len(opened.tokenizer)
    larger = saved(add_words(opened, new, "mlm"), tmp_path / "new")
    after = larger.tokenizer(text, add_special_tokens=False).input_ids
    number = first + new.words.index("kinase")
    assert after.count(number) == 2  # not in "kinases"
    pieces = len(new.pieces[new.words.index("kinase")])
    assert abs(len(before) - len(after) - 2 * (pieces - 1)) <= 1  # a space before a word
    assert larger.special.begins[number]
    assert larger.special.ordinary[number]
    assert np.flatnonzero(larger.special.ordinary)[-1] == first + 1


def pieces_of_sentences():
    """A Unigram tokenizer that knows `ase` within words alone."""
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "▁", *LETTERS, "ase", "▁the"]
    scored = [(word, -1.0 - (len(word) < 3)) for word in words]
    made = Tokenizer(models.Unigram(scored, unk_id=1))
    made.pre_tokenizer = pre_tokenizers.Metaspace()
    return tf.PreTrainedTokenizerFast(tokenizer_object=made, pad_token="[PAD]")


def inner_bytes():
    """`byte_level`, which knows `ase` within words, and not with a space before it."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    words = ["<pad>", *alphabet, "as", "ase", "th", "Ġth", "Ġthe"]
    merges = [("a", "s"), ("as", "e"), ("t", "h"), ("Ġ", "th"), ("Ġth", "e")]
    made = Tokenizer(models.BPE({w: i for i, w in enumerate(words)}, merges))
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    return tf.PreTrainedTokenizerFast(tokenizer_object=made, pad_token="<pad>")


@pytest.mark.parametrize("made", [pieces_of_sentences, inner_bytes])
def test_a_word_that_is_a_piece_of_others_is_passed_over(made):
    """`ase`, most frequent of all, cannot be a token of its own; the next word takes its place."""
    many = "the ase ase ase ase ase"
    texts = [f"{many} kinase"] * 9 + [f"{many} assay"] * 5 + ["the motif"]
    model = SimpleNamespace(tokenizer=made(), name="m")
    found = find_new_words(texts, model, 2)
    assert found.words == ("kinase", "assay")
    every = find_new_words(texts, model, 10)
    assert every.words == ("kinase", "assay", "motif")
    assert find_new_words(["the ase"] * 3, model, 2).words == ()


HOLE = 7  # an id that no token has, and two more
PIECES = [*SPECIAL, *LETTERS, *(f"##{c}" for c in LETTERS), "the", "kin", "##ase"]
BYTES = [*sorted(pre_tokenizers.ByteLevel.alphabet()), "th", "Ġth", "Ġthe"]
MERGES = [("t", "h"), ("Ġ", "th"), ("Ġth", "e")]


def with_a_hole(words):
    return {word: i + 3 * (i >= HOLE) for i, word in enumerate(words)}


def from_lines(folder):
    """As a `vocab.txt` with repeated lines makes it."""
    lines = [*SPECIAL, "a", "b", *PIECES[len(SPECIAL) :]]
    (folder / "vocab.txt").write_text("".join(f"{line}\n" for line in lines))
    return tf.BertTokenizer.from_pretrained(folder)


def roberta(_):
    words = with_a_hole(["<s>", "<pad>", "</s>", "<unk>", *BYTES])
    return tf.RobertaTokenizer(vocab={**words, "<mask>": max(words.values()) + 2}, merges=MERGES)


def llama(_):
    words = ["<unk>", "<s>", "</s>", "<mask>", "▁", *LETTERS, "th", "▁th", "▁the"]
    merges = [("t", "h"), ("▁", "th"), ("▁th", "e")]
    return tf.LlamaTokenizer(vocab=with_a_hole(words), merges=merges, mask_token="<mask>")


def unigram(kind, *special):
    def made(_):
        words = [*special, "▁", *LETTERS, "▁the"]
        return kind(vocab=[(word, -1.0 - (len(word) < 3)) for word in words])

    return made


def deberta(_):
    words = with_a_hole(["[CLS]", "[PAD]", "[SEP]", "[UNK]", *BYTES])
    return tf.DebertaTokenizer(vocab={**words, "[MASK]": 400}, merges=MERGES)


def word_pieces_of(kind, *special):
    numbers = {word: 200 + 2 * i for i, word in enumerate(special)}
    return lambda _: kind(vocab={**with_a_hole(PIECES), **numbers})


def added_first(_):
    """A `tokenizer.json` with unused ids, whose special tokens are none of its model's."""
    words = {word: i + len(BYTES) + 9 for i, word in enumerate(BYTES)}
    made = Tokenizer(models.BPE(words, MERGES))
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    roles = {f"{role}_token": f"[{role.upper()}]" for role in ("pad", "unk", "mask")}
    return tf.PreTrainedTokenizerFast(tokenizer_object=made, **roles)


FAMILIES = {
    "BERT": lambda _: tf.BertTokenizer(vocab=with_a_hole(PIECES)),
    "BERT, repeated lines": from_lines,
    "RoBERTa": roberta,
    "GPT-2": lambda _: tf.GPT2Tokenizer(
        vocab=with_a_hole(["<|endoftext|>", "<mask>", *BYTES]), merges=MERGES, mask_token="<mask>"
    ),
    "Llama": llama,
    "DeBERTa": deberta,
    "XLM-R": unigram(tf.XLMRobertaTokenizer, "<s>", "<pad>", "</s>", "<unk>", "<mask>"),
    "ALBERT": unigram(tf.AlbertTokenizer, "<pad>", "<unk>", "[CLS]", "[SEP]", "[MASK]"),
    "DeBERTa v2": unigram(tf.DebertaV2Tokenizer, "[PAD]", "[CLS]", "[SEP]", "[UNK]", "[MASK]"),
    "XLNet": unigram(
        tf.XLNetTokenizer, "<unk>", "<s>", "</s>", "<cls>", "<sep>", "<pad>", "<mask>"
    ),
    "MPNet": word_pieces_of(tf.MPNetTokenizer, "<s>", "</s>", "<pad>", "<mask>"),
    "Funnel": word_pieces_of(
        tf.FunnelTokenizer, "<s>", "</s>", "<pad>", "<mask>", "<unk>", "<cls>"
    ),
    "unused ids": added_first,
}


@pytest.mark.parametrize("family", FAMILIES)
def test_new_tokens_have_ids_above_the_largest(family, tmp_path):
    tokenizer = FAMILIES[family](tmp_path)
    before, text = tokenizer.get_vocab(), "the the motif assay of the motif's"
    coded = tokenizer("the of the")["input_ids"]
    first = max(before.values()) + 1
    config = tf.BertConfig(**SIZES, vocab_size=first)
    opened = LoadedModel(tf.BertForMaskedLM(config), tokenizer, None, 40, "m", "")
    new = find_new_words(["the motif, the assay", "the assay"], opened, 2)
    assert new.words == ("assay", "motif")
    larger = add_words(opened, new, "mlm")
    after = larger.tokenizer.get_vocab()
    assert {word: after[word] for word in before} == before
    assert [after[word] for word in new.words] == [first, first + 1]
    assert len(set(after.values())) == len(after)
    assert larger.model.get_input_embeddings().weight.shape[0] == first + 2
    ids = larger.tokenizer(text)["input_ids"]
    assert (ids.count(first), ids.count(first + 1)) == (1, 2)
    assert larger.tokenizer("the of the")["input_ids"] == coded
    # what is no token of a text is neither masked nor put in the place of others
    unused = set(range(first)) - set(before.values())
    assert not larger.special.ordinary[sorted(unused)].any()
    larger.tokenizer.save_pretrained(tmp_path / "new")
    again = tf.AutoTokenizer.from_pretrained(tmp_path / "new")
    assert again(text)["input_ids"] == ids
    assert again.all_special_ids == tokenizer.all_special_ids


class Fixed(tf.BertForMaskedLM):
    """A model that has the same vocabulary whatever its configuration says."""

    def __init__(self, config):
        super().__init__(tf.BertConfig(**SIZES, vocab_size=60))


def test_a_model_whose_vocabulary_cannot_grow_is_refused():
    with pytest.raises(ModelError, match=r"^`model\.name`: m .*`model\.add_tokens`"):
        token_tables(Fixed(None), "m")


@pytest.mark.parametrize(
    "settings",
    [
        {"model": ModelPlan(init="tiny", add_tokens=5)},
        {"model": ModelPlan(name="m", add_tokens=5), "objective": "causal"},
        {"model": ModelPlan(name="m", add_tokens=5), "objective": "tsdae"},
        {"model": ModelPlan(name="m", add_tokens=5), "adapter": "lora"},
    ],
    ids=str,
)
def test_where_it_is_refused(settings):
    plan = AdaptPlan(model=settings["model"])
    for name, path in (("objective", "objective.name"), ("adapter", "adapter.kind")):
        if name in settings:
            plan = plan.with_value(path, settings[name])
    with pytest.raises(UsageError, match="add_tokens"):
        plan.check()
