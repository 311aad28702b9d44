"""Costs against sums by hand, and what a step that failed or ended leaves."""

import json
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from test_graph import inputs, recipe, selector

import corpusfit
from corpusfit.core.engine import WarningCollector
from corpusfit.core.errors import StorageError, UsageError
from corpusfit.text.context import Machine
from corpusfit_papers.experiments.costs import ALL, costs_of
from corpusfit_papers.experiments.folder import RecipeFolder
from corpusfit_papers.experiments.graph import build_graph
from corpusfit_papers.experiments.steps import Step, run_step


def record(folder, key, seconds, **more):
    folder.costs.mkdir(exist_ok=True, parents=True)
    found = {"seconds": seconds, "cpu_seconds": 2 * seconds, "versions": {"torch": "2.6"}, **more}
    (folder.costs / f"{key}.json").write_text(json.dumps(found))


def finished(asked, tmp_path):
    """A recipe whose fine-tunings are finished."""
    found = inputs(asked, tmp_path)
    graph = build_graph(found)
    found.folder.scores.mkdir()
    for own in graph.cells.values():
        for tuning in own:
            tuning.out.write_text("{}")
    return found, graph


def test_costs_are_sums_of_records_shared_steps_once(tmp_path):
    asked = recipe(selector("base"), selector("knn", fractions=(0.1, 0.2)), seeds=1, watts=36.0)
    found, graph = finished(asked, tmp_path)
    first, second = [s for s in graph.selections.values() if s.label.endswith("for a")]
    record(found.folder, first.key, 100.0, scored=True)
    record(found.folder, second.key, 1.0)
    record(found.folder, f"{first.key.partition('-')[0]}-z", 30.0, scored=True)  # another recipe's
    for step in graph.adaptations.values():
        record(found.folder, step.key, 10.0, device="cuda")
    for own in graph.cells.values():
        record(found.folder, own[0].name, 3.0)
    costs = costs_of(asked, found.folder, graph)
    # the first amount made the scores, and the second needs them
    assert (costs.columns["knn 0.1"].select_s, costs.columns["knn 0.2"].select_s) == (100.0, 101.0)
    assert costs.columns["base"].select_s == costs.columns["base"].adapt_s == 0
    whole = costs.columns[ALL]
    assert (whole.select_s, whole.adapt_s, whole.tune_s) == (101.0, 40.0, 18.0)
    assert whole.cpu_s == 2 * (101 + 40 + 18)
    assert whole.watt_hours == pytest.approx((36 * 318 + 400 * 40) / 3600)
    assert [c.tune_s for c in costs.cells] == [3.0] * 6
    assert costs.unrecorded == 2  # the selections for b
    assert costs.differing == {}


def test_steps_of_different_libraries_are_named(tmp_path):
    asked = recipe(selector("base"), seeds=2)
    found, graph = finished(asked, tmp_path)
    for own in graph.cells.values():
        record(found.folder, own[0].name, 1.0)
        record(found.folder, own[1].name, 1.0, versions={"torch": "2.7"})
    assert costs_of(asked, found.folder, graph).differing == {"torch": ["2.6", "2.7"]}


def test_deleted_inputs_of_finished_outcomes_are_not_pending(tmp_path):
    """Selections and models are deleted, then one outcome."""
    asked = recipe(selector("base"), selector("knn"))
    found, graph = finished(asked, tmp_path)
    assert not any(graph.pending(found.folder).values())
    assert len(graph.adaptations) == 2
    gone = next(own for cell, own in graph.cells.items() if cell.selector == "knn")[0]
    gone.out.unlink()
    pending = graph.pending(found.folder)
    assert [step.name for step in pending["fine-tunings"]] == [gone.name]
    assert [step.key for step in pending["adaptations"]] == [gone.adapted]
    selection = graph.adaptations[gone.adapted].selection
    assert [step.key for step in pending["selections"]] == [selection]


@dataclass(frozen=True)
class Doing(Step):
    """A step that calls a function."""

    kind = "Doing"
    function: object = field(default=None, compare=False)

    def finished(self, folder):
        return False

    def run(self, folder, machine):
        return self.function()


def run(function, tmp_path, **words):
    return run_step(Doing("k", "", function), RecipeFolder(tmp_path), Machine(**words))


def test_a_full_disk_is_not_a_failure_of_a_step(tmp_path):
    def full():
        raise OSError(28, "No space left on device")

    with pytest.raises(StorageError, match="No space left"):
        run(full, tmp_path)

    def broken():
        raise ValueError("no")

    report = run(broken, tmp_path)
    assert report.error == "ValueError: no"
    assert not list(tmp_path.iterdir())


def test_a_failed_steps_error_and_warnings_are_in_its_report(tmp_path):
    collector = WarningCollector()

    def failing():
        collector.warn("Set `read.text_field`.")
        collector.warn("Set `read.text_field`.")
        raise UsageError("`train.learning_rate` must be above 0; got 0.")

    report = run(failing, tmp_path, progress=collector)
    assert report.error == "`train.learning_rate` must be above 0; got 0."
    assert report.warnings == ("Set `read.text_field`.",)


def test_a_finished_step_writes_its_cost(tmp_path):
    report = run(lambda: {"device": "cpu"}, tmp_path)
    assert not report.error
    found = json.loads((tmp_path / "costs/k.json").read_text())
    assert found["device"] == "cpu"
    assert found["seconds"] >= 0
    assert "python" in found["versions"]
    root = Path(corpusfit.__file__).parents[2]
    if (root / ".git").exists():
        head = subprocess.check_output(["git", "rev-parse", "HEAD"], cwd=root, text=True)
        assert found["commit"] == head.strip()
