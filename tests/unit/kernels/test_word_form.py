"""The form of words: by its definition in Python, and of many texts by their bytes."""

import random
import unicodedata
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from corpusfit.core.types import buffers, text_array
from corpusfit.kernels import word_form as module
from corpusfit.kernels.word_form import word_form, word_forms

CHARACTERS = [
    chr(code)
    for code in range(0xA0, 0x30000)
    if unicodedata.category(chr(code)) not in ("Cn", "Cs", "Co") and code >> 12 != 2
]
MARKS = [char for char in CHARACTERS if unicodedata.combining(char)]
# what the Unicode Character Database has as Default_Ignorable_Code_Point
IGNORABLE = "\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u3164\ufeff\uffa0"
IGNORABLE += "".join(
    chr(code)
    for begin, end in (
        *((0x180B, 0x180F), (0x200B, 0x200F), (0x202A, 0x202E), (0x2060, 0x206F), (0xFE00, 0xFE0F)),
        *((0xFFF0, 0xFFF8), (0x1BCA0, 0x1BCA3), (0x1D173, 0x1D17A), (0xE0000, 0xE0FFF)),
    )
    for code in range(begin, end + 1)
)
ZWSP, ZWNJ, ZWJ = "\u200b", "\u200c", "\u200d"
WRITTEN = [
    *("tòa án luật sư bị cáo", "Ångström naïve", "한국어 문장", "が ぱ ヴ", "कानून की ज़रूर", "আমি ড়"),
    *("luâ\u0323t môt\u0323 Viê\u0323t đă\u0323c", "\u0651\u064e", "e\u0323\u0302 e\u0302\u0323"),
    *("قَانُون أُمَّة آن", "בְּרֵאשִׁית", "x", "", "й ё ї", "Ωμέγα ά", "ไทยน้ำ", "ລາວນ້ຳ"),
]


def by_bytes(texts):
    data, offsets = word_forms(*buffers(text_array(texts)))
    return [bytes(data[a:b]).decode() for a, b in pairwise(offsets)]


@pytest.mark.parametrize("form", ["NFC", "NFD"])
def test_letters_and_marks_are_what_python_makes_of_them(form):
    texts = [unicodedata.normalize(form, text) for text in WRITTEN]
    assert by_bytes(texts) == [unicodedata.normalize("NFC", text) for text in WRITTEN]
    assert by_bytes(["a", *texts[:2], "ö"])[3] == "ö"


@pytest.mark.parametrize(
    ("written", "form"),
    [
        ("ﬁnal eﬀect baﬄe ﬆop", "final effect baffle stop"),
        ("Ｆｕｌｌ　１２３＿ｘ", "Full\u3000123_x"),
        ("𝐛𝐨𝐥𝐝 𝓼𝓬𝓻𝓲𝓹𝓽 𝟙𝟚", "bold script 12"),
        ("ⓕⓡⓔⓔ 🄵 ㊙", "free F 秘"),
        ("1ˢᵗ xₐ ſuch µm Ⅷ ĳ", "1st xa such μm VIII ij"),
        ("ﾊﾟﾝ ｶﾞ ｱｲ", "パン ガ アイ"),
        ("\u2f00\u2f0a \u2e9f", "一入 母"),
        ("\ufedf\ufeb4\ufea8\ufe94 ﻻ الـولد", "\u0644\u0633\u062e\u0629 لا الولد"),
        ("ㅎㅏㄴ ﾡￂ", "하\u1102 가"),
        ("հայերեն և", "հայերեն եւ"),
        ("co\u00adop\u00aderate", "cooperate"),
        ("\ufeffword w\u2060or\ufeffd l\u200eft", "word word lft"),
        (f"wo{ZWSP}rd wo{ZWNJ}rd wo{ZWJ}rd сло{ZWJ}во", "word word word слово"),
        (f"می{ZWNJ}خواهم", "میخواهم"),
        (f"क्{ZWJ}ष ප්{ZWJ}රේ", "क्ष ප්රේ"),
        ("w\U000e0041o\ufe0fr\U000e0100d", "word"),
        ("น\u0e4d\u0e49\u0e32 น\u0e49\u0e4d\u0e32 ทํา", "น้ำ น้ำ ทำ"),
        ("ນ\u0ecd\u0ec9\u0eb2 ໝາ", "ນ້ຳ ຫມາ"),
        (f"漢{ZWSP}字", "漢字"),
    ],
)
def test_a_word_has_one_form(written, form):
    assert [word_form(written), *by_bytes([written])] == [form, form]


@pytest.mark.parametrize(
    "text",
    [
        *("10² x³ ½ ①②", "Foo™ №5 20℃ 5㎞ ㈱", "a…b a\u00a0b “c” d—e", "（，）％", "น้ำ ນ້ຳ"),
        # a space between words of Khmer, Thai and Burmese; parts of an emoji
        *(f"ភាសា{ZWSP}ខ្មែរ", f"ไทย{ZWSP}ไทย", f"မြန်မာ{ZWSP}စာ"),
        *(f"👨{ZWJ}👩{ZWJ}👧", f"🙂{ZWJ}↔", f"👩🏽{ZWJ}🔬"),
    ],
)
def test_what_is_no_letter_of_a_word_stays(text):
    assert [word_form(text), *by_bytes([text])] == [text, text]


def test_every_invisible_character_is_nothing_within_a_word():
    texts = [f"wo{char}rd{char}" for char in IGNORABLE]
    assert {*map(word_form, texts), *by_bytes(texts)} == {"word"}


def test_every_letter_and_digit_is_its_compatible_one():
    """Symbols, and numbers that are no plain digits, aside."""
    for char in CHARACTERS:
        form = unicodedata.normalize("NFKC", char)
        if unicodedata.category(char)[0] == "L" or unicodedata.category(char) == "Nd":
            assert word_form(form.strip()) == word_form(char)
        if unicodedata.category(char) in ("No", "Zs") or char in "™℠":
            assert word_form(char) == unicodedata.normalize("NFC", char)


def test_every_character_and_texts_at_random_have_one_form_by_both_ways():
    rng = random.Random(0)
    some = "aeouAEOUかはضاनর가ệ"
    beside = f"กขคំកខ\u0e49\u0e4d\u0e32👩❤+{ZWSP}{ZWNJ}{ZWJ}\u00ad"
    kinds = (CHARACTERS, MARKS, some, some, [*map(chr, module._forms())], beside)
    texts = [f"x{char}y" for char in CHARACTERS]
    texts += ["".join(rng.choice(rng.choice(kinds)) for _ in range(5)) for _ in range(20_000)]
    # long ones are read 64 bytes at a time
    texts += [f"{'é' * 29}{text}{'w' * 60}" for text in texts[::5]]
    assert by_bytes(texts) == [word_form(text) for text in texts]


@given(st.text(st.characters(codec="utf-8") | st.sampled_from([*IGNORABLE[:40], *"ﬁｶﾞㅏกํา👩"])))
def test_the_form_is_its_own_and_that_of_every_canonical_form(text):
    form = word_form(text)
    assert word_form(form) == form == unicodedata.normalize("NFC", form)
    assert {word_form(unicodedata.normalize(other, text)) for other in ("NFC", "NFD")} == {form}
    assert by_bytes([text, f"{text}a"])[0] == form


def test_a_text_may_grow_by_the_longest_form():
    assert max(len(form.encode()) for form in module._forms().values()) == 3 * module._GROWTH
    assert by_bytes(["ﷺ" * 1000, "a"]) == [word_form("ﷺ") * 1000, "a"]


def test_texts_in_the_form_are_neither_copied_nor_looked_at(monkeypatch):
    texts = [
        "The café’s “naïve” straße – Москва й…",
        "中国的法律，公民。",
        "が日本",
        "कानून ज़रूर",
        "tòa án น้ำ",
    ]
    data, offsets = buffers(text_array(texts))
    monkeypatch.setattr(module, "word_form", None)
    same = word_forms(data, offsets)
    assert same[0] is data
    assert same[1] is offsets


def test_a_part_of_an_array_has_its_own_offsets():
    texts = text_array(["e\u0301", "a\u0302 b", "c\u00ad", "d"])[1:]
    data, offsets = word_forms(*buffers(texts))
    assert np.diff(offsets).tolist() == [4, 1, 1]
    assert bytes(data[offsets[0] : offsets[-1]]).decode() == "\xe2 bcd"
