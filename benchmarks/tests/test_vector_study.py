"""The order, the cells and the arithmetic of benchmarks/score_study.py."""

from __future__ import annotations

import numpy as np
import orjson
import pytest
import zstandard
from scipy.stats import ttest_1samp

import score_study as study
from score_cells import Cells

NAMES = ["ag_news", "subj", "trec"]


def test_the_stated_cells_come_first_draw_by_draw_and_no_cell_twice():
    order = [(block, cell) for block, group in study.blocks(NAMES, [0, 1]) for cell in group]

    stated = [cell for block, cell in order if block == "stated"]
    assert [block for block, _ in order[: len(stated)]] == ["stated"] * len(stated)
    assert len(stated) == 2 * 2 * 4 * 2  # draws, tasks, arms, rows
    assert [cell.draw for cell in stated] == sorted(cell.draw for cell in stated)
    assert {cell.task for cell in stated} == {"ag_news", "trec"}
    assert {cell.amount for cell in stated} == {study.STATED_AMOUNT}
    assert len({cell for _, cell in order}) == len(order)
    assert {cell.arm for _, cell in order} == set(study.ARMS)


def filled(folder, points):
    cells = Cells(folder)
    for task, draw in np.ndindex(points.shape):
        for arm, value in (("random", 0.5), ("default", float(0.5 + points[task, draw] / 100))):
            if not np.isnan(value):
                cells.add(
                    {
                        "digest": f"{task}-{draw}-{arm}",
                        "task": f"t{task}",
                        "column": arm,
                        "setting": str(study.STATED_AMOUNT),
                        "seed": draw,
                        "rung": "0",
                        "result": {"accuracy": value, "macro_f1": value},
                    }
                )
    return Cells(folder)


def test_one_draw_is_students_test_over_tasks(tmp_path):
    points = np.random.default_rng(0).normal(2, 3, (12, 1))
    cells = filled(tmp_path, points)

    _, table = study.gains(cells, study.STATED_AMOUNT, 0, "default", "random")
    mean, low, high, p = study.tested(table)

    known = ttest_1samp(points[:, 0], 0)
    assert table[:, 0] == pytest.approx(points[np.argsort([f"t{i}" for i in range(12)]), 0])
    assert p == pytest.approx(known.pvalue)
    assert (low, high) == pytest.approx(tuple(known.confidence_interval()))
    assert mean == pytest.approx(points.mean())


def test_draws_that_are_not_complete_wait(tmp_path):
    points = np.random.default_rng(0).normal(2, 3, (4, 3))
    points[2, 2] = np.nan
    cells = filled(tmp_path, points)

    _, table = study.gains(cells, study.STATED_AMOUNT, 0, "default", "random")

    assert table == pytest.approx(points[:, :2])


def test_packed_answers_are_read_again():
    right = np.random.default_rng(0).random(77) < 0.7

    read = study.unpacked(study.packed(right))

    assert read[:77].astype(bool).tolist() == right.tolist()
    assert not read[77:].any()


def write(path, rows):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(zstandard.compress(b"".join(orjson.dumps(row) + b"\n" for row in rows)))


@pytest.mark.slow
def test_a_small_study_computes_every_cell_and_goes_on_where_it_was(tmp_path):
    rng = np.random.default_rng(0)
    kinds = ("fruit", "car")

    def text(kind, words=12):
        return " ".join(f"{kind}{n}" for n in rng.integers(0, 99, words))

    data = tmp_path / "data"
    rows = [{"text": text(kinds[i % 2]), "label": i % 2} for i in range(160)]
    write(data / "tasks" / "one" / "train.jsonl.zst", rows[:100])
    write(data / "tasks" / "one" / "dev.jsonl.zst", rows[100:120])
    write(data / "tasks_more" / "two" / "train.jsonl.zst", rows[:100])
    write(data / "tasks_more" / "two" / "test.jsonl.zst", rows[120:140])
    write(data / "tasks" / "one" / "test.jsonl.zst", rows[140:])
    corpus = [{"text": text(kinds[i % 2], 60)} for i in range(800)]
    write(data / "pile" / "a.jsonl.zst", [*corpus[:600], {"text": rows[150]["text"]}])
    write(data / "pile_more" / "b.jsonl.zst", corpus[600:])
    run = study.Study(data, tmp_path / "work", None)
    asked = study.argparse.Namespace(tasks=None, draws=[0], blocks=["stated", "own"], before=None)

    study.compute(run, Cells(tmp_path / "cells"), asked)

    found = Cells(tmp_path / "cells").records
    assert len(found) == 2 * (4 + 1) * 2
    assert run.dirty() == {"a.jsonl.zst": [600], "b.jsonl.zst": []}
    words = {r["result"]["words"] for r in found.values() if r["column"] != "own"}
    assert len(words) == 1
    before = {path: path.read_bytes() for path in (tmp_path / "cells").glob("*.jsonl")}
    gone = next(digest for digest, r in found.items() if r["column"] == "dsir")
    path = tmp_path / "cells" / f"{found[gone]['task']}.jsonl"
    kept = [s for s in path.read_bytes().splitlines(True) if gone.encode() not in s]
    path.write_bytes(b"".join(kept))

    study.compute(run, Cells(tmp_path / "cells"), asked)

    again = Cells(tmp_path / "cells").records[gone]["result"]
    assert again["accuracy"] == found[gone]["result"]["accuracy"]
    assert again["right"] == found[gone]["result"]["right"]
    assert {p for p in before if p != path} == {
        p for p in before if p.read_bytes() == before[p]
    } - {path}
