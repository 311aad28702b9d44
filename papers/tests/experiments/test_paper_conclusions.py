"""The conclusions that papers/tables/from_recipes.py writes above the papers' tables."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import numpy as np
import pytest

from corpusfit_papers.experiments.loader import read_recipe

ROOT = Path(__file__).parents[3]
RECIPES = ROOT / "papers" / "recipes"


@pytest.fixture(scope="module", autouse=True)
def found():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "path", [str(ROOT / "papers" / "tables"), *sys.path])
        yield


@pytest.fixture
def script():
    return importlib.import_module("from_recipes")


def test_every_recipe_has_the_papers_finding(monkeypatch, script):
    for name in ("CORPUSFIT_DATA", "CORPUSFIT_MODELS", "CORPUSFIT_PAIRS"):
        monkeypatch.setenv(name, "/somewhere")
    files = {p.stem.removesuffix("_cpu"): p for p in RECIPES.glob("*_cpu.toml")}
    separations = {n for n, p in files.items() if "[separation]" in p.read_text("utf-8")}
    assert script.SEPARATIONS.keys() == separations
    for name in files.keys() - separations:
        read_recipe(files[name])
    assert script.PAPERS.keys() | {script.CROSS} == files.keys() - separations


def test_tables_stand_where_their_scripts_write_them(script):
    """Those of recipes as far as they have been run, which is most."""
    run = importlib.import_module("run")
    written = {name for name in run.TABLES if (run.RESULTS / f"{name}.json").exists()}
    assert written == run.TABLES.keys()
    recipes = {*script.SEPARATIONS, *script.PAPERS, script.CROSS}
    written = {name for name in recipes if (script.RESULTS / f"{name}.json").exists()}
    assert len(written) > len(recipes) / 2


def test_every_recipe_gets_a_conclusion(script):
    """From a table of one column, which is 1.5 points ahead and not significantly."""
    cell = {"task": "t", "size": 100, "model": "m"}
    finding = {"row": ["t", 100, "m"], "column": "knn", "base": "base", "named": False}
    table = {
        "recipe": {"compare": "base"},
        "results": [{"cell": cell, "metric": "accuracy"}],
        "gains": [{"column": "knn", "mean": 0.015, "size": None}],
        "pairs": [{**finding, "adjusted": 0.2, "comparison": {"difference": 0.015}}],
        "forecasts": {"loss": {"pearson": 0.5, "p": 0.1, "n": 3}, "equal": None},
    }
    for name, found in script.PAPERS.items():
        said = script.gains(name, table)
        assert "of 1 row: `knn` +1.5. Of 1 comparisons 0 show a difference" in said
        assert found in said
        assert said.endswith(f"{script.DIFFERS[name.partition('_')[0]]}.")


def test_figure_4_is_by_bert_as_it_is_at_the_scale_of_the_paper(monkeypatch, tmp_path):
    """Section 3.2; on two processor cores by MiniLM."""
    cross = importlib.import_module("cross_domain")
    seen = []

    def vectors(texts, plan):
        seen.append((plan.embedder, plan.pooling, plan.unit_length))
        return np.array([[1.0, float(texts[0])]])

    monkeypatch.setattr(cross, "vectors", vectors)
    domains = ["0", "1", "2"]
    for domain in domains:
        (tmp_path / domain).mkdir()
        (tmp_path / domain / "dev.en").write_text(f"{domain}\n", "utf-8")
    score = {(m, t): 0.5 - 0.1 * abs(int(m) - int(t)) for m in domains for t in domains}
    score |= {(name, task): 0.3 for name in ("general", "base") for task in domains}
    table = {
        "recipe": {"tasks": [{"name": d, "path": str(tmp_path / d)} for d in domains]},
        "results": [
            {"cell": {"task": task, "selector": model}, "metrics": {"bleu": of, "chrf": of}}
            for (model, task), of in score.items()
        ],
    }
    for scale, expected in (
        ("paper", ("bert-base-uncased", "mean", False)),
        ("cpu", ("minilm", "", True)),
    ):
        seen.clear()
        assert "3 of 3 tests" in cross.cross_domain(table, scale)
        assert seen == [expected] * 3


def test_the_papers_f1_are_of_its_seven_tasks(script):
    """TADPOLE, Table 1: isolation forest is first by the mean of them, LOF the second."""
    means = {method: sum(f1) / len(script.PAPER_TASKS) for method, f1 in script.PAPER_F1.items()}
    assert {len(f1) for f1 in script.PAPER_F1.values()} == {7}
    assert sorted(means, key=means.get)[-2:] == ["lof", "isolation_forest"]


@pytest.mark.parametrize("row", ["IMDB", "IMDB, Wikipedia", "IMDB, all sources"])
def test_a_failed_threshold_does_not_hide_who_is_last(script, row):
    """By F1 PCA is last, by its threshold; by AUROC isolation forest is."""
    cells = {
        (row, method): [{"f1": f1, "auroc": auroc}]
        for method, f1, auroc in zip(
            script.PAPER_F1, (0.9, 0.9, 0.1, 0.9, 0.9, 0.8), (0.9,) * 5 + (0.8,), strict=True
        )
    }
    said = script.table1(cells)
    assert "number 5 of 6 (0.800), and by AUROC, which has no threshold, number 6 of 6" in said
    assert ("the tasks' own domains" in said) == (row == "IMDB, all sources")
