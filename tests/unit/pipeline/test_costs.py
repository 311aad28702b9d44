"""Costs against sums by hand; linked figures; tables of them."""

import dataclasses
import json

import pytest
from test_graph import inputs, recipe, selector

from corpusfit.errors import StorageError
from corpusfit.pipeline.recipes.correlation import CorrelationRow, together
from corpusfit.pipeline.recipes.costs import ALL, costs_of
from corpusfit.pipeline.recipes.graph import build_graph
from corpusfit.pipeline.recipes.status import todo_of
from corpusfit.pipeline.recipes.workers import run_step


def record(folder, key, seconds, **more):
    folder.costs.mkdir(exist_ok=True, parents=True)
    found = {"seconds": seconds, "cpu_seconds": 2 * seconds, "versions": {"torch": "2.6"}, **more}
    (folder.costs / f"{key}.json").write_text(json.dumps(found))


def finished(asked, tmp_path):
    """A recipe whose fine-tunings are there."""
    found = inputs(asked, tmp_path)
    work = build_graph(found)
    found.folder.scores.mkdir()
    for own in work.cells.values():
        for tuning in own:
            tuning.out.write_text("{}")
    return found, work


def test_costs_are_sums_of_records_shared_steps_once(tmp_path):
    asked = recipe(selector("base"), selector("knn", fractions=(0.1, 0.2)), seeds=1, watts=36.0)
    found, work = finished(asked, tmp_path)
    first, second = [s for s in work.selections.values() if s.label.endswith("for a")]
    record(found.folder, first.key, 100.0, scored=True)
    record(found.folder, second.key, 1.0)
    for step in work.adaptations.values():
        record(found.folder, step.key, 10.0, device="cuda")
    for own in work.cells.values():
        record(found.folder, own[0].name, 3.0)
    costs = costs_of(asked, found.folder, work, [])
    # the scores were made with the first amount, and the second is nothing without them
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
    found, work = finished(asked, tmp_path)
    for own in work.cells.values():
        record(found.folder, own[0].name, 1.0)
        record(found.folder, own[1].name, 1.0, versions={"torch": "2.7"})
    assert costs_of(asked, found.folder, work, []).differing == {"torch": ["2.6", "2.7"]}


def test_what_outcomes_were_made_of_is_not_made_again(tmp_path):
    """Selections and models are thrown away; then one outcome is."""
    asked = recipe(selector("base"), selector("knn"))
    found, work = finished(asked, tmp_path)
    todo = todo_of(work, {}, found.folder)
    assert not any(todo.left.values())
    assert todo.counts()["adaptations"] == (2, 0)
    gone = next(own for cell, own in work.cells.items() if cell.selector == "knn")[0]
    gone.out.unlink()
    todo = todo_of(work, {}, found.folder)
    assert [t.name for t in todo.tunings] == [gone.name]
    assert [s.key for s in todo.adaptations] == [gone.adapted]
    assert [s.key for s in todo.selections] == [work.adaptations[gone.adapted].selection]


def test_a_full_disk_is_no_failure_of_a_step(tmp_path):
    def full():
        raise OSError(28, "No space left on device")

    with pytest.raises(StorageError, match="Make room"):
        run_step("k", full, tmp_path)

    def broken():
        raise ValueError("no")

    report = run_step("k", broken, tmp_path)
    assert report.error == "ValueError: no"
    assert not list(tmp_path.iterdir())


def test_whoever_makes_a_step_writes_what_it_took(tmp_path):
    report = run_step("k", lambda: {"device": "cpu"}, tmp_path)
    assert not report.error
    found = json.loads((tmp_path / "k.json").read_text())
    assert found["device"] == "cpu"
    assert found["seconds"] >= 0
    assert "python" in found["versions"]


def link(task, fall, gain, kl=None):
    return CorrelationRow((task, 0, "m"), "c", 3.0, fall, kl, 0.5, gain)


def test_links_go_together_within_tasks_first():
    """Tasks that differ in both make r = 1 over all, where nothing holds within them."""
    links = [link("a", f, g) for f, g in ((1.0, 0.3), (2.0, 0.2), (3.0, 0.1))]
    links += [
        dataclasses.replace(k, row=("b", 0, "m"), falls=k.falls + 50, gain=k.gain + 5)
        for k in links
    ]
    found = together(links)
    assert found.loss.pearson == pytest.approx(-1)
    assert found.pooled_loss.pearson > 0.9
    assert found.kl is None
    assert found.pooled_kl is None
