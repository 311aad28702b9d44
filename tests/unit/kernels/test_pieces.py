"""The estimate of word pieces against plain Python, in every script."""

import itertools
import unicodedata

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from corpusfit.kernels import cut

SOLO = ("CJK", "HIRAGANA", "KATAKANA", "BOPOMOFO", "YI SYLLABLE", "HALFWIDTH KATAKANA")
SPACED = ("THAI", "LAO", "KHMER", "MYANMAR", "TIBETAN", "TAI ", "NEW TAI")
SCRIPTS = [
    "abc XYZ ñéü",
    "абв где",
    "ابت ثجح ٠١٢",
    "กขคงั้์ ๑๒๓",
    "細胞の受容体カタ。",
    "激酶抑制剂，！",
    "한국어 문장",
    "हिन्दी वाक्य।",
    "0123456789",
    ".,!?()-\"'…",
    " \t\n\r\u00a0\u2028",
    "👩‍🔬🧪🏽",
    "e\u0301o\u0308",
    "𠀀𡀀𝐀",
]
texts = st.text(st.sampled_from("".join(SCRIPTS)), min_size=1, max_size=120) | st.text(min_size=1)


CUTTING = [cut.WINDOW, cut.SENTENCE, cut.PARAGRAPH, cut.FIXED]


def kind(char):
    """letter, digit, blank, or one piece by itself."""
    if char in "\n\r\v\f\x85\u2028\u2029" or unicodedata.category(char) in ("Zs", "Cc"):
        return "blank"
    if ord(char) >= 0x20000:
        return "single"
    if unicodedata.category(char)[0] in "LM":
        without_spaces = unicodedata.name(char, "").startswith(SOLO + SPACED)
        return "single" if without_spaces else "letter"
    return "digit" if unicodedata.category(char) == "Nd" else "single"


def pieces(text):
    """A word of up to six letters is one, every four further one more; three digits are one."""
    total = 0
    for what, run in itertools.groupby(text, kind):
        n = len(list(run))
        if what == "letter":
            total += 1 + max(0, -(-(n - 6) // 4))
        elif what == "digit":
            total += -(-n // 3)
        elif what == "single":
            total += n
    return total


def counted(text, mode, limit=10**6):
    data = np.frombuffer(text.encode(), np.uint8)
    _, _, lengths, found = cut.cut_points(
        data, np.array([0, len(data)]), cut.class_table(), mode, limit
    )
    return np.cumsum(lengths), found


@given(texts)
def test_a_document_has_the_pieces_of_its_words_digits_and_signs(text):
    ends, found = counted(text, cut.WHOLE)
    assert (ends.tolist(), found.tolist()) == ([len(text)], [pieces(text)])


@given(texts, st.sampled_from(CUTTING), st.integers(1, 9))
def test_cutting_loses_no_piece_and_keeps_words_that_fit_whole(text, mode, limit):
    ends, found = counted(text, mode, limit)
    assert found.sum() == pieces(text)
    assert found.max() <= limit
    starts = [0, *ends[:-1]]
    for start, end, n in zip(starts, ends, found, strict=True):
        inside_a_word = end < len(text) and kind(text[end]) == kind(text[end - 1]) == "letter"
        if n == pieces(text[start:end]):
            continue
        broken = start and kind(text[start]) in ("letter", "digit")  # a word longer than the limit
        assert broken or inside_a_word


@pytest.mark.parametrize(
    ("mode", "limit", "units"),
    [
        (cut.FIXED, 2, ["one two ", "three four"]),
        (cut.FIXED, 4, ["One two. Three ", "four five."]),
        (cut.WINDOW, 4, ["One two. ", "Three four five."]),
        (cut.WINDOW, 4, ["受容体に", "結合"]),
        (cut.WINDOW, 6, ["第一。第二。", "第三。"]),
        (cut.PARAGRAPH, 99, ["a\n\n", "b c\n\n\n", "d"]),
        (cut.PARAGRAPH, 99, ["a\r\n\r\n", "b\r\nc"]),
        (
            cut.SENTENCE,
            99,
            ["Dr. A. B. Smith came. ", "He left!"],
        ),
        (
            cut.SENTENCE,
            99,
            ["It was 3.5 mm. ", "(See above.) ", "Then"],
        ),
        (
            cut.SENTENCE,
            99,
            ["Er kam z.B. um 5 Uhr. ", "Dann ging er."],
        ),
        (cut.SENTENCE, 99, ["「はい。」", "と言った。", "次へ。"]),
        (cut.SENTENCE, 99, ["他说：“好！”", "我走了。"]),
        (cut.SENTENCE, 99, ["ผมไปตลาด ", "เขาอยู่บ้าน"]),
        (cut.SENTENCE, 99, ["هل أنت هنا؟ ", "نعم."]),
        (cut.SENTENCE, 99, ["   "]),
        (cut.SENTENCE, 99, ["  . ", ". ", ".  "]),
    ],
)
def test_units_by_hand(mode, limit, units):
    text = "".join(units)
    ends, _ = counted(text, mode, limit)
    assert [text[a:b] for a, b in itertools.pairwise([0, *ends])] == units
