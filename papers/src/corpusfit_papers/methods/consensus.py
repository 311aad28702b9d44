"""`consensus`: similar to the corpus texts on which unlike methods agree.

What: (1) cheap methods of different kinds rank a sample of the corpus. (2) Each method gets a
weight by how its top agrees with the others' (one vote per family), and the ranks are averaged. (3)
The top units are positives, the lower two thirds negatives. Three scores are fitted: a regularized
linear classifier between both, a density ratio over clusters for the positives, and one for the
target. Their sum, each scaled by its spread over the sample, is calibrated.
Why: a target has a style of its own that its domain's texts in the corpus lack, which misleads
every method that compares the two. Unlike methods agree on the domain, and corpus texts do not show
the target's style.
Trade-off: the sample (10,000 units, `fit.background`) must hold some texts of the domain; a rare
domain needs a larger sample. The number of positives depends on the domain's share of the corpus,
which is estimated: too few positives cost a little, too many cost much, so the estimate errs low. A
fit takes seconds, as long as its members together; a score takes a few hundred inner products.
Reference: Parisi et al. (2014) for the weights (`agreement.py`); Aharoni and Goldberg
(2020), section 4, for negatives by pre-ranking; Saerens, Latinne and Decaestecker (2002), Adjusting
the Outputs of a Classifier to New a Priori Probabilities, for the domain's share. The combination
is this project's own; docs/ranking.md has its results.
"""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata

from corpusfit.contracts import (
    Method,
    Paired,
    Scorer,
    balanced,
    blockwise,
    lengths,
    logistic,
    pack_scorer,
    plain_rows,
    platt,
    products,
    setting,
    unit_method,
    unpack_scorer,
)
from corpusfit_papers.agreement import agreed_depth, class_share, spectral_weights

MEMBERS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("domain_cosine", {"centered": False}),
    ("domain_cosine", {"centered": True}),
    ("domain_classifier", {"centered": False}),
    ("domain_classifier", {"centered": True}),
    ("knn", {}),
    ("isolation_forest", {}),
    ("cluster_ratio", {}),
    ("dsir", {}),
)
TOP = 0.1
"""Share of each member's ranking that decides its weight."""

_DEPTHS = tuple(0.0025 * 2 ** (step / 2) for step in range(13))
"""Shares of the sample at which agreement is measured: 0.25 to 16 %."""

_LEAST = 10
"""Fewest positives, if the sample has at least three times as many units."""

"""Number of positives kept for display, the most certain first."""


@dataclass(frozen=True)
class ConsensusScorer(Scorer[NDArray[np.float32]]):
    """A linear function of a text's direction and one of its clusters, with the positives."""

    mean: NDArray[np.float32]  # [1, d], mean of the background, subtracted first
    weights: NDArray[np.float32]  # [1, d]
    clusters: NDArray[np.uint8]  # a stored scorer of `cluster_ratio`
    bias: float  # added to both
    share: float  # the estimated share of the domain among the corpus's units
    trusted: tuple[float, ...]  # weight of each member's ranking
    positives: int

    @cached_property
    def ratio(self) -> Scorer[NDArray[np.float32]]:
        """The scorer by clusters, opened once per process."""
        return unpack_scorer(self.clusters)

    def score(self, batch: NDArray[np.float32]) -> NDArray[np.float32]:
        """Score float32 [n, d]: log odds that a text is of the domain, float32 [n].

        1 / (1 + exp(-score)) is the probability for a unit of the corpus if the estimated share is
        right. It is somewhat overconfident, because it is calibrated on its own training units.
        """

        def block(x: NDArray[np.float32]) -> NDArray[np.float64]:
            placed = x - self.mean
            along = (products(placed, self.weights) / lengths(placed))[:, 0]
            return np.asarray(along.astype(np.float64) + self.ratio.score(x) + self.bias)

        return blockwise(batch, self.mean.shape[1], block)

    def remark(self) -> str:
        """The estimated share of the domain, and the members' weights."""
        order = np.argsort(-np.array(self.trusted), kind="stable")
        names = [f"{_name(*MEMBERS[i])} {self.trusted[i]:.2f}" for i in order]
        return (
            f"Estimated share of the target's domain: {100 * self.share:.2g} % of the corpus's "
            f"units. Trained on the {self.positives:,} corpus units on which these methods agree "
            f"most (with their weights): {', '.join(names)}."
        )


def _name(method: str, settings: dict[str, Any]) -> str:
    flags = ", ".join(k if v else f"not {k}" for k, v in settings.items())
    return f"{method} ({flags})" if flags else method


@dataclass(frozen=True)
class Consensus(Method[Paired]):
    """Log odds of the domain, learned from corpus texts on which unlike methods agree.

    Attributes:
        share: Positives as a share of the sample; 0 takes as many as the members agree on (default:
            0).
        c: Weight of the loss against the penalty; smaller is smoother (default: 0.1).
    """

    reads = "embedding"
    learns = "both"
    family = "ensemble"
    scorer: ClassVar[type] = ConsensusScorer

    share: float = setting(0.0, minimum=0, maximum=1 / 3)
    c: float = setting(0.1, above=0)

    def fit(self, target: Paired, background: Paired, *, seed: int) -> ConsensusScorer:
        """Rank the background with all members, and fit on the units on which they agree."""
        fitted = [self._fitted(*m, target, background, seed) for m in MEMBERS]
        # the members' weights, and the sample's units in joint order
        ranks = np.array([ranks for _, ranks in fitted])
        trusted = spectral_weights(ranks, TOP, [unit_method(*member).family for member in MEMBERS])
        order = np.argsort(-(trusted @ ranks), kind="stable")
        n = len(order)
        count = self._positives(ranks, trusted)
        # positives: units that the members agree on; negatives: the lower two thirds
        best = order[:count]
        rest = order[n // 3 :]
        vectors = plain_rows(background.vectors)
        mean = plain_rows(vectors.mean(axis=0, keepdims=True, dtype=np.float64))
        directions = plain_rows((vectors - mean) / lengths(vectors - mean))
        learned = np.concatenate([best, rest])
        positive = np.arange(len(learned)) < len(best)
        label = positive.astype(np.float64)
        weight = balanced(positive)
        weights = logistic(directions[learned].astype(np.float64), label, self.c * weight, 1.0)[:-1]
        cluster_ratio: Any = fitted[MEMBERS.index(("cluster_ratio", {}))][0]
        # the same clusters give ratios for the positives and for the target
        ratios = [cluster_ratio.for_target(vectors[best]), cluster_ratio]
        parts = np.array([directions @ weights, *(r.score(vectors) for r in ratios)])
        # three scores of different units: scale by their spread, sum, and calibrate
        scales = 1.0 / np.maximum(parts.std(axis=1), 1e-9)
        slope, intercept = platt((scales @ parts)[learned], positive, weight)
        odds = slope * (scales @ parts) + intercept
        # at least the positives are of the domain
        share = max(count / (n + 1), class_share(odds))
        # fold the calibration into the parts, so that scoring is one linear function
        scales *= slope
        together = scales[1] * ratios[0].ratio + scales[2] * ratios[1].ratio
        ratio = dataclasses.replace(cluster_ratio, ratio=together.astype(np.float32))
        return ConsensusScorer(
            mean,
            plain_rows(scales[0] * weights[None]),
            pack_scorer("cluster_ratio", ratio),
            intercept + math.log(share / (1.0 - share)),
            share,
            tuple(trusted.tolist()),
            len(best),
        )

    def _fitted(
        self, name: str, settings: dict[str, Any], target: Paired, background: Paired, seed: int
    ) -> tuple[Scorer[Any], NDArray[np.float64]]:
        """A fitted member and its ranking of the background."""
        member = unit_method(name, settings)
        parts = (_read(part, member.fits_on) for part in (target, background))
        scorer = member.fit(*parts, seed=seed)
        scores = scorer.score(_read(background, member.reads))
        return scorer, (rankdata(scores) - 0.5) / len(scores)

    def _positives(self, ranks: NDArray[np.float64], trusted: NDArray[np.float64]) -> int:
        """The number of positives; they never overlap the negatives."""
        n = int(ranks.shape[1])
        least = min(_LEAST, max(1, n // 3))
        if self.share:
            return min(max(least, round(self.share * n)), max(1, n // 3))
        depths = sorted({min(max(least, round(d * n)), max(1, n // 3)) for d in _DEPTHS})
        return agreed_depth(ranks, trusted, depths)


def _read(units: Paired, reads: str) -> Any:
    """What a member reads of the units."""
    return {"text": units.texts, "embedding": units.vectors}.get(reads, units)
