"""The arithmetic of benchmarks/benefit_tables.py against closed forms and SciPy."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import spearmanr

PATH = Path(__file__).parents[2] / "benchmarks" / "benefit_tables.py"


@pytest.fixture(scope="module")
def made():
    spec = importlib.util.spec_from_file_location("benefit_tables", PATH)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    yield module
    del sys.modules[spec.name]


def cell(bits, fall, precision=0.5):
    losses = {"loss_before": 4.0, "loss_after": 4.0 - fall}
    return {"bits": bits, "precision": precision, "commit": "abc", **losses}


def results(cells):
    protocol = {"model": "m", "steps": 2, "batch": 1, "length": 8, "rate": 0.1}
    return {
        "protocol": {**protocol, "share": 0.1, "heldout": 9, "embedder": "static"},
        "targets": {"a/0": {"train": 3, "judged": 2}},
        "verdicts": {"a/0": {"x": {"agreement": 0.9, "f1": 0.1}}},
        "cells": cells,
    }


FALLS = {"a/C": {"x": 0.3, "y": 0.1, "random": 0.0}, "b": {"x": 0.2, "y": 0.5, "random": -0.1}}
BITS = {"a/C": {"x": 9.0, "y": 8.0, "random": 12.0}, "b": {"x": 9.5, "y": 9.0, "random": 9.9}}


def grid(seeds=1):
    return {
        f"{t}/{m}/{s}": cell(BITS[t][m], fall + s)
        for t, of in FALLS.items()
        for m, fall in of.items()
        for s in range(seeds)
    }


def test_regret_is_what_the_best_method_would_have_added(made):
    fall = np.array([[0.3, 0.1, 0.2], [0.0, 0.5, 0.4]])
    assert made.regret(fall, np.array([2, 1])) == pytest.approx([0.1, 0.0])


def test_choice_is_the_best_known_and_passes_over_what_is_unknown(made):
    assert made.chosen(np.array([[-9.0, -8.0, np.nan], [2.0, 2.0, 1.0]])).tolist() == [1, 0]


def test_correlation_of_one_target_is_scipys_spearman(made):
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(2, 1, 9))
    assert made.within_targets(x, y).pearson == pytest.approx(spearmanr(x[0], y[0]).statistic)


def test_correlation_within_targets_ignores_differences_between_targets(made):
    rng = np.random.default_rng(1)
    x, y = rng.normal(size=(2, 4, 7))
    apart = np.array([[0.0], [50.0], [-100.0], [7.0]])
    each = [spearmanr(a, b).statistic for a, b in zip(x, y, strict=True)]
    assert made.within_targets(x + apart, y - apart).pearson == pytest.approx(np.mean(each))


def test_block_leaves_out_a_method_that_would_cost_more_cells_than_it_adds(made):
    cells = [(t, m, s) for t in "abc" for m in "xy" for s in "01"] + [("a", "z", "0")]
    methods, groups = made.largest_block(cells)
    assert methods == ["x", "y"]
    assert groups == [(t, s) for t in "abc" for s in "01"]


def test_block_of_nothing_is_empty(made):
    assert made.largest_block([]) == ([], [])


def test_seeds_of_a_target_are_averaged(made):
    block = made.Block.of(results(grid(seeds=3)))
    assert (block.targets, block.seeds) == (["a/C", "b"], [3, 3])
    assert block.fall == pytest.approx(np.array([list(of.values()) for of in FALLS.values()]) + 1)


def test_interval_of_equal_values_has_no_width(made):
    assert made.interval(np.full(5, 0.25)) == (0.25, 0.25)


def test_tables_state_regret_by_bits_and_of_each_method(made):
    rows = [line.split(" | ") for line in made.tables(results(grid())).splitlines()]
    said = {row[0]: row for row in rows if len(row) > 4}
    assert said["| by bits a word of unseen target text"][1:4:2] == ["0.300", "25%"]
    assert said["| always `x`"][1] == "0.250"
    assert said["| the best of each target (oracle)"][1] == "0.400"


def test_tables_of_a_file_without_cells_and_with_gaps(made):
    gaps = grid()
    del gaps["b/y/0"]
    assert "–" in made.tables(results(gaps))
    assert made.tables(results({})).startswith("# ")
