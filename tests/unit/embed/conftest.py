"""Tiny models, built and saved here: a few thousand random weights and a tokenizer trained on
three sentences, so that no test needs a download."""

import pytest

TEXTS = [
    "the kinase binds",
    "",
    "a small model reads small words, and unknown ones in pieces. " * 3,
    "aspirin",
    "the binding of aspirin to the receptor is irreversible",
    "high affinity",
    "naïve Ångström 測試",
]


@pytest.fixture(scope="session")
def texts():
    return list(TEXTS)
