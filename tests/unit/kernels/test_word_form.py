"""Texts in NFC, against Python's own normalization."""

import random
import unicodedata
from itertools import pairwise

import numpy as np
import pytest

from corpusfit.core.types import buffers, text_array
from corpusfit.kernels import word_form

CHARACTERS = [
    chr(code)
    for code in range(0xA0, 0x30000)
    if unicodedata.category(chr(code)) not in ("Cn", "Cs", "Co") and code >> 12 != 2
]
MARKS = [char for char in CHARACTERS if unicodedata.combining(char)]
WRITTEN = [
    *("tòa án luật sư bị cáo", "Ångström naïve", "한국어 문장", "が ぱ ヴ", "कानून की ज़रूर", "আমি ড়"),
    *("luâ\u0323t môt\u0323 Viê\u0323t đă\u0323c", "\u0651\u064e", "e\u0323\u0302 e\u0302\u0323"),
    *("قَانُون أُمَّة آن", "בְּרֵאשִׁית", "ẛ̣ ﬁ", "x", "", "й ё ї", "\ufb2a", "Ωμέγα ά", "ප්‍රේ", "ไทยน้ำ"),
]


def composed(texts):
    data, offsets = word_form.composed(*buffers(text_array(texts)))
    return [bytes(data[a:b]).decode() for a, b in pairwise(offsets)]


@pytest.mark.parametrize("form", ["NFC", "NFD"])
def test_it_is_what_python_makes_of_it(form):
    texts = [unicodedata.normalize(form, text) for text in WRITTEN]
    assert composed(texts) == [unicodedata.normalize("NFC", text) for text in WRITTEN]
    assert composed(["a", *texts[:2], "ö"])[3] == "ö"


def test_every_character_and_texts_at_random_are_what_python_makes_of_them():
    """Symbols and marks from U+2000 to U+2FFF aside."""
    rng = random.Random(0)
    letters = "aeouAEOUかはضاনर가ệ"
    kinds = (CHARACTERS, MARKS, letters, letters)
    texts = [f"x{char}y" for char in CHARACTERS]
    texts += ["".join(rng.choice(rng.choice(kinds)) for _ in range(5)) for _ in range(20_000)]
    assert composed(texts) == [unicodedata.normalize("NFC", text) for text in texts]


def test_texts_in_nfc_are_neither_copied_nor_looked_at(monkeypatch):
    texts = [
        "The café’s “naïve” straße – Москва й",
        "中国的法律，公民。",
        "が日本",
        "कानून ज़रूर",
        "tòa án",
    ]
    data, offsets = buffers(text_array(texts))
    monkeypatch.setattr(word_form, "normalized", None)
    same = word_form.composed(data, offsets)
    assert same[0] is data
    assert same[1] is offsets


def test_a_part_of_an_array_has_its_own_offsets():
    texts = text_array(["e\u0301", "a\u0302 b", "c"])[1:]
    data, offsets = word_form.composed(*buffers(texts))
    assert np.diff(offsets).tolist() == [4, 1]
    assert bytes(data[offsets[0] : offsets[-1]]).decode() == "\xe2 bc"
