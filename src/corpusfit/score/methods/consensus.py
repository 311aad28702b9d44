"""`consensus`: what unlike methods agree on inside the corpus, and what is like that.

What: (1) cheap methods of different kinds rank a sample of the corpus; (2) each gets a weight by
how its top goes with the others', kin sharing one voice, and their ranks are averaged; (3) the
units on top of that are positives, those of the lower two thirds negatives; a regularised linear
classifier between the two, a density ratio over clusters for the positives, and one for the target
itself are added up, each by its spread over the sample, and calibrated.
Why: a target has a style of its own, which its domain's texts in the corpus do not share, and every
method that compares the two pays for it. What unlike methods agree on is of the domain; what is
learned from corpus texts knows nothing of the target's style.
Trade-off: it has to find some of the domain in the sample, so a domain of which the sample (10,000
units, `fit.background`) holds a handful is better looked for with a larger sample. How many
positives to take depends on how much of the corpus is of the domain, which is estimated: too few
cost a little, too many cost much, so it errs low. A fit takes as long as its members' together,
seconds; a score some hundred inner products.
Reference: Parisi et al. (2014) for the weights (`kernels/agreement.py`); Aharoni and Goldberg
(2020), section 4, for negatives by pre-ranking; Saerens, Latinne and Decaestecker (2002), Adjusting
the Outputs of a Classifier to New a Priori Probabilities, for the domain's share. The method as a
whole is our own: docs/auto.md has what it is worth.
"""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from corpusfit.errors import bad_setting
from corpusfit.kernels.agreement import agreed_depth, mid_ranks, spectral_weights
from corpusfit.kernels.logistic import balanced, class_share, logistic, platt
from corpusfit.kernels.vectors import lengths, products
from corpusfit.score import registry
from corpusfit.score.blocks import blockwise, plain_rows
from corpusfit.score.contract import Family, Method, Scorer
from corpusfit.types import Paired, Reads, Vectors, read_as, taken

MEMBERS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("domain_cosine", {"centred": False}),
    ("domain_cosine", {"centred": True}),
    ("domain_classifier", {"centred": False}),
    ("domain_classifier", {"centred": True}),
    ("knn", {}),
    ("isolation_forest", {}),
    ("cluster_ratio", {}),
    ("dsir", {}),
)
TOP = 0.1
"""What a member's weight is judged by: its best tenth."""

_DEPTHS = tuple(0.0025 * 2 ** (step / 2) for step in range(13))
"""Shares of the sample at which agreement is looked at: 0.25 to 16 %."""

_LEAST = 10
"""Positives at least, where the sample has three times as many units."""

_SHOWN = 500
"""Positives that are kept to be shown, the surest first."""


@dataclass(frozen=True)
class ConsensusScorer(Scorer[Vectors]):
    """A linear function of a text's direction plus one of its clusters; what it was learned from.

    Attributes:
        mean: float32 [1, d], the background's, taken off first.
        weights: float32 [1, d].
        clusters: uint8, a scorer of `cluster_ratio` as stored.
        bias: added to both.
        share: the estimated share of the domain among the corpus's units.
        trusted: weight of each member's ranking.
        positives: how many units it was learned from.
        texts: those units, the surest first, as many as are kept.
        directions: float32 [k, d], theirs.
    """

    mean: Vectors
    weights: Vectors
    clusters: NDArray[np.uint8]
    bias: float
    share: float
    trusted: tuple[float, ...]
    positives: int
    texts: tuple[str, ...]
    directions: Vectors

    @cached_property
    def ratio(self) -> Scorer[Vectors]:
        """The scorer by clusters, opened once in a process."""
        return registry.from_array(self.clusters)

    def score(self, batch: Vectors) -> NDArray[np.float32]:
        """Score float32 [n, d]: log odds of being of the domain, float32 [n].

        1 / (1 + exp(-score)) is the probability for a unit of the corpus, as far as the estimated
        share is right; rather too sure, being calibrated on the units that it was learned from.
        """

        def block(x: Vectors) -> NDArray[np.float64]:
            placed = x - self.mean
            along = (products(placed, self.weights) / lengths(placed))[:, 0]
            return np.asarray(along.astype(np.float64) + self.ratio.score(x) + self.bias)

        return blockwise(batch, self.mean.shape[1], block)

    def remark(self) -> str:
        """The estimated share, and who was trusted."""
        order = np.argsort(-np.array(self.trusted), kind="stable")
        names = [f"{_name(*MEMBERS[i])} {self.trusted[i]:.2f}" for i in order]
        return (
            f"About {100 * self.share:.2g} % of the corpus's units are estimated to be of the "
            f"target's domain. Learned from {self.positives:,} units of the corpus on which these "
            f"agreed, by weight: {', '.join(names)}."
        )

    def nearest(self, vectors: Vectors) -> list[tuple[str, float]]:
        """The corpus texts it learned from, nearest first, with their cosines to the mean of n."""
        placed = plain_rows((vectors - self.mean).mean(axis=0, keepdims=True, dtype=np.float64))
        cosines = products(self.directions, placed / lengths(placed))[:, 0]
        order = np.argsort(-cosines, kind="stable")
        return [(self.texts[i], float(cosines[i])) for i in order]


def _name(method: str, settings: dict[str, Any]) -> str:
    given = ", ".join(k if v else f"not {k}" for k, v in settings.items())
    return f"{method} ({given})" if given else method


@dataclass(frozen=True)
class Consensus(Method[Paired]):
    """Like what unlike methods agree on inside the corpus.

    Attributes:
        share: positives, as a share of the sample; 0 takes as many as the members agree on.
        c: weight of the loss against the penalty; smaller is smoother.
    """

    reads: ClassVar[Reads] = "embedding"
    learns: ClassVar[Reads | None] = "both"
    family: ClassVar[Family] = "ensemble"
    scorer: ClassVar[type] = ConsensusScorer
    needs: ClassVar[str] = "embed"

    share: float = 0.0
    c: float = 0.1

    def __post_init__(self) -> None:
        if not 0.0 <= self.share <= 1 / 3:
            raise bad_setting("method.share", "from 0 to 1/3", self.share)
        if not self.c > 0.0:
            raise bad_setting("method.c", "above 0", self.c)

    def fit(self, target: Paired, background: Paired, *, seed: int) -> ConsensusScorer:
        """Let the members rank the background, and learn from what they agree on.

        Raises:
            MissingDependencyError: a member's library is not installed.
        """
        fitted = [self._fitted(*m, target, background, seed) for m in MEMBERS]
        trusted, order, count = self._agreed([ranks for _, ranks in fitted])
        n = len(order)
        best, rest = order[:count], order[n // 3 :]
        vectors = plain_rows(background.vectors)
        mean = plain_rows(vectors.mean(axis=0, keepdims=True, dtype=np.float64))
        directions = plain_rows((vectors - mean) / lengths(vectors - mean))
        learned = np.concatenate([best, rest])
        positive = np.arange(len(learned)) < len(best)
        label, weight = positive.astype(np.float64), balanced(positive)
        weights = logistic(directions[learned].astype(np.float64), label, self.c * weight, 1.0)[:-1]
        own: Any = fitted[MEMBERS.index(("cluster_ratio", {}))][0]
        ratios = [own.for_target(vectors[best]), own]
        parts = np.array([directions @ weights, *(r.score(vectors) for r in ratios)])
        scales = 1.0 / np.maximum(parts.std(axis=1), 1e-9)
        slope, intercept = platt((scales @ parts)[learned], positive, weight)
        odds = slope * (scales @ parts) + intercept
        share = max(count / (n + 1), class_share(odds))  # those are of the domain, or nothing is
        scales *= slope
        together = scales[1] * ratios[0].ratio + scales[2] * ratios[1].ratio
        ratio = dataclasses.replace(own, ratio=together.astype(np.float32))
        shown = best[:_SHOWN]
        return ConsensusScorer(
            mean,
            plain_rows(scales[0] * weights[None]),
            registry.as_array("cluster_ratio", ratio),
            intercept + math.log(share / (1.0 - share)),
            share,
            tuple(trusted.tolist()),
            len(best),
            tuple(taken(background.texts, shown).to_pylist()),
            directions[shown],
        )

    def _agreed(
        self, members: list[NDArray[np.float64]]
    ) -> tuple[NDArray[np.float64], NDArray[np.int64], int]:
        """The members' weights, the sample's units in their common order, and how many to trust."""
        ranks = np.array(members)
        trusted = spectral_weights(ranks, TOP, [registry.load(m).family for m, _ in MEMBERS])
        order = np.argsort(-(trusted @ ranks), kind="stable")
        return trusted, order, self._positives(ranks, trusted)

    def _fitted(
        self,
        name: str,
        settings: dict[str, Any],
        target: Paired,
        background: Paired,
        seed: int,
    ) -> tuple[Scorer[Any], NDArray[np.float64]]:
        """A member, fitted, and how it ranks the background."""
        member = registry.fitting(name, settings)
        parts = (read_as(part, member.fits_on) for part in (target, background))
        scorer = member.fit(*parts, seed=seed)
        return scorer, mid_ranks(scorer.score(read_as(background, member.reads)))

    def _positives(self, ranks: NDArray[np.float64], trusted: NDArray[np.float64]) -> int:
        """How many of the best to learn from; never into the negatives."""
        n = int(ranks.shape[1])
        least = min(_LEAST, max(1, n // 3))
        if self.share:
            return min(max(least, round(self.share * n)), max(1, n // 3))
        depths = sorted({min(max(least, round(d * n)), max(1, n // 3)) for d in _DEPTHS})
        return agreed_depth(ranks, trusted, depths)
