"""`normalized` against Python, and on runs of marks for which Python takes hours."""

from unicodedata import combining, decomposition, normalize

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from corpusfit.core.types import buffers, text_array
from corpusfit.kernels.normal_form import normalized
from corpusfit.kernels.word_form import word_forms
from corpusfit.text.same_text import exact_keys, folded

FORMS = ["NFC", "NFD", "NFKC", "NFKD"]
# marks of several classes, marks that consist of marks, those that are marks in NFKC alone,
# letters that they join, an emoji, marks beyond the Basic Multilingual Plane
MARKS = "\u0301\u0323\u0344\u0f71\u0f72\u0f73\u0f75\u3099\uff9e\u05b0\u0b3e\U0001d165\U0001e944"
OTHERS = "aé\u1100\u1161か\u00a8\ufefb\U0001f600 \ud800"


@pytest.mark.parametrize("form", FORMS)
@given(st.text(MARKS, min_size=25, max_size=90), st.text(OTHERS + MARKS, max_size=40))
def test_equals_the_form_of_unicode(form, marks, others):
    for text in (marks, others + marks, marks + others, others + marks + others + marks):
        assert normalized(text, form) == normalize(form, text)


@pytest.mark.parametrize("form", FORMS)
def test_every_character_that_changes_in_a_long_run(form):
    run = "\u0323\u0301" * 16
    chars = [c for c in map(chr, range(0xC0, 0x20000)) if combining(c) or decomposition(c)]
    for char in chars:
        text = run + char + run
        assert normalized(text, form) == normalize(form, text)


@pytest.mark.parametrize("form", FORMS)
def test_marks_without_end_end(form):
    """Python alone takes minutes for each."""
    text = "\u0f72\u0f71" * 200_000
    assert normalized(text, form) == "\u0f71" * 200_000 + "\u0f72" * 200_000


def test_what_calls_it_ends_too():
    text = "word " + "\u0f72\u0f71" * 100_000 + " word"
    in_order = "word " + "\u0f71" * 100_000 + "\u0f72" * 100_000 + " word"
    assert all(combining(c) for c in "\u0f71\u0f72")
    assert folded(text) == in_order
    assert len(set(exact_keys(*buffers(text_array([text, in_order]))))) == 1
    data = np.frombuffer(text.encode(), np.uint8)
    assert bytes(word_forms(data, np.array([0, len(data)]))[0]).decode() == in_order
