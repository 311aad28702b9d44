"""The arithmetic of benchmarks/score*.py against closed forms and known answers."""

from __future__ import annotations

import math
from types import SimpleNamespace

import numpy as np
import pytest
from scipy.stats import t as student

import score
import score_cells
import score_tables
from corpusfit.evaluation.task import Examples
from corpusfit.evaluation.tasks import load


def record(rung, digest, *, task="chemprot", column="cynical", date="1", **fields):
    given = {"setting": "continued", "task": task, "column": column, "seed": 0, "rung": rung}
    given |= {"digest": digest, "model": "", "text": "", "result": {}, "made": {"date": date}}
    return given | {"seconds": 1.0, "cpu_seconds": 1.0} | fields


def test_one_adaptation_varies_by_its_examples():
    draws = np.random.default_rng(0).normal(0, 2, 10_000)

    low, high = score_tables.task_interval(np.array([5.0]), draws[None])

    assert (low, high) == pytest.approx((5 - 2 * 1.96, 5 + 2 * 1.96), abs=0.15)


def test_two_adaptations_are_widened_to_their_own_deviation():
    low, high = score_tables.task_interval(np.array([0.0, 2.0]), np.zeros((2, 1)))

    # The resampled means 0, 1 and 2 have variance 1/2; that of the mean of two is 1.
    assert (low, high) == pytest.approx((1 - math.sqrt(2), 1 + math.sqrt(2)))


def test_many_adaptations_give_the_normal_interval():
    gain = np.random.default_rng(1).normal(3, 1, 60)

    low, high = score_tables.task_interval(gain, np.zeros((60, 1)))

    half = 1.96 * gain.std(ddof=1) / math.sqrt(60)
    assert (low, high) == pytest.approx((gain.mean() - half, gain.mean() + half), abs=0.03)


def test_the_mean_of_one_seed_has_students_interval():
    gain = np.array([[1.0], [2.0], [4.0], [1.5]])

    low, high = score_tables.mean_interval(gain)

    half = student.ppf(0.975, 3) * gain.std(ddof=1) / 2
    assert (low, high) == pytest.approx((gain.mean() - half, gain.mean() + half))


def test_what_all_tasks_of_a_seed_share_widens_the_mean():
    tasks = np.array([0.0, 1.0, 3.0, 2.0])
    seeds = np.array([-1.0, 0.0, 2.5])

    low, high = score_tables.mean_interval(tasks[:, None] + seeds)

    variance = tasks.var(ddof=1) / 4 + seeds.var(ddof=1) / 3
    assert high - low == pytest.approx(2 * student.ppf(0.975, 3) * math.sqrt(variance))


def test_a_missing_cell_leaves_its_seed_out_of_the_common_part():
    gain = np.array([[0.0, 5.0], [1.0, np.nan], [2.0, 7.0]])

    low, high = score_tables.mean_interval(gain)

    means = np.array([2.5, 1.0, 4.5])
    half = student.ppf(0.975, 2) * means.std(ddof=1) / math.sqrt(3)
    assert (low, high) == pytest.approx((means.mean() - half, means.mean() + half))


def test_two_tasks_say_nothing_of_others():
    assert score_tables.mean_interval(np.ones((2, 3))) == (-math.inf, math.inf)


def test_resampled_accuracy_varies_as_the_binomial_and_pairs():
    n = 500
    gold = np.arange(n) % 2
    answers = np.where(np.arange(n) % 5 == 0, 0, np.arange(n) % 2)
    examples = Examples([["x"]] * n, [[int(g)] for g in gold])
    kind = load("classification")
    tallies = kind.tally(("a", "b"), examples, answers.astype(np.int32))

    packed = score_cells.resampled("accuracy", kind, tallies)

    found = score_cells.unpacked(packed, np.int16) * score_cells.UNIT
    assert len(found) == score_cells.RESAMPLES
    assert found.std() == pytest.approx(math.sqrt(0.9 * 0.1 / n), rel=0.1)
    assert packed == score_cells.resampled("accuracy", kind, tallies)


def test_a_new_selection_that_is_adapted_on_outdates_what_was_measured_on_the_old_one():
    records = [
        record("select", "s", date="1", result={"text": "old"}),
        record("adapt", "m1", text="old"),
        record("probe", "p1", model="m1"),
        record("probe", "b", column="base", model="base"),
    ]
    cell = ("continued", "chemprot", "cynical", 0)
    selected = [record("select", "s", date="2", result={"text": "new"}), *records[1:]]
    adapted = [*selected, record("adapt", "m2", text="new")]

    assert score_tables.consistent(records)[cell, "probe"]["digest"] == "p1"
    assert score_tables.consistent(selected)[cell, "probe"]["digest"] == "p1"
    assert (cell, "probe") not in score_tables.consistent(adapted)
    assert (("continued", "chemprot", "base", 0), "probe") in score_tables.consistent(adapted)


def test_columns_that_select_the_same_text_share_its_scores():
    records = [
        record("select", "s", result={"text": "one"}),
        record("select", "a", column="auto", result={"text": "one"}),
        record("select", "b", column="bm25", result={"text": "another"}),
        record("adapt", "m", text="one"),
        record("probe", "p", model="m"),
    ]

    kept = score_tables.consistent(records)

    assert {key[2] for key, rung in kept if rung == "probe"} == {"cynical", "auto"}


def test_one_random_model_serves_all_tasks():
    selects = [
        record("select", task, task=task, column="random", result={"text": "same"})
        for task in ("chemprot", "sst2")
    ]
    probes = [
        record("probe", f"{task} probe", task=task, column="random", model="m")
        for task in ("chemprot", "sst2")
    ]

    kept = score_tables.consistent([*selects, record("adapt", "m", text="same"), *probes])

    assert {key[1] for key, rung in kept if rung == "probe"} == {"chemprot", "sst2"}


def test_gains_are_paired_by_seed_and_a_base_serves_all():
    made = score_tables.Value
    values = {
        ("continued", "sst2", column, seed): made(number, np.zeros(1))
        for column, seed, number in (
            ("random", 0, 50.0),
            ("random", 1, 52.0),
            ("cynical", 0, 53.0),
            ("cynical", 1, 53.0),
            ("base", 0, 49.0),
        )
    }
    gains = score_tables.Gains.of

    assert gains(values, "continued", "cynical", "random").gain.tolist() == [[3.0, 1.0]]
    assert gains(values, "continued", "base", "random").gain.tolist() == [[-1.0, -3.0]]


def test_cells_are_one_line_for_each_digest_in_order(tmp_path):
    cells = score_cells.Cells(tmp_path)
    cells.add(record("probe", "b", result={"x": 1}))
    cells.add(record("probe", "a"))
    cells.add(record("probe", "b", result={"x": 2}))

    read = score_cells.Cells(tmp_path).records

    assert list(read) == ["a", "b"]
    assert read["b"]["result"] == {"x": 2}
    assert len((tmp_path / "chemprot.jsonl").read_text("utf-8").splitlines()) == 2


def test_every_column_of_a_task_comes_before_the_next():
    asked = SimpleNamespace(
        seeds=2,
        settings=["continued", "into_german", "translation"],
        tasks=["chemprot", "sst2", "text_it", "bleu_it"],
        columns=["base", "random", "cynical"],
        rungs=["select", "adapt", "probe", "bleu"],
    )

    found = list(score.pieces(asked))

    blocks = list(dict.fromkeys((p.seed, p.setting, p.task) for p in found))
    assert blocks == sorted(blocks)
    assert [p for p in found if p.column == "base" and (p.seed or p.rung == "select")] == []
    assert sum(p.rung == "probe" for p in found) == 10
    assert sum(p.rung == "bleu" for p in found) == 10
    assert "text_it" not in {p.task for p in found}
    assert len(found) == len(set(found))


def test_a_training_is_found_under_the_digest_that_it_was_stored_with(tmp_path, monkeypatch):
    """Else every cell would be computed again."""
    kept = score_cells.Cells(score.HERE / "results" / "score").records
    adapted = [r for r in kept.values() if (r["setting"], r["rung"]) == ("continued", "adapt")]
    pile = score_cells.Pile(tmp_path, tmp_path, tmp_path, 0)
    study = score_cells.Study(pile, pile, tmp_path, None)
    of_model = "3c252cf68a95e76d"  # `file_digest` of the weights of bert-mini-wiki
    monkeypatch.setattr(score_cells.Study, "base_identity", lambda *_: of_model)

    for r in adapted:
        selected = {"result": {"text": r["text"]}}
        monkeypatch.setattr(score_cells.Study, "found", lambda *_, found=selected: found)
        piece = score_cells.Piece(*(r[k] for k in ("setting", "task", "column", "seed", "rung")))
        assert score_cells.digest(study.decides(piece)) == r["digest"]
    assert len(adapted) == 68


def test_the_page_is_what_the_code_makes_of_the_stored_cells():
    asked = SimpleNamespace(
        seeds=3,
        settings=list(score_cells.SETTINGS),
        tasks=list(score_cells.TASKS),
        columns=[*score.COLUMNS[:2], score.EARLIER, *score.COLUMNS[2:]],
        rungs=list(score.RUNGS),
    )
    records = list(score_cells.Cells(score.HERE / "results" / "score").records.values())

    made = score_tables.tables(records, list(score.pieces(asked)))

    page = score.HERE / "score_bleu.md"
    assert page.read_text("utf-8") == "\n\n".join(made) + "\n"
