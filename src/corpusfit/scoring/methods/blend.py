"""`blend`: mean rank of a text over several methods.

What: each member method scores the text; the score becomes a rank among the scores of the
background sample; the result is the weighted mean of the ranks.
Why: methods with different errors are better together than alone. Ranks have no unit, so cosines,
log odds and log ratios can be combined.
Trade-off: a blend costs as much as its members together, and a poor member counts as much as the
others unless it gets a lower weight. Ranks lose distances: between two background scores they are
interpolated linearly, and beyond the extremes they approach 0 and 1 ever more slowly.
Reference: Borda count; Aslam and Montague (2001), Models for Metasearch.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from corpusfit.core.errors import UsageError, bad_setting
from corpusfit.core.plan import MethodPlan
from corpusfit.core.types import Reads, read_as
from corpusfit.kernels.scores import mid_ranks
from corpusfit.scoring import registry
from corpusfit.scoring.contract import Family, Member, Method, Scorer


@dataclass(frozen=True)
class BlendScorer(Scorer[Any]):
    """The members' scorers, and the background sample's scores."""

    scorers: NDArray[np.uint8]  # the members' stored scorers, concatenated
    ends: NDArray[np.int64]  # [m], the end of each
    reads: tuple[Reads, ...]
    weights: NDArray[np.float64]  # [m], with a sum of 1
    known: NDArray[np.float32]  # each member's distinct scores of the sample, increasing
    ranks: NDArray[np.float64]  # their ranks in (0, 1): (mid-rank - 1/2) / sample size
    knots: NDArray[np.int64]  # [m], the end of each member's part of `known` and `ranks`
    names: tuple[str, ...]  # of the members

    def meaning(self) -> str:
        """What a score is, and those of the members."""
        weighed = zip(self.names, self.weights.tolist(), strict=True)
        own = zip(self.names, (member.meaning() for member in self.members), strict=True)
        return " ".join(
            [
                "The score is the mean rank of a text in a sample of the corpus, from 0 to 1, by",
                ", ".join(f"{name} (weight {weight:.2g})" for name, weight in weighed) + ".",
                *(f"Of {name}: {meaning}" for name, meaning in own if meaning),
            ]
        )

    @cached_property
    def members(self) -> list[Scorer[Any]]:
        """The members' scorers, opened once per process."""
        return [registry.unpack_scorer(self.scorers[part]) for part in _parts(self.ends)]

    def score(self, batch: Any) -> NDArray[np.float32]:
        """Score n texts, or float32 [n, d], or both: the mean rank, float32 [n] in [0, 1]."""
        total = np.zeros(len(batch))
        for weight, (_, ranks) in zip(self.weights, self._scored(batch), strict=True):
            total += weight * ranks
        return total.astype(np.float32)

    def explain_members(self, batch: Any) -> list[Member]:
        """Each member's mean score and mean rank of the units of a text."""
        each = zip(self.names, self.weights.tolist(), self._scored(batch), strict=True)
        return [
            Member(name, weight, float(scores.mean()), float(ranks.mean()))
            for name, weight, (scores, ranks) in each
        ]

    def _scored(self, batch: Any) -> Iterator[tuple[NDArray[np.float32], NDArray[np.float64]]]:
        """Each member's scores and ranks of n texts, [n] each."""
        for member, reads, part in zip(self.members, self.reads, _parts(self.knots), strict=True):
            scores = member.score(read_as(batch, reads))
            yield scores, rank_among(scores, self.known[part], self.ranks[part])


def _parts(ends: NDArray[np.int64]) -> list[slice]:
    """Slices of consecutive parts."""
    begins = [0, *ends[:-1]]
    return [slice(begin, end) for begin, end in zip(begins, ends, strict=True)]


def rank_among(
    scores: NDArray[np.float32], known: NDArray[np.float32], ranks: NDArray[np.float64]
) -> NDArray[np.float64]:
    """The rank of each score among known scores, float64 [n] in [0, 1], increasing.

    Linear between known scores. Beyond the highest, at a distance of t times the range of the known
    scores, the rank covers t / (1 + t) of the gap to 1; beyond the lowest, of the gap to 0.

    Args:
        scores: float32 [n].
        known: float32 [k], strictly increasing; at least one.
        ranks: float64 [k], increasing, in (0, 1).
    """
    x = scores.astype(np.float64)
    at = known.astype(np.float64)
    unit = (at[-1] - at[0]) or 1.0
    inside = np.interp(x, at, ranks)
    above, below = (np.maximum(d, 0.0) / unit for d in (x - at[-1], at[0] - x))
    return np.asarray(
        inside + (1.0 - ranks[-1]) * above / (1.0 + above) - ranks[0] * below / (1.0 + below)
    )


@dataclass(frozen=True)
class Blend(Method[Any]):
    """Mean rank of a text over several methods.

    Attributes:
        methods: Names of the member methods, separated by commas; each uses its own defaults
            (default: domain_classifier,knn,moore_lewis).
        weights: Weights of the members, separated by commas (default: equal weights).
        embedder: Embedder for members that fine-tune one (default: --embedder).
    """

    reads: ClassVar[Reads] = "both"
    family: ClassVar[Family] = "ensemble"
    scorer: ClassVar[type] = BlendScorer

    methods: str = "domain_classifier,knn,moore_lewis"
    weights: str = ""
    embedder: str = "minilm"

    def __post_init__(self) -> None:
        members = self._members()
        _ = self._shares()
        # numbers of rows come beside texts or embeddings, whatever the others read
        reads = _union(m.reads for m in members)
        learns = _union([reads, *(m.fits_on for m in members)])
        exact = all(m.exact for m in members)
        # The inputs depend on the settings: shadow the class's values for the defaults.
        for name, value in (("reads", reads), ("learns", learns), ("exact", exact)):
            object.__setattr__(self, name, value)

    @property
    def files(self) -> tuple[str, ...]:
        """The files of the members."""
        return tuple(dict.fromkeys(file for m in self._members() for file in m.files))

    @property
    def models(self) -> tuple[str, ...]:
        """The models of the members."""
        return tuple(dict.fromkeys(model for m in self._members() for model in m.models))

    def require(self) -> None:
        """Check the members."""
        for member in self._members():
            member.require()

    @property
    def fields(self) -> tuple[str, ...]:
        """The fields of the members."""
        return tuple(dict.fromkeys(field for m in self._members() for field in m.fields))

    def _names(self) -> list[str]:
        return [name.strip() for name in self.methods.split(",")]

    def _members(self) -> list[Method[Any]]:
        try:
            plans = [registry.with_embedder(MethodPlan(n), self.embedder) for n in self._names()]
            return [registry.unit_method(plan.name, plan.options) for plan in plans]
        except UsageError as e:
            allowed = "methods that score each unit alone, such as moore_lewis,dsir,field:NAME"
            raise bad_setting("`method.methods`", allowed, self.methods, str(e)) from e

    def _shares(self) -> NDArray[np.float64]:
        """float64 [m], the weights, scaled to a sum of 1."""
        count = len(self._names())
        try:
            weights = [float(w) for w in self.weights.split(",")] if self.weights else [1.0] * count
        except ValueError:
            weights = []
        usable = (
            len(weights) == count and min(weights) >= 0.0 and 0.0 < math.fsum(weights) < math.inf
        )
        if not usable:
            allowed = f"{count} numbers of at least 0, not all 0, separated by commas"
            raise bad_setting("`method.weights`", allowed, self.weights)
        return np.array(weights) / math.fsum(weights)

    def fit(self, target: Any, background: Any, *, seed: int) -> BlendScorer:
        """Fit each member on its own input, then score the background with it."""
        stored = []
        knots = []
        members = self._members()
        for name, member in zip(self._names(), members, strict=True):
            parts = (read_as(part, member.fits_on) for part in (target, background))
            scorer = member.fit(*parts, seed=seed)
            stored.append(registry.pack_scorer(name, scorer))
            # the distinct scores of the background, increasing, and their mid-ranks
            scores = scorer.score(read_as(background, member.reads))
            known, at = np.unique(scores, return_index=True)
            knots.append((known, mid_ranks(scores)[at]))
        return BlendScorer(
            np.concatenate(stored),
            np.cumsum([len(part) for part in stored]),
            tuple(m.reads for m in members),
            self._shares(),
            np.concatenate([known for known, _ in knots]),
            np.concatenate([ranks for _, ranks in knots]),
            np.cumsum([len(known) for known, _ in knots]),
            tuple(self._names()),
        )


def _union(kinds: Iterable[Reads]) -> Reads:
    """The input that contains all of these, beside numbers."""
    different = set(kinds) - {"numbers"}
    return "both" if len(different) > 1 else next(iter(different), "numbers")
