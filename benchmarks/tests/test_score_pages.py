"""What is stored of benchmarks/score_study.py and score_rungs.py, its arithmetic and its pages."""

from __future__ import annotations

import math
from xml.etree import ElementTree as ET

import numpy as np
import orjson
import pytest

import score_pages
import score_rungs
import score_study as study
from score_cells import Cells

RIGHT = np.arange(100) < 50


def cell(task, draw, arm, rung, amount=study.STATED_AMOUNT, **result):
    """A cell as `score_study.compute` stores it."""
    return {
        "digest": f"{task}-{draw}-{arm}-{rung}-{amount}",
        "task": task,
        "column": arm,
        "setting": str(amount),
        "seed": draw,
        "rung": rung,
        "result": result,
        "made": {"commit": "0123456789abcdef", "cpu": "a processor"},
    }


def vectors(task, draw, arm, share, **more):
    """A cell of vectors that answers a share of 100 test texts right."""
    right = np.arange(100) < round(100 * share)
    times = {"select_s": 3600.0, "vectors_s": 1800.0, "classify_s": 36.0, "words": 9, "types": 5}
    answers = {"accuracy": share, "macro_f1": share, "right": study.packed(right)}
    return cell(task, draw, arm, more.pop("rung", "0"), **answers | times, **more)


def filled(folder, records):
    cells = Cells(folder)
    for record in records:
        cells.add(record)
    return Cells(folder)


def stated(draws, tasks=("a", "b", "c")):
    shares = {"random": 0.5, "default": 0.6, "moore_lewis": 0.55, "dsir": 0.4}
    return [
        vectors(task, draw, arm, round(share + 0.01 * i, 2))
        for draw in draws
        for i, task in enumerate(tasks)
        for arm, share in shares.items()
    ]


def test_cells_are_stored_with_their_costs_counted_once(tmp_path):
    filled(tmp_path / "one", stated([0]))
    of_rows = vectors("a", 0, "default", 0.5, rung="100")
    bits = cell("a", 0, "default", "bits", bits=7.5, cpu_s=7200.0)
    filled(tmp_path / "two", [*stated([1])[:-1], of_rows, bits])

    filled(tmp_path / "three", stated([0])[:2])  # the same cells again

    study.keep([tmp_path / name for name in ("one", "two", "three")], tmp_path / "kept")

    kept = Cells(tmp_path / "kept").records.values()
    assert {r["seed"] for r in kept} == {0}  # a cell of the second draw is missing
    assert len(kept) == 12 + 2
    assert sum("right" in r["result"] for r in kept) == 12
    facts = orjson.loads((tmp_path / "kept" / "made.json").read_bytes())
    # the vectors of one hundred rows are those of all rows
    assert facts["core_hours"] == {"descriptive": 0.01, "rungs": 2.0, "stated": 18.12}
    assert facts["words"] == 9
    assert facts["draws"] == 1
    assert all("made" not in r and "select_s" not in r["result"] for r in kept)


def test_points_of_a_task_have_the_interval_of_paired_answers(tmp_path):
    cells = filled(tmp_path, stated([0]))

    mean, low, high = score_pages.task_points(cells)["default"]["a"]

    # of 100 texts, 10 more are right and none less: a variance of .09 for each text
    half = 1.96 * math.sqrt(0.09 / 100) * 100
    assert mean == pytest.approx(10)
    assert (low, high) == pytest.approx((10 - half, 10 + half), abs=1.0)


def test_the_picture_has_a_point_for_each_task_and_arm_from_high_to_low(tmp_path):
    records = [
        vectors(f"t{i}", 0, arm, 0.5 + gain * i / 100)
        for i in range(5)
        for arm, gain in (("random", 0), ("default", 2), ("moore_lewis", 1), ("dsir", -1))
    ]

    drawn = ET.fromstring(score_pages.picture(filled(tmp_path, records)))

    titles = [e.text for e in drawn.iter("title")] + [
        e.text for e in drawn.iter("{http://www.w3.org/2000/svg}title")
    ]
    assert len(titles) == (5 + 1) * 3
    of_default = [title for title in titles if "the default" in title]
    assert [title.partition(",")[0] for title in of_default] == [
        *("mean of 5 tasks", "t4", "t3", "t2", "t1", "t0")
    ]
    assert "t4, the default: +8.0" in of_default[1]


def of_two(folder, pairs):
    """Tasks with two selections: bits of each, and how many of 100 texts each answers right."""
    records = []
    for task, selections in pairs.items():
        for arm, (bits, share) in zip(("random", "default"), selections, strict=True):
            records += [vectors(task, 0, arm, share), cell(task, 0, arm, "bits", bits=bits)]
    return filled(folder, records)


def test_a_decision_counts_where_the_dearer_measure_tells_two_selections_apart(tmp_path):
    cells = of_two(
        tmp_path,
        {
            "right": [(9.0, 0.5), (8.0, 0.7)],
            "wrong": [(8.0, 0.5), (9.0, 0.7)],
            "tie": [(8.0, 0.7), (8.0, 0.5)],
            "alike": [(8.0, 0.5), (9.0, 0.54)],  # McNemar's exact p of 4 and 0 is .125
            "just": [(9.0, 0.5), (8.0, 0.56)],  # of 6 and 0 it is .031
        },
    )

    found = score_rungs.decisions(cells, "bits", "0", False)

    assert {task: counts.tolist() for task, counts in found.items()} == {
        "right": [1, 1, 1],
        "wrong": [0, 1, 1],
        "tie": [0.5, 1, 1],
        "alike": [0, 0, 1],
        "just": [1, 1, 1],
    }
    assert score_rungs.decisions(cells, "bits", "0", True) == {}


def test_the_share_of_right_decisions_has_the_interval_of_its_tasks():
    one_each = np.array([[1.0, 1.0, 1.0]] * 30 + [[0.0, 1.0, 1.0]] * 10)

    share, low, high = score_rungs.share(one_each)

    error = 1.96 * math.sqrt(0.75 * 0.25 / 40)
    assert share == 0.75
    assert (low, high) == pytest.approx((0.75 - error, 0.75 + error), abs=0.03)


def test_a_trigram_of_the_texts_themselves_needs_fewer_bits():
    texts = ["one two three four five six seven"] * 20 + ["five six one two seven"] * 9

    own = score_rungs.bits(texts, texts[:1])["bits"]
    other = score_rungs.bits(texts, ["nine ten eleven"])["bits"]

    assert own < 2
    # an unknown word costs at least its share of the vocabulary
    assert other > math.log2(score_rungs.VOCABULARY) * 3 / 4


def test_texts_are_taken_up_to_the_one_that_reaches_the_words():
    texts = ["one two three", "four five", "six"]

    assert score_rungs.first(texts, 3) == texts[:1]
    assert score_rungs.first(texts, 4) == texts[:2]
    assert score_rungs.first(texts, 99) == texts


def test_models_are_trained_on_twelve_tasks_that_no_result_chose():
    kept = [f"t{i:02}" for i in range(38)]

    tasks = score_rungs.trained([*kept, *study.APART, *score_rungs.LARGE])

    assert tasks == kept[2::3]
    assert len(tasks) == 12


@pytest.mark.slow
def test_pages_picture_and_readme_are_what_the_code_makes_of_the_stored_cells():
    made = score_pages.pages()

    for path, text in made.items():
        assert path.read_text("utf-8") == text
    assert len(made) == 3
    cells = Cells(score_pages.CELLS)
    for name, said in (
        ("../README.md", score_pages.summary(cells)),
        ("ranking.md", score_pages.bits_decide(cells)),
        ("which-method.md", score_pages.bits_decide(cells)),
    ):
        assert said in " ".join((score_pages.DOCS / name).read_text("utf-8").split())
