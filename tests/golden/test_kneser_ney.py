"""Our models are KenLM's: estimation, ARPA files and queries (how made: kneser_ney/README.md)."""

import json
from pathlib import Path

import numpy as np
import pytest

from corpusfit.core.types import buffers, text_array
from corpusfit.kernels.backoff import UNKNOWN, find, keys_of, log_probabilities
from corpusfit.kernels.characters import table as characters
from corpusfit.kernels.kneser_ney import estimate, number_words
from corpusfit.kernels.tokens import BEGIN, END, identity
from corpusfit.scoring.arpa import read_arpa

FOLDER = Path(__file__).parent / "kneser_ney"
SPECIAL = {"<unk>": int(UNKNOWN), "<s>": int(BEGIN), "</s>": int(END)}
ORDERS = [1, 2, 3, 4, 5]


def lines(name):
    return text_array((FOLDER / name).read_text("utf-8").splitlines())


@pytest.fixture(scope="module")
def trained():
    words, identities = number_words(*buffers(lines("train.txt")), characters(), False)
    return {order: estimate(words, identities, order) for order in ORDERS}


def values(table, gram):
    """Probability and back-off of one n-gram, None if the table lacks it."""
    identities = [SPECIAL.get(w) or identity(w) for w in gram.split()]
    at, found = find(table, keys_of(np.array([identities], np.uint64))[0])
    return table.view(np.float32)[at, 2:] if found else None


@pytest.mark.parametrize("order", ORDERS)
def test_every_ngram_has_lmplzs_probability_and_backoff(trained, order):
    rows = [
        line.split("\t")
        for line in (FOLDER / f"order{order}.arpa").read_text("utf-8").splitlines()
        if "\t" in line
    ]
    assert len(rows) == np.count_nonzero(trained[order][:, 0])
    for probability, gram, *backoff in rows:
        got = values(trained[order], gram)
        assert got is not None, gram
        want = (float(probability), float(backoff[0]) if backoff else 0.0)
        np.testing.assert_allclose(got, want, atol=1e-5, rtol=0, err_msg=gram)


@pytest.mark.parametrize("order", ORDERS[1:])
@pytest.mark.parametrize("source", ["trained", "read"])
def test_sentences_have_kenlms_probabilities(trained, order, source):
    table = trained[order] if source == "trained" else read_arpa(FOLDER / f"order{order}.arpa")[0]
    got, tokens = log_probabilities(table, order, *buffers(lines("test.txt")), characters(), False)
    want = json.loads((FOLDER / "sentences.json").read_text("utf-8"))[str(order)]
    np.testing.assert_allclose(got, want, atol=1e-4, rtol=0)
    assert tokens.tolist() == [len(line.as_py().split()) + 1 for line in lines("test.txt")]


def test_a_file_read_scores_as_what_was_trained(trained):
    for order in ORDERS:
        table, got = read_arpa(FOLDER / f"order{order}.arpa")
        assert got == order
        both = [
            log_probabilities(t, order, *buffers(lines("test.txt")), characters(), False)[0]
            for t in (table, trained[order])
        ]
        np.testing.assert_allclose(*both, atol=1e-5, rtol=0)
