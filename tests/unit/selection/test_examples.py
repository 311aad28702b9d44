"""Draws of examples, against sorted scores and expected counts."""

import types
from pathlib import Path

import numpy as np
import pytest

from corpusfit.core.artifacts import write_arrays
from corpusfit.selection import examples
from corpusfit.selection.gathering import marked_path


@pytest.fixture
def drawn(tmp_path, monkeypatch):
    """Draw from parts of some scores, in two runs."""

    def drawn(scores, *, selected, tokens=None, copy=None, sizes=(), seed=0):
        n = len(scores)
        arrays = {
            "score": np.asarray(scores, np.float32),
            "tokens": np.ones(n, np.int64) if tokens is None else tokens,
            "copy": np.zeros(n, np.bool_) if copy is None else copy,
            "short": np.zeros(n, np.bool_),
        }
        ends = [0, *np.cumsum(sizes).tolist(), n]
        runs = [(0,), tuple(range(1, len(ends) - 1))]
        for parts in filter(None, runs):
            here = slice(ends[parts[0]], ends[parts[-1] + 1])
            size = np.diff(ends)[list(parts)]
            of_run = {name: values[here] for name, values in arrays.items()}
            write_arrays(
                tmp_path / f"from-{parts[0]:05d}.safetensors", {**of_run, "size": size}, {}
            )
            marks = {"selected": np.asarray(selected)[here]}
            write_arrays(marked_path(tmp_path, parts), marks, {})
        run = types.SimpleNamespace(engine=types.SimpleNamespace(map=map))
        shown, sample = examples.draw_examples(run, seed, Path(tmp_path), [*filter(None, runs)], n)
        found = sorted(ends[part] + place for part, of in shown.places.items() for place in of)
        return sample, found, sorted(ends[part] + place for part, place in shown.drawn)

    return drawn


@pytest.fixture
def scores():
    return np.random.default_rng(0).normal(size=2_000).astype(np.float32)


def test_the_best_and_those_on_both_sides_of_a_threshold_are_among_them(drawn, scores):
    copy = np.arange(2_000) % 10 == 0
    selected = (scores > 1) & ~copy
    sample, found, lot = drawn(scores, selected=selected, copy=copy, sizes=(70, 900))
    ranked = [i for i in np.argsort(-scores).tolist() if not copy[i]]
    taken = int(selected.sum())
    wanted = {*ranked[:9], *ranked[taken - 9 : taken], *ranked[taken : taken + 9], *lot}
    assert found == sorted(wanted)
    assert len(lot) == 9
    assert selected[lot].all()
    assert sorted(sample.tolist()) == sorted(scores[~copy].tolist())
    assert drawn(scores, selected=selected, copy=copy, sizes=(70, 900))[1:] == (found, lot)
    assert drawn(scores, selected=selected, copy=copy, sizes=(70, 900), seed=1)[2] != lot


def test_the_first_draw_is_in_proportion_to_words(drawn, monkeypatch):
    monkeypatch.setattr(examples, "_EACH", 1)
    tokens = np.array([1, 2, 3, 4] * 5)
    times = np.zeros(20)
    for seed in range(1_000):
        (place,) = drawn(np.zeros(20), selected=np.ones(20, bool), tokens=tokens, seed=seed)[2]
        times[place] += 1
    expected = 1_000 * tokens / tokens.sum()
    assert (np.abs(times - expected) < 5 * np.sqrt(expected)).all()


def test_of_very_many_scores_a_sample_is_enough(drawn, monkeypatch, scores):
    monkeypatch.setattr(examples, "_SAMPLE", 400)
    sample, *_ = drawn(scores, selected=scores > 0, sizes=(70, 900))
    assert 300 < len(sample) < 500
    assert abs(float(np.median(sample))) < 0.3


@pytest.mark.parametrize("scores", [[], [0.5], [0.5] * 40])
def test_odd_scores(drawn, scores):
    sample, found, lot = drawn(scores, selected=np.ones(len(scores), bool))
    assert len(sample) == len(scores)
    assert len(lot) == min(9, len(scores))
    assert {*lot} <= {*found}
