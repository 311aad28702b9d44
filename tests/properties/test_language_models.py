"""n-gram models of any text are probability distributions, and are walked alike in any way."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from corpusfit.core.types import buffers, text_array
from corpusfit.kernels.backoff import UNKNOWN, log_probabilities, token_probabilities
from corpusfit.kernels.characters import table as characters
from corpusfit.kernels.kneser_ney import estimate, number_words
from corpusfit.kernels.tokens import BEGIN, END, identity, reference

WORDS = ["a", "b", "c", "d", "e"]
SENTENCES = st.lists(st.lists(st.sampled_from(WORDS), max_size=8), min_size=1, max_size=12)
ORDERS = st.integers(1, 5)


def model(sentences, order):
    texts = text_array([" ".join(s) for s in sentences])
    words, identities = number_words(*buffers(texts), characters(), False)
    return estimate(words, identities, order), identities


@given(SENTENCES, ORDERS, st.data())
def test_probabilities_of_all_next_tokens_sum_to_one(sentences, order, data):
    table, identities = model(sentences, order)
    sentence = data.draw(st.sampled_from(sentences))
    seen = [identity(w) for w in sentence[: data.draw(st.integers(0, len(sentence)))]]
    context = data.draw(st.sampled_from([seen, [*seen, 12345], [identity(w) for w in WORDS[:3]]]))
    total = 0.0
    for token in {*identities.tolist(), int(UNKNOWN)} - {int(BEGIN), int(END)}:
        total += (
            10 ** token_probabilities(table, order, np.array([*context, token], np.uint64))[0][-2]
        )
    total += 10 ** token_probabilities(table, order, np.array(context, np.uint64))[0][-1]
    np.testing.assert_allclose(total, 1.0, atol=1e-5)


@given(SENTENCES, st.lists(st.text("abcxé日 -", max_size=30), min_size=1, max_size=5), ORDERS)
def test_a_text_has_the_product_of_its_tokens_probabilities(sentences, texts, order):
    table, _ = model(sentences, order)
    got, tokens = log_probabilities(table, order, *buffers(text_array(texts)), characters(), False)
    for text, log10, n in zip(texts, got, tokens, strict=True):
        ids = np.array([identity(t) for t in reference(text)], np.uint64)
        each, matched = token_probabilities(table, order, ids)
        assert n == len(each)
        assert np.isfinite(each).all()
        assert ((matched >= 1) & (matched <= order)).all()
        np.testing.assert_allclose(log10, each.sum(), rtol=1e-12)


@given(SENTENCES, SENTENCES, ORDERS)
@settings(max_examples=30)
def test_a_larger_vocabulary_only_makes_room_for_unknown_words(sentences, others, order):
    """As with lmplz's --vocab_pad: each further word has the unknown word's probability."""
    texts = text_array([" ".join(s) for s in sentences])
    words, identities = number_words(*buffers(texts), characters(), False)
    table = estimate(words, identities, order, len(identities) + len(others))
    total = 0.0
    for token in {*identities.tolist()} - {int(BEGIN), int(END)}:
        p = 10 ** token_probabilities(table, order, np.array([token], np.uint64))[0][0]
        total += p * (len(others) + 1 if token == int(UNKNOWN) else 1)
    total += 10 ** token_probabilities(table, order, np.empty(0, np.uint64))[0][0]
    np.testing.assert_allclose(total, 1.0, atol=1e-5)
