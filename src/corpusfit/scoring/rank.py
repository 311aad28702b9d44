"""Quality of scores against a known domain, and of methods on held-out texts of the target."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from corpusfit.core.types import read_as, take_units
from corpusfit.scoring.contract import Family, Method
from corpusfit.scoring.heldout_bits import best_first

SHARES = (0.01, 0.05, 0.1, 0.2, 0.5)
BINS = 40
TAIL = 0.001
"""Share of all segments beyond each end of the bins."""


@dataclass(frozen=True)
class Point:
    """Precision and recall of the best share of the segments; of equal scores the first are taken.

    Attributes:
        share: share of all segments.
        segments: their number.
        precision: share of them that is in the domain.
        recall: share of the domain that is among them.
    """

    share: float
    segments: int
    precision: float
    recall: float


@dataclass(frozen=True)
class Histogram:
    """Numbers of segments by score.

    Attributes:
        edges: the 41 borders of 40 bins of equal width, from the 0.1 % to the 99.9 % quantile of
            all scores; a bin includes its lower border, and the last bin both.
        inside: 42 counts of segments in the domain: below the bins, in each, above them.
        outside: the same counts for the other segments.
    """

    edges: list[float]
    inside: list[int]
    outside: list[int]


@dataclass(frozen=True)
class Figures:
    """Quality of the scores against the domain, for several amounts.

    Attributes:
        average_precision: over all segments; equal scores count as one step.
        curve: the best 1, 5, 10, 20 and 50 % of the segments.
        histogram: of the scores, in the domain and elsewhere.
    """

    average_precision: float
    curve: list[Point]
    histogram: Histogram


def figures(scores: NDArray[np.float32], inside: NDArray[np.bool_]) -> Figures:
    """Compare scores with the known domain."""
    # Everything is sorted at once, which needs about 25 bytes of memory per segment.
    best = inside[np.argsort(-scores, kind="stable")]
    curve = [_point(share, best, int(np.count_nonzero(best))) for share in SHARES]
    del best
    rising, positives = np.sort(scores), np.sort(scores[inside])
    return Figures(average_precision(rising, positives), curve, _histogram(rising, positives))


def average_precision(rising: NDArray[np.float32], positives: NDArray[np.float32]) -> float:
    """Mean over the positives of the precision at their scores; both arrays are sorted."""
    hits = len(positives) - np.searchsorted(positives, positives)
    return float((hits / (len(rising) - np.searchsorted(rising, positives))).mean())


def auroc(positives: NDArray[np.float32], others: NDArray[np.float32]) -> float:
    """Share of pairs in which the positive scores higher; ties count half."""
    others = np.sort(others)
    below = np.searchsorted(others, positives) + np.searchsorted(others, positives, "right")
    return float(below.mean() / (2 * len(others)))


def _point(share: float, best: NDArray[np.bool_], inside: int) -> Point:
    n = max(1, round(share * len(best)))
    hits = int(np.count_nonzero(best[:n]))
    return Point(share, n, hits / n, hits / inside)


def _histogram(rising: NDArray[np.float32], positives: NDArray[np.float32]) -> Histogram:
    n = len(rising)
    low, high = (float(rising[round(q * (n - 1))]) for q in (TAIL, 1 - TAIL))
    if low == high:
        low, high = low - 0.5, high + 0.5
    edges = np.linspace(low, high, BINS + 1)
    whole, inside = (_counts(scores, edges) for scores in (rising, positives))
    return Histogram(edges.tolist(), inside.tolist(), (whole - inside).tolist())


def _counts(rising: NDArray[np.float32], edges: NDArray[np.float64]) -> NDArray[np.int64]:
    below = [*np.searchsorted(rising, edges[:-1]), np.searchsorted(rising, edges[-1], "right")]
    return np.diff(below, prepend=0, append=len(rising))


TOP = 0.1
HELD_OUT = 0.1
MIN_CREDIT = 0.01
NON_VOTING = ("graph", "ensemble", "baseline", "external")
"""Families that do not vote: they combine other methods, or ignore the target."""
MAX_TARGET = 2_000
"""Most target units of a trial; more units cost time and do not change a verdict."""


@dataclass(frozen=True)
class Trial:
    """One method with one random seed."""

    method: str
    family: Family
    seed: int
    f1: float  # f1, auroc, ap: on held-out target texts against random corpus texts
    auroc: float
    ap: float
    fit_s: float
    rate: float  # units scored per second, one thread
    top: NDArray[np.int64]  # positions of the top tenth of the corpus sample, increasing


@dataclass(frozen=True)
class Verdict:
    """One method over all seeds; every number is (mean, standard deviation)."""

    method: str
    family: Family
    agreement: tuple[float, float]
    f1: tuple[float, float]
    auroc: tuple[float, float]
    ap: tuple[float, float]
    fit_s: tuple[float, float]
    rate: tuple[float, float]


@dataclass(frozen=True, eq=False)
class Split:
    """A trial's split of the target and of the corpus sample, as positions."""

    train: NDArray[np.int64]  # the part of the target to fit on, sorted
    test: NDArray[np.int64]  # the held-out part of the target, sorted
    fit: NDArray[np.int64]  # the third of the corpus sample to fit on, sorted
    # the third that the F1 threshold is found on, with `train`; at most as many
    threshold: NDArray[np.int64]
    vote: NDArray[np.int64]  # the third that is scored, sorted
    outliers: NDArray[np.int64]  # positions in `vote`, as many as in `test` if there are so many

    @classmethod
    def draw(cls, target: int, background: int, *, seed: int, held_out: float = HELD_OUT) -> Split:
        """Draw the split of a target and a corpus sample of these sizes."""
        rng = np.random.default_rng(seed)
        train, test = _split(rng.permutation(target)[:MAX_TARGET], held_out)
        fit, threshold, vote = _thirds(rng.permutation(background))
        outliers = rng.permutation(len(vote))[: len(test)]
        return cls(train, test, fit, threshold[: len(train)], vote, outliers)


@dataclass(frozen=True, eq=False)
class Separation:
    """Scores of unseen texts by a method fitted on a part of the target."""

    # scores [t] of the held-out target texts
    inliers: NDArray[np.float32]
    # scores [v] of the last third of the corpus sample
    votes: NDArray[np.float32]
    # those votes that are compared with the inliers
    outliers: NDArray[np.float32]
    # F1 of inliers against outliers, at the threshold that is best on other texts
    f1: float
    auroc: float
    ap: float
    # seconds to fit, and to score the votes
    fit_s: float
    score_s: float

    def top(self, share: float) -> NDArray[np.int64]:
        """Positions of the highest votes: the given share of all, at least one."""
        k = max(1, round(share * len(self.votes)))
        return best_first(self.votes)[:k]


def separate(
    method: Method[Any], target: Any, background: Any, split: Split, *, seed: int
) -> Separation:
    """Fit a method on a part of the target, and score held-out target texts and corpus texts."""
    # Reference: TADPOLE, section 3.1.
    started = time.perf_counter()
    scorer = method.fit(
        take_units(target, split.train), take_units(background, split.fit), seed=seed
    )
    fitted = time.perf_counter()
    target, background = read_as(target, method.reads), read_as(background, method.reads)
    votes = scorer.score(take_units(background, split.vote))
    scored = time.perf_counter()
    inliers, outliers = scorer.score(take_units(target, split.test)), votes[split.outliers]
    threshold = best_threshold(
        scorer.score(take_units(target, split.train)),
        scorer.score(take_units(background, split.threshold)),
    )
    quality = _quality(inliers, outliers, threshold)
    return Separation(inliers, votes, outliers, *quality, fitted - started, scored - fitted)


def trial(name: str, method: Method[Any], target: Any, background: Any, *, seed: int) -> Trial:
    """Fit a method on 90 % of the target and evaluate its scores."""
    split = Split.draw(len(target), len(background), seed=seed)
    separation = separate(method, target, background, split, seed=seed)
    top = np.sort(split.vote[separation.top(TOP)])
    rate = len(separation.votes) / max(separation.score_s, 1e-9)
    quality = separation.f1, separation.auroc, separation.ap
    return Trial(name, method.family, seed, *quality, separation.fit_s, rate, top)


def _split(
    shuffled: NDArray[np.int64], held_out: float
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The rest and the held-out share; a single text is both."""
    n_heldout = max(1, round(held_out * len(shuffled)))
    rest = shuffled[n_heldout:] if len(shuffled) > 1 else shuffled
    return np.sort(rest), np.sort(shuffled[:n_heldout])


def _thirds(shuffled: NDArray[np.int64]) -> list[NDArray[np.int64]]:
    """The thirds of the corpus sample; of one or two units, all of them three times."""
    if len(shuffled) < 3:
        return [shuffled] * 3
    return [np.sort(part) for part in np.array_split(shuffled, 3)]


def best_threshold(inliers: NDArray[np.float32], outliers: NDArray[np.float32]) -> float:
    """The score that separates inliers from outliers with the highest F1."""
    scores = np.concatenate([inliers, outliers])
    order = np.argsort(-scores, kind="stable")
    hits = np.cumsum(order < len(inliers))
    f1 = 2 * hits / (np.arange(1, len(scores) + 1) + len(inliers))
    # equal scores are accepted together
    f1[:-1][np.diff(scores[order]) == 0] = 0
    return float(scores[order[np.argmax(f1)]])


def _quality(
    inliers: NDArray[np.float32], outliers: NDArray[np.float32], threshold: float
) -> tuple[float, float, float]:
    """F1 at the threshold, AUROC, average precision."""
    rising, accepted = np.sort(np.concatenate([inliers, outliers])), inliers >= threshold
    right, answered = np.count_nonzero(accepted), np.count_nonzero(rising >= threshold)
    return (
        float(2 * right / (answered + len(inliers))),
        auroc(inliers, outliers),
        average_precision(rising, np.sort(inliers)),
    )


def agreement(
    tops: Mapping[str, NDArray[np.int64]],
    families: Mapping[str, Family],
    credit: Mapping[str, float],
) -> dict[str, float]:
    """How much each method's top overlaps with the tops of other methods."""
    # Held-out target texts share the target's style, so F1 and AUROC reward finding that style.
    # What different kinds of methods agree on is the domain. A family of methods shares one vote.
    agreements = {}
    for method, top in tops.items():
        votes: dict[str, list[tuple[float, float]]] = {}
        for other in tops:
            if other != method and families[other] not in NON_VOTING:
                shared = len(np.intersect1d(top, tops[other], assume_unique=True)) / len(top)
                votes.setdefault(families[other], []).append((shared, credit[other]))
        agreements[method] = _family_mean(list(votes.values()))
    return agreements


def _family_mean(votes: Sequence[Sequence[tuple[float, float]]]) -> float:
    """Mean overlap over families, each a list of (overlap, credit), weighted by mean credit."""
    if not votes:
        return 0.0
    overlaps = [float(np.average([s for s, _ in v], weights=[c for _, c in v])) for v in votes]
    credits = [float(np.mean([c for _, c in v])) for v in votes]
    return float(np.average(overlaps, weights=credits))


def verdicts(trials: Sequence[Trial]) -> list[Verdict]:
    """Results over all seeds, the method with the highest agreement first."""
    # A method's credit in the vote is 2 AUROC - 1 on held-out target texts, averaged over seeds, at
    # least `MIN_CREDIT`.
    by_method: dict[str, list[Trial]] = {}
    for t in sorted(trials, key=lambda t: (t.method, t.seed)):
        by_method.setdefault(t.method, []).append(t)
    families = {m: own_trials[0].family for m, own_trials in by_method.items()}
    credit = {
        m: max(MIN_CREDIT, 2 * float(np.mean([t.auroc for t in own_trials])) - 1)
        for m, own_trials in by_method.items()
    }
    seeds = sorted({t.seed for t in trials})
    agreed = [
        agreement({t.method: t.top for t in trials if t.seed == seed}, families, credit)
        for seed in seeds
    ]
    results = []
    for method, own_trials in by_method.items():
        figures = {
            name: spread([getattr(t, name) for t in own_trials])
            for name in ("f1", "auroc", "ap", "fit_s", "rate")
        }
        vote = spread([a[method] for a in agreed])
        results.append(Verdict(method, families[method], vote, **figures))
    return sorted(results, key=lambda v: (v.family == "baseline", -v.agreement[0], v.method))


def spread(values: Sequence[float]) -> tuple[float, float]:
    """Mean and sample standard deviation (0 for one value)."""
    return float(np.mean(values)), float(np.std(values, ddof=1)) if len(values) > 1 else 0.0
