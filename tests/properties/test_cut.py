"""The unit kernel: exact tiling and the limit on any text, borders on known sentences."""

import re
import unicodedata

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from corpusfit.core.plan import CutPlan
from corpusfit.core.types import Documents, text_array
from corpusfit.kernels import cut
from corpusfit.text.reading import cut_units, join_units, joined_scores

MODES = ["window", "sentence", "paragraph", "fixed", "document"]
words = st.sampled_from(
    [
        "Hello",
        "world",
        "e.g.",
        "Dr.",
        "3.14",
        "今天天气。",
        "ไปตลาด",
        "привет",
        "👍🏽",
        "naïve",
        "a" * 90,
    ]
)
texts = st.one_of(
    st.text(min_size=1, max_size=300),
    st.lists(st.tuples(words, st.sampled_from([" ", ". ", "\n\n", "! ", "", "\r\n\r\n"]))).map(
        lambda pairs: "".join(w + s for w, s in pairs) or "x"
    ),
)


def units(text, mode="window", pieces=256):
    documents = Documents(np.zeros(1, np.int64), text_array([text]))
    found, parts = cut_units(documents, CutPlan(unit=mode, pieces=pieces))
    return found, parts.to_pylist()


@given(texts, st.sampled_from(MODES), st.integers(1, 40))
def test_units_tile_the_document_and_keep_the_limit(text, mode, limit):
    found, parts = units(text, mode, limit)
    assert "".join(parts) == text
    assert found.start[0] == 0
    assert found.end[-1] == len(text)
    assert (found.start[1:] == found.end[:-1]).all()
    assert (found.end > found.start).all()
    if mode != "document":
        assert found.pieces.max() <= limit
    else:
        assert len(parts) == 1


def estimated_pieces(text):
    """The estimate again, in plain Python, from its description."""
    total = 0
    for run in re.findall(r"[^\W\d_]+|\d+|\S", text):
        if run.isdigit():
            total += -(-len(run) // 3)
        elif run.isalpha():
            total += 1 + max(0, -(-(len(run) - 6) // 4))
        else:
            total += 1
    return total


@given(st.text(st.sampled_from("abcdefgXYZ    0123456789.,!?-\n"), min_size=1, max_size=400))
def test_piece_estimate_equals_a_plain_reference(text):
    found, _ = units(text, "document")
    assert found.pieces[0] == estimated_pieces(text)


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        ("He met J. R. Smith. Then left.", ["He met J. R. Smith. ", "Then left."]),
        (
            "See Fig. 3 and Dr. Who. It costs 3.14 m.",
            ["See Fig. 3 and Dr. Who. ", "It costs 3.14 m."],
        ),
        ('He said "No." She went.', ['He said "No." ', "She went."]),
        ("ends in etc. and goes on", ["ends in etc. and goes on"]),
        ("Das ist z.B. gut. Nr. 5 lebt.", ["Das ist z.B. gut. ", "Nr. 5 lebt."]),
        (
            "今天天气很好。我们去公园吧！“好啊。”他说。",
            ["今天天气很好。", "我们去公园吧！", "“好啊。”", "他说。"],
        ),
        ("これはペンです。あれは何？", ["これはペンです。", "あれは何？"]),
        ("ฉันไปตลาด วันนี้อากาศดี", ["ฉันไปตลาด ", "วันนี้อากาศดี"]),
        ("यह एक वाक्य है। यह दूसरा है।", ["यह एक वाक्य है। ", "यह दूसरा है।"]),
        ("ខ្ញុំ ទៅសាលា។គាត់ទៅ ។ ល្អ៕", ["ខ្ញុំ ទៅសាលា។", "គាត់ទៅ ។ ", "ល្អ៕"]),
        ("ကျွန်တော် သွားတယ်။မိုးရွာ၊ အေးတယ်။", ["ကျွန်တော် သွားတယ်။", "မိုးရွာ၊ အေးတယ်။"]),
        ("ང་འགྲོ་གི་ཡོད།ཁྱེད་རང་ཡག་པོ། །ང་དགའ།།", ["ང་འགྲོ་གི་ཡོད།", "ཁྱེད་རང་ཡག་པོ། །", "ང་དགའ།།"]),
        ("ᱤᱧ ᱪᱟᱞᱟᱜᱼᱟ᱾ ᱟᱢ ᱦᱤᱡᱩᱜ ᱢᱮ᱾", ["ᱤᱧ ᱪᱟᱞᱟᱜᱼᱟ᱾ ", "ᱟᱢ ᱦᱤᱡᱩᱜ ᱢᱮ᱾"]),
        ("Title\n\nFirst line\nstill first.", ["Title\n\n", "First line\nstill first."]),
    ],
)
def test_sentence_borders(text, sentences):
    assert units(text, "sentence")[1] == sentences


def test_a_window_ends_at_a_sentence_and_only_then_at_a_word():
    text = "One two three. Four five six. " + "Seven " * 10
    parts = units(text, "window", 8)[1]
    assert parts[0] == "One two three. Four five six. "
    assert all(p.endswith(" ") for p in parts)
    assert units("x" * 100, "window", 3)[1][0] == "x" * (6 + 4 + 4)


def test_every_assigned_character_has_a_class_and_thai_marks_stay_in_words():
    table = cut.class_table()
    assert table.shape == (0x110000,)
    for char in "ั้์":  # Thai marks carry their letter's class
        assert unicodedata.category(char)[0] == "M"
        assert table[ord(char)] == table[ord("ก")]


@given(st.lists(st.integers(1, 50), min_size=1, max_size=8), st.integers(1, 20))
def test_segments_join_gamma_units_and_never_cross_documents(lengths, gamma):
    documents = Documents(7 * np.arange(len(lengths)), text_array(["A b. " * n for n in lengths]))
    found, _ = cut_units(documents, CutPlan(unit="sentence"))
    segments = join_units(found, gamma)
    scores = np.random.default_rng(0).random(len(found)).astype(np.float32)
    expected, means, at = [], [], 0
    for i, n in enumerate(lengths):
        for number, first in enumerate(range(0, n, gamma)):
            count = min(gamma, n - first)
            expected.append((7 * i, number, 5 * first, 5 * (first + count), count, 3 * count))
            means.append(np.mean(scores[at : at + count], dtype=np.float64))
            at += count
    got = zip(
        *(getattr(segments, n) for n in ("row", "segment", "start", "end", "units", "tokens")),
        strict=True,
    )
    assert [tuple(map(int, g)) for g in got] == expected
    np.testing.assert_allclose(
        joined_scores(scores, segments.units, summed=False), means, rtol=1e-6
    )
