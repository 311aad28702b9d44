"""Costs against sums by hand, and correlations of predictors with gains."""

import dataclasses
import json
import subprocess
from pathlib import Path

import numpy as np
import pytest
import scipy.stats
from test_graph import inputs, recipe, selector

import corpusfit
from corpusfit.core.errors import StorageError, UsageError
from corpusfit.experiments.correlation import CorrelationRow, correlate
from corpusfit.experiments.costs import ALL, costs_of
from corpusfit.experiments.graph import build_graph
from corpusfit.experiments.status import pending_steps
from corpusfit.experiments.workers import WarningCollector, run_step


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
    costs = costs_of(asked, found.folder, graph, [])
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
    assert costs_of(asked, found.folder, graph, []).differing == {"torch": ["2.6", "2.7"]}


def test_deleted_inputs_of_finished_outcomes_are_not_pending(tmp_path):
    """Selections and models are deleted, then one outcome."""
    asked = recipe(selector("base"), selector("knn"))
    found, graph = finished(asked, tmp_path)
    pending = pending_steps(graph, {}, found.folder)
    assert not any(pending.left.values())
    assert pending.counts()["adaptations"] == (2, 0)
    gone = next(own for cell, own in graph.cells.items() if cell.selector == "knn")[0]
    gone.out.unlink()
    pending = pending_steps(graph, {}, found.folder)
    assert [t.name for t in pending.tunings] == [gone.name]
    assert [s.key for s in pending.adaptations] == [gone.adapted]
    assert [s.key for s in pending.selections] == [graph.adaptations[gone.adapted].selection]


def test_a_full_disk_is_not_a_failure_of_a_step(tmp_path):
    def full():
        raise OSError(28, "No space left on device")

    with pytest.raises(StorageError, match="No space left"):
        run_step("k", full, tmp_path)

    def broken():
        raise ValueError("no")

    report = run_step("k", broken, tmp_path)
    assert report.error == "ValueError: no"
    assert not list(tmp_path.iterdir())


def test_a_failed_steps_error_and_warnings_are_in_its_report(tmp_path):
    collector = WarningCollector()

    def failing():
        collector.warn("Set `read.text_field`.")
        collector.warn("Set `read.text_field`.")
        raise UsageError("`train.rate` must be above 0; got 0.")

    report = run_step("k", failing, tmp_path, collector)
    assert report.error == "`train.rate` must be above 0; got 0."
    assert report.warnings == ("Set `read.text_field`.",)


def test_a_finished_step_writes_its_cost(tmp_path):
    report = run_step("k", lambda: {"device": "cpu"}, tmp_path)
    assert not report.error
    found = json.loads((tmp_path / "k.json").read_text())
    assert found["device"] == "cpu"
    assert found["seconds"] >= 0
    assert "python" in found["versions"]
    root = Path(corpusfit.__file__).parents[2]
    if (root / ".git").exists():
        head = subprocess.check_output(["git", "rev-parse", "HEAD"], cwd=root, text=True)
        assert found["commit"] == head.strip()


def row(task, fall, gain, kl=None):
    return CorrelationRow((task, 0, "m"), "c", 3.0, fall, kl, 0.5, gain)


def test_correlations_are_within_tasks():
    """Tasks that differ in both give a pooled r near 1, whatever holds within them."""
    links = [row("a", f, g) for f, g in ((1.0, 0.3), (2.0, 0.2), (3.0, 0.1))]
    links += [
        dataclasses.replace(k, row=("b", 0, "m"), falls=k.falls + 50, gain=k.gain + 5)
        for k in links
    ]
    found = correlate(links)
    assert found.loss.pearson == pytest.approx(-1)
    assert found.pooled_loss.pearson > 0.9
    assert found.kl is None
    assert found.pooled_kl is None


def test_models_of_equal_general_loss():
    """TADPOLE, Figure 3: of each task the most models within 0.02 of each other; against scipy."""
    rng = np.random.default_rng(2)
    general = {"a": [3.00, 3.01, 3.02, 3.50, 2.90], "b": [1.0, 1.019, 1.03, 1.038, None]}
    rows = [
        dataclasses.replace(row(task, *rng.normal(size=2)), general=loss)
        for task, losses in general.items()
        for loss in losses
    ]
    found = correlate(rows)
    kept = [rows[i] for i in (0, 1, 2, 6, 7, 8)]
    x, y = (
        np.concatenate([np.subtract(part, np.mean(part)) for part in np.split(np.array(v), 2)])
        for v in ([r.falls for r in kept], [r.gain for r in kept])
    )
    assert (found.equal.n, found.equal.groups) == (6, 2)
    assert found.equal.pearson == pytest.approx(scipy.stats.pearsonr(x, y)[0])
    assert correlate([dataclasses.replace(r, general=None) for r in rows]).equal is None
