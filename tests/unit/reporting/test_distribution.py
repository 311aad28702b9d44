"""Counts at each threshold, against direct counts over the stored scores."""

import dataclasses

import numpy as np
import pytest

from corpusfit.core.types import Segments
from corpusfit.reporting.distribution import _sample
from corpusfit.scoring import table
from spreads import spread_of


@pytest.fixture
def stored(tmp_path):
    """Three parts of two sources, one of them empty."""
    generator = np.random.default_rng(0)
    rows = []
    for shard, (source, n) in enumerate([("a", 300), ("b", 0), ("b", 500), ("a", 40)]):
        scores = generator.normal(shard, 1.0, n).astype(np.float32)
        tokens = generator.integers(1, 900, n)
        zero = np.zeros(n, np.int64)
        segments = Segments(
            row=np.arange(n), segment=zero.astype(np.int32), start=zero, end=zero,
            units=zero.astype(np.int32), tokens=tokens, first_unit=zero,
        )  # fmt: skip
        table.write(tmp_path, shard, [source], segments, scores)
        rows += [(source, s, t) for s, t in zip(scores, tokens, strict=True)]
    return tmp_path, rows


def test_counts_at_every_threshold_are_exact(stored):
    folder, rows = stored
    found = spread_of(folder, ["a", "b"], seed=0, threshold=1.25)
    assert found.sources == ("a", "b")
    assert np.float32(1.25) in found.thresholds
    for s, source in enumerate(found.sources):
        own = [(score, tokens) for name, score, tokens in rows if name == source]
        assert found.of_source[s] == len(own)
        assert found.tokens_of_source[s] == sum(tokens for _, tokens in own)
        for k, threshold in enumerate(found.thresholds):
            above = [tokens for score, tokens in own if score >= threshold]
            assert (found.segments[s, k], found.tokens[s, k]) == (len(above), sum(above))
    assert found.heights.sum(axis=1).tolist() == found.of_source.tolist()


def test_quantiles_of_lengths_are_those_of_numpy_to_four_per_cent(stored):
    folder, rows = stored
    for part in range(4):  # select a third: the shorter segments
        tokens, _ = table.read_columns(table.part_path(folder, part), "tokens", "score")
        table.rewrite(table.part_path(folder, part), selected=np.asarray(tokens) < 300)
    found = spread_of(folder, ["a", "b"], seed=0, threshold=None).quantiles((0.1, 0.5, 0.9))
    tokens = np.array([tokens for *_, tokens in rows])
    expected = [
        np.quantile(own, (0.1, 0.5, 0.9), method="inverted_cdf")
        for own in (tokens, tokens[tokens < 300])
    ]
    assert (np.array(found) <= expected).all()
    assert np.array(found) == pytest.approx(np.array(expected), rel=0.05)


def test_no_scores(tmp_path):
    found = spread_of(tmp_path, ["a"], seed=0, threshold=None)
    assert found.sources == ()
    assert found.thresholds.size == found.heights.size == 0


@pytest.mark.parametrize(
    "scores",
    [
        [0.0] * 90 + [1.0] * 10,
        [0.0] * 5 + [1.0] * 95,
        [1e-9 * i for i in range(100)],
        [2.0**i for i in range(100)],
        [7.0] * 100,
    ],
)
def test_bins_separate_scores_at_any_scale(tmp_path, scores):
    zero = np.zeros(len(scores), np.int64)
    segments = Segments(
        row=np.arange(len(scores)), segment=zero.astype(np.int32), start=zero, end=zero,
        units=zero.astype(np.int32), tokens=zero, first_unit=zero,
    )  # fmt: skip
    table.write(tmp_path, 0, ["a"], segments, np.array(scores, np.float32))
    found = spread_of(tmp_path, ["a"], seed=0, threshold=None)
    assert (np.diff(found.bins) > 0).all()
    assert found.heights.sum() == len(scores)
    several = np.count_nonzero(found.heights) > 1
    assert several == (len(set(scores)) > 1)


@pytest.mark.parametrize("share", [0.2, 0.5, 0.8])
def test_a_sample_shows_each_source_as_often_as_its_words_are_selected(tmp_path, share):
    """Examples of a source stand together, as in the corpus, and all scores are alike."""
    n = 40
    zero = np.zeros(n, np.int64)
    segments = Segments(
        row=np.arange(n), segment=zero.astype(np.int32), start=zero, end=zero,
        units=zero.astype(np.int32), tokens=zero + 100, first_unit=zero,
    )  # fmt: skip
    table.write(tmp_path, 0, ["a"], segments, np.ones(n, np.float32))
    spread = spread_of(tmp_path, ["a"], seed=0, threshold=0.5)
    spread = dataclasses.replace(spread, taken=spread.tokens_between.sum(axis=0))  # everything
    first = round(share * n)
    examples = [
        {"selected": True, "score": 1.0, "characters": 500, "source": "b" if i < first else "a"}
        for i in range(n)
    ]
    shown = [examples[i]["source"] for i in _sample(spread, examples)]
    assert len(shown) == 9
    assert abs(shown.count("b") - 9 * share) <= 1
