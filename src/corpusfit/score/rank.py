"""Compare methods on the user's own data: two verdicts, side by side.

What: (1) the paper's protocol: the target split 90/10, a random part of the corpus as outliers,
F1, AUROC and average precision; (2) agreement: how far the tenth of a corpus sample that a method
puts on top is also on top for methods of other kinds.
Why: (1) rewards a method for finding the target's style, since held-out target texts share it;
what unlike methods agree on is the domain. In the vote a family of kin methods has one voice, and
more of it the better it tells held-out target texts from the corpus.
Trade-off: agreement needs several families of methods and says nothing about one alone; both
verdicts are always given. How well each did on targets with a known domain: docs/auto.md.
Reference: TADPOLE, section 3.1 (ranking) and Table 1; DANA, section 3.1.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from corpusfit.errors import MissingDependencyError
from corpusfit.score.contract import Family, Method
from corpusfit.types import read_as, taken_of

TOP = 0.1
HELD_OUT = 0.1
LEAST_CREDIT = 0.01
SILENT = ("graph", "ensemble", "baseline")
"""Families without a voice: made of others, or blind to the target."""
MOST_TARGET = 2_000
"""Target units that a trial looks at; more would not change a verdict, only slow it down."""


@dataclass(frozen=True)
class Trial:
    """One method, one seed.

    Attributes:
        f1, auroc, ap: on held-out target texts against random corpus texts.
        fit_s: seconds to fit.
        rate: units scored a second, one thread.
        top: int64, the places of the top tenth of the corpus sample, increasing.
    """

    method: str
    family: Family
    seed: int
    f1: float
    auroc: float
    ap: float
    fit_s: float
    rate: float
    top: NDArray[np.int64]


@dataclass(frozen=True)
class Verdict:
    """One method over all seeds; every figure as (mean, standard deviation)."""

    method: str
    family: Family
    agreement: tuple[float, float]
    f1: tuple[float, float]
    auroc: tuple[float, float]
    ap: tuple[float, float]
    fit_s: tuple[float, float]
    rate: tuple[float, float]


def trial(name: str, method: Method[Any], target: Any, background: Any, *, seed: int) -> Trial:
    """Fit on 90 % of the target and see what the method finds.

    The background is dealt into three: one part to fit on, one to find the F1 threshold against
    (the size of the training target at most), one as outliers (the size of the held-out target)
    and for the agreement vote.

    Args:
        name: the method's name.
        method: the method with its settings.
        target: n target units, as the method is fitted on them.
        background: m corpus units, same form.
        seed: of the split and of the fit.
    """
    chance = np.random.default_rng(seed)
    train, test = _split(chance.permutation(len(target))[:MOST_TARGET])
    fit_part, calm, vote = _deal(chance.permutation(len(background)))
    started = time.perf_counter()
    scorer = method.fit(taken_of(target, train), taken_of(background, fit_part), seed=seed)
    fitted = time.perf_counter()
    target, background = read_as(target, method.reads), read_as(background, method.reads)
    votes = scorer.score(taken_of(background, vote))
    scored = time.perf_counter()
    outliers = votes[chance.permutation(len(votes))[: len(test)]]
    inliers = scorer.score(taken_of(target, test))
    threshold = _best_threshold(
        scorer.score(taken_of(target, train)),
        scorer.score(taken_of(background, calm[: len(train)])),
    )
    f1, auroc, ap = _quality(inliers, outliers, threshold)
    k = max(1, round(TOP * len(votes)))
    top = np.sort(vote[np.argsort(-votes, kind="stable")[:k]])
    rate = len(votes) / max(scored - fitted, 1e-9)
    return Trial(name, method.family, seed, f1, auroc, ap, fitted - started, rate, top)


def _split(deal: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The paper's 90/10; a single text is both."""
    held = max(1, round(HELD_OUT * len(deal)))
    return np.sort(deal[held:] if len(deal) > 1 else deal), np.sort(deal[:held])


def _deal(deal: NDArray[np.int64]) -> list[NDArray[np.int64]]:
    """Three thirds of the corpus sample; of a corpus of one or two units all of it, three times."""
    return [np.sort(p) for p in np.array_split(deal, 3)] if len(deal) >= 3 else [deal] * 3


def _best_threshold(inliers: NDArray[np.float32], outliers: NDArray[np.float32]) -> float:
    """The threshold with the highest F1 on training scores."""
    scores = np.concatenate([inliers, outliers])
    order = np.argsort(-scores, kind="stable")
    hits = np.cumsum(order < len(inliers))
    f1 = 2 * hits / (np.arange(1, len(scores) + 1) + len(inliers))
    return float(scores[order[np.argmax(f1)]])


def _quality(
    inliers: NDArray[np.float32], outliers: NDArray[np.float32], threshold: float
) -> tuple[float, float, float]:
    """F1 at the threshold, AUROC, average precision.

    Raises:
        MissingDependencyError: scikit-learn is not installed.
    """
    try:
        from sklearn.metrics import average_precision_score, f1_score, roc_auc_score
    except ImportError as e:
        raise MissingDependencyError("The ranking of methods", "embed") from e

    scores = np.concatenate([inliers, outliers])
    truth = np.arange(len(scores)) < len(inliers)
    return (
        float(f1_score(truth, scores >= threshold, zero_division=0.0)),
        float(roc_auc_score(truth, scores)),
        float(average_precision_score(truth, scores)),
    )


def agreement(
    tops: Mapping[str, NDArray[np.int64]],
    families: Mapping[str, Family],
    credit: Mapping[str, float],
) -> dict[str, float]:
    """How far each method's top agrees with the others', kin methods speaking with one voice.

    Args:
        tops: the top places of the same sample, by method.
        families: the family of each; those in `SILENT` have no voice.
        credit: weight of each method's voice, above 0.

    Returns:
        For each method the overlap of its top with the others', as a share of the top: the mean by
        credit within each family (the method itself left out), then the mean of families by their
        mean credit; 0 when there is nobody to agree with.
    """
    found = {}
    for method, top in tops.items():
        voices: dict[str, list[tuple[float, float]]] = {}
        for other in tops:
            if other != method and families[other] not in SILENT:
                shared = len(np.intersect1d(top, tops[other], assume_unique=True)) / len(top)
                voices.setdefault(families[other], []).append((shared, credit[other]))
        found[method] = _family_mean(list(voices.values()))
    return found


def _family_mean(voices: Sequence[Sequence[tuple[float, float]]]) -> float:
    """Mean of families, each a list of (overlap, credit)."""
    if not voices:
        return 0.0
    overlaps = [float(np.average([s for s, _ in v], weights=[c for _, c in v])) for v in voices]
    credits = [float(np.mean([c for _, c in v])) for v in voices]
    return float(np.average(overlaps, weights=credits))


def verdicts(trials: Sequence[Trial]) -> list[Verdict]:
    """Both verdicts over all seeds, the method with most agreement first.

    A method's credit in the vote is 2 AUROC - 1 on held-out target texts, mean over seeds, at least
    `LEAST_CREDIT`.
    """
    by_method: dict[str, list[Trial]] = {}
    for t in sorted(trials, key=lambda t: (t.method, t.seed)):
        by_method.setdefault(t.method, []).append(t)
    families = {m: of[0].family for m, of in by_method.items()}
    credit = {
        m: max(LEAST_CREDIT, 2 * float(np.mean([t.auroc for t in of])) - 1)
        for m, of in by_method.items()
    }
    seeds = sorted({t.seed for t in trials})
    agreed = [
        agreement({t.method: t.top for t in trials if t.seed == seed}, families, credit)
        for seed in seeds
    ]
    found = []
    for method, of in by_method.items():
        spread = {
            name: _spread([getattr(t, name) for t in of])
            for name in ("f1", "auroc", "ap", "fit_s", "rate")
        }
        vote = _spread([a[method] for a in agreed])
        found.append(Verdict(method, families[method], vote, **spread))
    return sorted(found, key=lambda v: (v.family == "baseline", -v.agreement[0], v.method))


def _spread(values: Sequence[float]) -> tuple[float, float]:
    """Mean and sample standard deviation (0 for one value)."""
    return float(np.mean(values)), float(np.std(values, ddof=1)) if len(values) > 1 else 0.0
