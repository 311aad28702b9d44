"""Tokenised examples against transformers' word ids, and packed rows."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from corpusfit.evaluation.encoding import NOWHERE, encode, packed_rows
from corpusfit.evaluation.task import Examples
from corpusfit.training.special_tokens import SpecialTokens


def special_tokens_of(tokenizer):
    ids = np.ones(len(tokenizer), np.bool_)
    cls, sep = tokenizer.cls_token_id, tokenizer.sep_token_id
    return SpecialTokens((cls,), (sep,), None, 0, None, len(ids), ids, None)


@pytest.fixture(scope="module")
def tokenizer(word_pieces, tmp_path_factory):
    transformers = pytest.importorskip("transformers", reason="the extra train is not installed")
    path = tmp_path_factory.mktemp("tokenizer") / "t.json"
    word_pieces.save(str(path))
    return transformers.BertTokenizerFast(tokenizer_file=str(path))


WORDS = ["the", "kinase", "binds.", "xyzzy", "small,", "reads", "a", "unknown"]


@given(sentences=st.lists(st.lists(st.sampled_from(WORDS), max_size=12), min_size=1, max_size=6))
def test_words_are_predicted_at_their_first_sub_token_by_transformers_word_ids(
    tokenizer, sentences
):
    examples = Examples(sentences, [[0] * len(s) for s in sentences])
    found = encode(
        examples, "tagging", tokenizer.backend_tokenizer, special_tokens_of(tokenizer), 16
    )
    cut = []
    for words, ids, places in zip(sentences, found.ids, found.places, strict=True):
        whole = tokenizer(words, is_split_into_words=True)
        theirs = tokenizer(words, is_split_into_words=True, truncation=True, max_length=16)
        cut.append(len(whole["input_ids"]) > 16)
        assert ids.tolist() == theirs["input_ids"]
        numbers = theirs.word_ids()
        assert places.tolist() == [
            numbers.index(w) if w in numbers else NOWHERE for w in range(len(words))
        ]
    assert found.truncated.tolist() == cut


def test_words_of_a_byte_level_tokenizer_have_their_tokens_in_the_sentence():
    from tokenizers import Tokenizer, models, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    trainer = trainers.BpeTrainer(vocab_size=300, show_progress=False)
    tokenizer.train_from_iterator(["the kinase binds the receptor"] * 9, trainer)
    words = ["the", "kinase", "binds"]
    special = SpecialTokens((), (), None, 0, None, 300, np.ones(300, np.bool_), None)
    found = encode(Examples([words], [[0, 0, 0]]), "tagging", tokenizer, special, 64)
    tokens = tokenizer.encode("the kinase binds", add_special_tokens=False)
    first = [
        next(i for i, (b, e) in enumerate(tokens.offsets) if e > begin) for begin in (0, 4, 11)
    ]
    assert found.places[0].tolist() == first


def test_a_word_without_tokens_is_nowhere_and_the_next_one_keeps_its_own(tokenizer):
    words = ["the", "\u00ad", "kinase"]
    found = encode(
        Examples([words], [[0, 0, 0]]),
        "tagging",
        tokenizer.backend_tokenizer,
        special_tokens_of(tokenizer),
        64,
    )
    assert found.places[0].tolist() == [1, NOWHERE, 2]


def test_texts_are_predicted_at_their_first_token_or_without_a_prefix_at_their_last(tokenizer):
    examples = Examples([["the kinase binds"], [""]], [[1], [0]])
    backend, special = tokenizer.backend_tokenizer, special_tokens_of(tokenizer)
    assert [
        p.tolist() for p in encode(examples, "classification", backend, special, 64).places
    ] == [
        [0],
        [0],
    ]
    none = SpecialTokens((), (), None, 0, None, 9, special.ordinary, None)
    found = encode(examples.take([0]), "classification", backend, none, 64)
    assert found.places[0].tolist() == [len(found.ids[0]) - 1]


@given(st.lists(st.integers(1, 30), min_size=1, max_size=40))
def test_rows_hold_every_example_once_packed_by_first_fit(lengths):
    lengths = np.array(lengths)
    rows = packed_rows(lengths)
    assert sorted(i for row in rows for i in row) == list(range(len(lengths)))
    fill = [lengths[row].sum() for row in rows]
    assert max(fill) <= lengths.max()
    # first fit leaves no two rows that are both at most half full
    assert sum(2 * f <= lengths.max() for f in fill) <= 1


@given(st.lists(st.integers(1, 90), min_size=1, max_size=12), st.integers(1, 200))
def test_wider_rows_are_used_where_that_saves_tokens(lengths, widest):
    lengths = np.array(lengths)
    rows, narrow = packed_rows(lengths, widest), packed_rows(lengths)
    assert sorted(i for row in rows for i in row) == list(range(len(lengths)))
    longest = max(lengths[row].sum() for row in rows)
    assert longest <= max(lengths.max(), min(widest, 2 * lengths.max()))
    assert len(rows) * longest <= len(narrow) * lengths.max()
