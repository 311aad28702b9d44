"""The notes of a recipe's tables."""

import csv as formats
import dataclasses
import io

import pytest
from test_contrasts import comparison, recipe, selector
from test_graph import inputs

from corpusfit.core.errors import ChangedInputError
from corpusfit.training.adapting import Adapted
from corpusfit_papers.experiments import steps
from corpusfit_papers.experiments.costs import Cost
from corpusfit_papers.experiments.graph import build_graph
from corpusfit_papers.experiments.grid import columns_of, grid
from corpusfit_papers.experiments.rendering import csv, plain, records
from corpusfit_papers.experiments.scoring import Result, ScoredCells, adjusted_pairs
from corpusfit_papers.experiments.tables import (
    adapted_table,
    all_cells,
    data_table,
    main_table,
    write_tables,
)

SIZES = {"a": (0,), "b": (0,)}


def scored(asked, error=""):
    cells = grid(asked, SIZES)
    names = columns_of(cells)
    return ScoredCells(
        [Result(c, names[c], "accuracy", [0.5] * asked.seeds, 0.5, error=error) for c in cells],
        [],
        [],
    )


@pytest.mark.parametrize(
    ("adaptations", "seeds", "words"),
    [(1, 4, "one adapted model"), (3, 4, "3 adapted models"), (4, 4, "")],
)
def test_seeds_that_share_adapted_models_are_noted(adaptations, seeds, words):
    asked = recipe(selector("base"), selector("knn"), adaptations=adaptations, seeds=seeds)
    notes = " ".join(main_table(asked, scored(asked)).notes)
    assert ("not independent" in notes) == bool(words)
    assert words in notes


def test_a_row_that_trains_no_model_has_the_number_of_adapted_models():
    asked = recipe(selector("base"), selector("knn"), adaptations=2, seeds=8)
    found = scored(asked)
    for result in found.results:
        if result.cell.task == "b":
            result.scores[:] = [0.5, 0.6]
    (note, *_) = main_table(asked, found).notes
    assert "over 8 seeds (of b: over 2 adapted models)" in note


def test_a_comparison_over_different_kinds_of_training_is_noted():
    asked = recipe(selector("base"), selector("knn", adapters=("lora",)))
    base, ours = [c for c in grid(asked, SIZES) if c.task == "a"]
    names = columns_of([base, ours])
    units = dict.fromkeys(names, "points")
    pairs = adjusted_pairs([(ours, base, False, comparison(0.5))], names, units, named=False)
    found = dataclasses.replace(scored(asked), pairs=pairs)
    assert any(n.startswith("knn lora:") and "base" in n for n in main_table(asked, found).notes)


def test_an_error_is_shown_in_its_unit():
    """As `evaluate` shows it: not negated, not in hundredths, lower is better."""
    asked = recipe(selector("base"), selector("knn"))
    cells = grid(asked, SIZES)
    names = columns_of(cells)
    results = [
        Result(c, names[c], "neg_bits_per_byte", [-4.3], -4.3, 0.01, unit="bits per byte")
        if c.task == "a"
        else Result(c, names[c], "accuracy", [0.5], 0.5)
        for c in cells
    ]
    base, ours = [c for c in cells if c.task == "a"]
    units = {result.cell: result.unit for result in results}
    pairs = adjusted_pairs([(ours, base, False, comparison(0.5))], names, units, named=False)
    found = ScoredCells(results, pairs, [])
    table = main_table(asked, found)
    assert plain(table) == [
        ["a", "bits_per_byte", "4.3000 ± 0.0100", "4.3000 ± 0.0100"],
        ["b", "accuracy", "50.00", "50.00"],
    ]
    assert [r["base"]["mean"] for r in records(table)] == [4.3, 50.0]
    assert any("a: bits per byte" in note for note in table.notes)
    assert "bits per byte" in pairs[0].verdict


def test_a_constant_answer_is_of_its_row():
    """Training sizes may have another most frequent class each."""
    asked = recipe(selector("base"), train_sizes=(5, 9))
    cells = grid(asked, {"a": (5, 9), "b": ()})
    results = [
        Result(c, "base", "accuracy", [0.5], 0.5, one_answer=1, constant=c.size / 10) for c in cells
    ]
    notes = " ".join(main_table(asked, ScoredCells(results, [], [])).notes)
    assert "a, 5 examples 50.00; a, 9 examples 90.00" in notes
    assert "1 of base on a, 5 examples; 1 of base on a, 9 examples" in notes


def test_the_data_table_has_sizes_and_truncated_examples(tmp_path):
    asked = recipe(selector("base"), train_sizes=(10,))
    stored = inputs(asked, tmp_path, sizes=(10,))  # all tasks have 9
    tasks = {k: dataclasses.replace(t, splits=(4, 5), copies=2) for k, t in stored.tasks.items()}
    cells = grid(asked, {"a": (10,), "b": (10,)})
    results = [Result(c, "base", "accuracy", [0.5], 0.5, truncated={"test": 3}) for c in cells]
    table = data_table(dataclasses.replace(stored, tasks=tasks), ScoredCells(results, [], []))
    assert table.rows == tuple((f"{t}, 10 examples", 9, 4, 5, 2, 3) for t in "ab")
    assert "a (9 of 10), b (9 of 10)" in table.notes[1]


def adapted(steps, holders):
    training = {"max_steps": steps, "batch": 8, "length": 128}
    guard = {"texts": 4, "data": {"texts": 100, "holders": holders, "held": 1}}
    where = {"device": "cpu", "precision": "fp32"}
    return {"label": "knn for a", "training": training, "tokens": 9, "guard": guard, **where}


def test_models_that_differ_in_training_are_noted():
    table = adapted_table([adapted(5, 3), adapted(7, 0)])
    assert [row[1:6] for row in table.rows] == [(5, 8, 128, 9, 3), (7, 8, 128, 9, 0)]
    assert len(table.notes) == 2
    assert len(adapted_table([adapted(5, 3), adapted(5, 0)]).notes) == 1


def test_each_cell_has_its_cost_and_errors_are_written(tmp_path):
    asked = recipe(selector("base"))
    found = scored(asked, error="broken \udce9")
    costs = [Cost(1.0, 2.0, 3.0, 4.0, 5.0)] * 2
    rows = list(formats.DictReader(io.StringIO(csv(all_cells(found, costs)))))
    assert [float(row["tune_s"]) for row in rows] == [3.0, 3.0]
    assert [float(row["watt_hours"]) for row in rows] == [5.0, 5.0]
    write_tables(tmp_path, [main_table(asked, found)], all_cells(found, costs), {})
    assert "broken" in (tmp_path / "table.csv").read_text("utf-8")


def test_an_adaptation_that_cannot_be_resumed_starts_over(tmp_path, monkeypatch):
    """A folder that cannot be resumed is replaced, once, with a warning."""
    graph = build_graph(inputs(recipe(selector("knn"), compare="knn"), tmp_path))
    key, piece = next(iter(graph.adaptations.items()))
    half = tmp_path / "models" / key / "half"
    half.parent.mkdir(parents=True)
    half.write_text("")

    def adapt(plan, data, out, **_):
        if half.exists():
            raise ChangedInputError("device was cuda, is cpu")
        facts = {"training": {}, "tokens": 1, "rows": 1, "losses": {}, "counts": {}}
        return Adapted(out, {"device": "cpu", "precision": "fp32", **facts})

    monkeypatch.setattr(steps, "adapt", adapt)
    report = steps.run_in_worker(piece, tmp_path, None, verify=False)
    assert not report.error
    (warning,) = report.warnings
    assert "device was cuda, is cpu" in warning
