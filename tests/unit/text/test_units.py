"""Units and segments as tables: rows, offsets in characters, no documents at all."""

import numpy as np

from corpusfit.core.plan import CutPlan
from corpusfit.core.types import BORDER, Documents, text_array
from corpusfit.text.reading import cut_units, join_units, joined_scores


def cut(texts, rows=None):
    places = np.arange(len(texts)) if rows is None else np.array(rows)
    return cut_units(Documents(places, text_array(texts)), CutPlan(unit="sentence"))


def test_offsets_count_characters_not_bytes():
    units, parts = cut(["𝐀𝐁 👩‍🔬. Ünï. 結合。終", "e\u0301. F"], [7, 9])
    texts = parts.to_pylist()
    assert texts == ["𝐀𝐁 👩‍🔬. ", "Ünï. ", "結合。", "終", "e\u0301. ", "F"]
    assert units.row.tolist() == [7, 7, 7, 7, 9, 9]
    assert (units.end - units.start).tolist() == [len(t) for t in texts]
    assert units.start.tolist()[4:] == [0, 4]


def test_no_unit_crosses_a_border_between_texts_of_a_row():
    rows = [f"Ab. Bc{BORDER}Cd.", "De.", f"Ef.{BORDER}Fg. Gh. Hi.{BORDER}Ij."]
    documents = Documents(np.arange(3), text_array(rows), bordered=True)
    units, parts = cut_units(documents, CutPlan(unit="sentence"))
    assert parts.to_pylist() == ["Ab. ", "Bc", "Cd.", "De.", "Ef.", "Fg. ", "Gh. ", "Hi.", "Ij."]
    assert units.row.tolist() == [0, 0, 0, 1, 2, 2, 2, 2, 2]
    assert units.start.tolist() == [0, 4, 7, 0, 0, 4, 8, 12, 16]
    segments = join_units(units, 2)
    assert segments.units.tolist() == [2, 1, 1, 1, 2, 1, 1]
    # a number is left out where text is
    assert segments.row.tolist() == [0, 0, 1, 2, 2, 2, 2]
    assert segments.segment.tolist() == [0, 2, 0, 0, 2, 3, 5]


def test_no_documents_no_units_no_segments():
    units, texts = cut([])
    segments = join_units(units, 15)
    assert len(units) == len(segments) == 0
    assert texts.to_pylist() == []
    assert joined_scores(np.empty(0, np.float32), segments.units, summed=False).shape == (0,)


def test_a_segments_score_is_the_mean_of_its_units():
    units, _ = cut(["Ab. Bc. Cd. De. Ef.", "Fg."])
    segments = join_units(units, 2)
    scores = joined_scores(np.array([1, 2, 3, 5, 7, 11], np.float32), segments.units, summed=False)
    assert scores.tolist() == [1.5, 4, 7, 11]
    assert scores.dtype == np.float32
    assert segments.row.tolist() == [0, 0, 0, 1]
    assert segments.segment.tolist() == [0, 1, 2, 0]
    assert segments.tokens.tolist() == [4, 4, 2, 2]


def test_a_mean_is_taken_in_double_precision():
    units, _ = cut(["Ab. " * 15])
    scores = np.full(15, 0.1, np.float32)
    assert joined_scores(scores, join_units(units, 15).units, summed=False) == [np.float32(0.1)]


def test_log_importance_weights_of_a_texts_parts_add_up_to_the_texts():
    units, _ = cut(["Ab. Bc. Cd. De. Ef."])
    scores = np.array([1, 2, 3, 4, 5], np.float32)
    assert joined_scores(scores, join_units(units, 2).units, summed=True).tolist() == [3, 7, 5]
