"""Which cells are compared, and average gains, against figures computed by hand."""

import dataclasses

import numpy as np
import pytest

from corpusfit.core.errors import UsageError
from corpusfit.core.plan import Plan
from corpusfit.evaluation.significance import Comparison
from corpusfit.training.plan import AdaptPlan
from corpusfit_papers.experiments.config import Recipe, RecipeTask, Selector
from corpusfit_papers.experiments.grid import columns_of, grid
from corpusfit_papers.experiments.rendering import plain
from corpusfit_papers.experiments.scoring import (
    Result,
    ScoredCells,
    adjusted_pairs,
    augmented_means,
    average_gain,
    average_gains,
    comparison_pairs,
)
from corpusfit_papers.experiments.tables import augmented_table


def selector(name, **more):
    columns = {"fractions": (0.1,), "weights": ("off",), "adapters": ("",), "augment": ("",)}
    adapt = AdaptPlan().with_value("train.max_steps", 4)
    return Selector(name, Plan(), adapt, **{**columns, **more})


def recipe(*selectors, **more):
    tasks = (RecipeTask("a", "a"), RecipeTask("b", "b"))
    given = {"name": "t", "models": ("m",), "tasks": tasks, "corpus": ("p",), "seeds": 2, **more}
    return Recipe(selectors=selectors, **given)


def compared(asked, one_model=()):
    """The columns that are compared, where those of `one_model` share their steps."""
    cells = [c for c in grid(asked, {"a": (0,), "b": (0,)}) if c.task == "a"]
    names = columns_of(cells)
    steps = {c: ["one" if names[c] in one_model else names[c]] for c in cells}
    pairs = [(names[a], names[b], named) for a, b, named in comparison_pairs(asked, steps)]
    return [[pair[:2] for pair in pairs if pair[2] == named] for named in (False, True)]


def test_pairs_compare_cells_with_the_same_augmentation_and_adapter():
    both = {"augment": ("", "tfidf"), "adapters": ("", "lora")}
    asked = recipe(
        selector("base", augment=("", "tfidf")),
        selector("random", adapters=("", "lora")),
        selector("auto", **both),
        pairs=(("auto", "random"),),
    )
    table, pairs = compared(asked)
    assert pairs == [("auto", "random"), ("auto lora", "random lora")]
    assert [other for _, other in table] == ["base"] * 7
    assert [ours for ours, _ in table] == [
        *("base + tfidf", "random", "random lora"),
        *("auto", "auto + tfidf", "auto lora", "auto lora + tfidf"),
    ]


def test_a_pair_without_a_common_adapter_is_rejected():
    asked = recipe(
        selector("base"),
        selector("random"),
        selector("auto", adapters=("lora",)),
        pairs=(("auto", "random"),),
    )
    with pytest.raises(UsageError, match=r"pairs.*adapters.*auto.*random"):
        asked.check()


def test_the_cell_that_differs_least_is_compared():
    asked = recipe(
        selector("random", fractions=(0.1, 0.3)),
        selector("auto", fractions=(0.3, 0.1)),
        compare="random",
    )
    table, _ = compared(asked)
    assert ("auto 0.3", "random 0.3") in table
    assert ("auto 0.1", "random 0.1") in table
    assert ("random 0.3", "random 0.1") not in table


def test_columns_of_one_model_are_not_compared():
    pairs = (("auto", "base"), ("mono", "base"))
    asked = recipe(*map(selector, ("base", "mono", "auto")), pairs=pairs)
    assert compared(asked, one_model=("base", "mono")) == [[("auto", "base")]] * 2


def comparison(p):
    return Comparison(0.1, 0.0, 0.0, 0.2, p, p, p, 2, 9)


def test_holm_corrects_each_kind_separately_and_unlike_training_is_marked():
    asked = recipe(selector("base"), selector("knn", adapters=("", "lora")))
    base, whole, lora = [c for c in grid(asked, {"a": (0,), "b": ()}) if c.task == "a"]
    compared = [
        (whole, base, False, comparison(0.01)),
        (lora, base, False, comparison(0.04)),
        (lora, whole, True, comparison(0.03)),
    ]
    names = columns_of([base, whole, lora])
    first, second = adjusted_pairs(compared, names, dict.fromkeys(names, "points"), named=False)
    assert (first.adjusted, second.adjusted) == (0.02, 0.04)
    assert (first.alike, second.alike) == (True, False)
    (own,) = adjusted_pairs(compared, names, dict.fromkeys(names, "points"), named=True)
    assert own.adjusted == 0.03


def results(asked, sizes, scores, failed=()):
    cells = grid(asked, sizes)
    names = columns_of(cells)
    return [
        Result(c, names[c], "accuracy", error="no")
        if (c.task, names[c]) in failed
        else Result(c, names[c], "accuracy", scores[c.task, c.size, names[c]], 0.0)
        for c in cells
    ]


def test_the_average_gain_is_averaged_over_tasks_before_seeds():
    base = [[0.5, 0.6, 0.7], [0.1, 0.1, 0.1, 0.9]]
    ours = [[0.6, 0.6, 0.7], [0.1, 0.2, 0.4]]
    gains = [0.05, 0.05, 0.15]
    assert average_gain(ours, base) == pytest.approx((np.mean(gains), np.std(gains, ddof=1)))


def test_average_gains_are_of_tasks_first_and_then_over_seeds():
    asked = recipe(selector("base"), selector("knn"))
    scores = {
        ("a", 0, "base"): [0.5, 0.5],
        ("a", 0, "knn"): [0.6, 0.8],
        ("b", 0, "base"): [0.4, 0.6],
        ("b", 0, "knn"): [0.4, 0.6],
    }
    (gain,) = average_gains(asked, results(asked, {"a": (0,), "b": (0,)}, scores))
    assert (gain.column, gain.size, gain.rows) == ("knn", None, 2)
    assert gain.mean == pytest.approx(0.1)  # of 0.05 and 0.15 by seed
    assert gain.sd == pytest.approx(0.1 / 2**0.5)


def test_an_error_is_in_no_average_of_points():
    asked = recipe(selector("base"), selector("knn"))
    bits = {("a", 0, "base"): [-1.5], ("a", 0, "knn"): [-1.0]}
    scores = {("b", 0, "base"): [0.8], ("b", 0, "knn"): [0.7], **bits}
    found = [
        dataclasses.replace(r, unit="bits per byte" if r.cell.task == "a" else r.unit)
        for r in results(asked, {"a": (0,), "b": (0,)}, scores)
    ]
    (gain,) = average_gains(asked, found)
    assert (round(gain.mean, 6), gain.rows) == (-0.1, 1)
    assert average_gains(asked, [r for r in found if r.cell.task == "a"]) == []


def test_average_gains_of_a_size_are_of_the_rows_that_have_it():
    asked = recipe(selector("base"), selector("knn"))
    scores = {
        (task, size, column): [0.5 + (column == "knn") * size / 100]
        for task in "ab"
        for size in (10, 30)
        for column in ("base", "knn")
    }
    found = average_gains(asked, results(asked, {"a": (10, 30), "b": (10,)}, scores))
    assert [(g.size, round(g.mean, 6), g.rows) for g in found] == [(10, 0.1, 2), (30, 0.3, 1)]


def test_a_column_that_failed_somewhere_has_no_average_gain():
    asked = recipe(selector("base", adapters=("", "lora")), selector("random"), selector("knn"))
    columns = ("base", "base lora", "random", "knn")
    scores = {(task, 0, c): [0.5] for task in "ab" for c in columns}
    sizes = {"a": (0,), "b": (0,)}
    found = average_gains(asked, results(asked, sizes, scores, failed=[("a", "knn")]))
    assert [g.column for g in found] == ["random"]
    found = average_gains(asked, results(asked, sizes, scores, failed=[("a", "base")]))
    assert not found  # another base does not replace the failed one


def test_the_mean_of_two_augmentations_is_over_seeds():
    """By hand: seeds (0.6, 0.8) and (0.8, 0.8) have means (0.7, 0.8), plain (0.5, 0.7)."""
    asked = recipe(selector("base", augment=("", "tfidf", "backtranslate")), selector("auto"))
    scores = {"": [0.5, 0.7], "tfidf": [0.6, 0.8], "backtranslate": [0.8, 0.8]}
    cells = [c for c in grid(asked, {"a": (0,), "b": (0,)}) if c.task == "a"]
    names = columns_of(cells)
    results = [Result(c, names[c], "f1", scores[c.augment]) for c in cells]
    (one,) = augmented_means(results)
    assert (one.column, one.kinds) == ("base", ("tfidf", "backtranslate"))
    assert one.scores == pytest.approx([0.7, 0.8])
    assert (one.mean, one.sd) == pytest.approx((0.75, 0.1 / 2**0.5))
    assert one.gain == pytest.approx((0.15, 0.1 / 2**0.5))
    found = ScoredCells(results, [], [], [one])
    assert plain(augmented_table(asked, found))[0][-2:] == ["75.00 ± 7.07", "15.00 ± 7.07"]
    errors = [dataclasses.replace(r, unit="bits per byte") for r in results]
    found = dataclasses.replace(found, results=errors)
    assert plain(augmented_table(asked, found))[0][-1].startswith("0.1500")  # as in a verdict
    assert augmented_means([r for r in results if r.cell.augment != "tfidf"]) == []
