"""`--budget` from end to end. Costs are made up where a test is about the decision: none may hang
on how fast this machine is."""

from __future__ import annotations

import json
import re

import pytest
from journeys import digests

import corpusfit
from corpusfit.core.errors import ChangedInputError, MissingDependencyError
from corpusfit.reporting.examples import read_examples
from corpusfit.scoring import registry
from corpusfit.selection import auto, commands
from corpusfit.selection.cost_model import CostPerGigabyte

HOUR = 3600.0
NETWORK, STATIC = 1e9 * HOUR, 1e6 * HOUR
"""Hours a GB, so many that reading the test's few texts counts for nothing."""
DEAR, MIDDLE, CHEAP = "2000000000h", "2000000h", "2000h"
"""Budgets that allow a network, a static embedder, and words alone."""


@pytest.fixture
def costs(monkeypatch, tiny_static):
    """Made-up costs of encoding, by embedder; the small static model takes the place of `static`.

    Returns the costs, to be changed.
    """
    made_up = {str(tiny_static): STATIC}
    monkeypatch.setattr("corpusfit.selection.budget.FAST", str(tiny_static))
    monkeypatch.setattr(
        CostPerGigabyte, "encoding", lambda _, embed: made_up.get(embed.embedder, NETWORK)
    )
    return made_up


@pytest.fixture
def run(task, pile, tmp_path, inline, costs):
    """`select` with an embedder that no test may really use."""

    def run(budget, out="out", **words):
        given = {"target": task, "corpus": pile, "embedder": "minilm", "machine": inline, **words}
        return corpusfit.select(out=tmp_path / out, budget=budget, **given)

    return run


def forget(run):
    """Leave of a run what a kill after its first shard would."""
    for name in ("manifest.json", ".corpusfit/scored.json", ".corpusfit/fit/scorer.safetensors"):
        (run.path / name).unlink()
    for mark in sorted((run.path / ".corpusfit/scored").glob("part-*.json"))[1:]:
        mark.unlink()


def test_a_budget_for_words_alone(run, task, pile, tmp_path, inline):
    found = run(CHEAP)
    manifest = found.manifest
    assert manifest["budget"]["chosen"] == manifest["method"]["name"] == "moore_lewis"
    assert list(manifest["budget"]["costs"])[::2] == ["minilm", "moore_lewis"]
    assert manifest["encoder"] is None
    assert manifest["warnings"] == []
    assert manifest["plan"]["method"]["name"] == "auto"
    named = corpusfit.select(
        target=task, corpus=pile, out=tmp_path / "named", machine=inline, method="moore_lewis"
    )
    assert digests(found.path) == digests(named.path)


def test_a_budget_for_static_embeddings(run, costs, tiny_static, task, pile, tmp_path, inline):
    found = run(MIDDLE)
    decision = found.manifest["budget"]
    assert decision["chosen"] == str(tiny_static)
    assert decision["costs"]["minilm"] == pytest.approx(NETWORK, rel=1e-3)
    assert decision["costs"][str(tiny_static)] == pytest.approx(STATIC, rel=1e-3)
    assert "moore_lewis" not in decision["costs"]
    assert found.manifest["plan"]["embed"]["embedder"] == "minilm"  # as it was asked for
    ranking = found.manifest["ranking"]
    for v in ranking:
        encodes = registry.build(v["method"], {}).encodes
        assert (v["cost"] > decision["costs"][str(tiny_static)]) == encodes
    named = corpusfit.select(
        target=task, corpus=pile, out=tmp_path / "named", machine=inline, embedder=str(tiny_static)
    )
    assert digests(found.path) == digests(named.path)


def test_a_run_that_fits_goes_on_as_without_a_budget(run, tiny_static):
    with_budget = run(MIDDLE, "with", embedder=str(tiny_static))
    assert list(with_budget.manifest["budget"]["costs"]) == [str(tiny_static)]
    without = run(None, "without", embedder=str(tiny_static))
    assert without.manifest["budget"] is None
    assert digests(with_budget.path) == digests(without.path)


def test_if_nothing_fits_the_cheapest_is_taken_with_a_warning(run, monkeypatch):
    monkeypatch.setattr(CostPerGigabyte, "lexical", lambda *_: 1e5 * HOUR)
    found = run("1h")
    assert found.manifest["method"]["name"] == "moore_lewis"
    (warning,) = found.manifest["warnings"]
    assert re.search(r"The budget 1h allows.*moore_lewis", warning)


@pytest.mark.parametrize("budget", [MIDDLE, CHEAP])
def test_a_resumed_run_decides_the_same(run, costs, tiny_static, monkeypatch, budget):
    first = run(budget)
    before = digests(first.path)
    forget(first)
    costs.update({"minilm": 1.0, str(tiny_static): 0.5})  # another hour, another load
    again = run(budget)
    assert again.manifest["budget"] == first.manifest["budget"]
    assert again.manifest["method"] == first.manifest["method"]
    assert digests(again.path) == before
    monkeypatch.setattr(commands, "decide_by_budget", lambda _: pytest.fail("measured again"))
    assert run(budget).manifest == again.manifest


def test_another_budget_is_another_run(run, tiny_static):
    kept = run(CHEAP).path / ".corpusfit/fit/budget.json"
    before = kept.read_bytes()
    with pytest.raises(ChangedInputError, match=f"auto.budget was '{CHEAP}', is '{MIDDLE}'"):
        run(MIDDLE)
    assert kept.read_bytes() == before
    anew = run(MIDDLE, overwrite=True)
    assert anew.manifest["budget"]["chosen"] == str(tiny_static)
    assert json.loads(kept.read_bytes())["decision"] == anew.manifest["budget"]


def test_choosing_again_keeps_the_decision(run, inline, monkeypatch):
    first = run(MIDDLE)
    corpusfit.choose(first.path, segments=7, machine=inline)
    monkeypatch.setattr(commands, "decide_by_budget", lambda _: pytest.fail("measured again"))
    again = run(MIDDLE, segments=7)
    assert again.manifest["selected"]["segments"] == 7
    assert again.manifest["budget"] == first.manifest["budget"]


def test_examples_of_another_choice_are_of_the_embedder_that_was_decided_on(
    run, inline, monkeypatch
):
    monkeypatch.setattr(auto, "CONTENDERS", ("consensus",))  # a method on embeddings
    found = run(MIDDLE, fraction=0.2)
    before = read_examples(found.path / "examples.parquet", 10**9)
    again = corpusfit.choose(found.path, fraction=0.5, machine=inline)
    after = read_examples(found.path / "examples.parquet", 10**9)
    assert not any("TF-IDF" in warning for warning in again.manifest["warnings"])
    assert before.by == after.by == "embedding"
    places = [{(e["source"], e["row"], e["segment"]) for e in x.corpus} for x in (before, after)]
    assert places[0] & places[1]


def test_an_embedder_that_cannot_be_had_is_left_out(run, monkeypatch, tiny_static):
    def encoding(_, embed):
        raise MissingDependencyError(f"`embed.embedder={embed.embedder}`", "minilm")

    monkeypatch.setattr(CostPerGigabyte, "encoding", encoding)
    found = run(DEAR)
    assert found.manifest["budget"]["chosen"] == "moore_lewis"
    left_out = [
        w for w in found.manifest["warnings"] if w.startswith("The budget does not consider ")
    ]
    assert ["minilm" in left_out[0], str(tiny_static) in left_out[1]] == [True, True]


def test_the_command_line_says_what_was_decided(cli, task, pile, tmp_path, costs, tiny_static):
    inputs = ("--target", task, "--corpus", pile, "--out", tmp_path / "out")
    tried = cli("score", *inputs, "--budget", MIDDLE, "--dry-run")
    done = cli("score", *inputs, "--budget", MIDDLE)
    for said in (tried, done):
        assert f"The budget {MIDDLE} allows" in said.err
        assert f"embeddings by {tiny_static}." in said.err
    assert not cli("score", *inputs, "--method", "random", "--overwrite").err.count("The budget")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--budget", "5"], "got '5'"),
        (["--budget", "1@0"], "got '1@0'"),
        (["--budget", "5min", "--method", "knn"], "knn'"),
        (["--set", "auto.budget=0s"], "got '0s'"),
        (["--budget", "5min", "--cascade", "dsir>static"], "--budget"),
    ],
)
def test_a_wrong_budget_leaves_no_folder(cli, task, pile, tmp_path, arguments, says):
    out = tmp_path / "out"
    done = cli("select", "--target", task, "--corpus", pile, "--out", out, *arguments)
    assert (done.code, done.out) == (2, "")
    assert says in done.err
    assert not out.exists()
