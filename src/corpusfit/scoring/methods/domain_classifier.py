"""`domain_classifier`: calibrated log odds of the target against the rest of the corpus.

What: logistic regression on embeddings, target texts against background texts that Domain-Cosine
ranks low.
Why: Aharoni and Goldberg's second selector. A corpus sample holds texts of the target's domain; as
negatives they would teach the classifier to reject its own domain, so the best-ranked third is left
out (their "Negative Sampling with Pre-ranking", Table 5).
Trade-off: a linear classifier on frozen embeddings replaces their fine-tuned language model: a fit
takes seconds and a score one inner product. It learns everything that separates the target from the
negatives, style and length as well as domain. If hardly any of the corpus is of the target's
domain, pre-ranking removes the most informative negatives (benchmarks/log.md).
Reference: Aharoni and Goldberg (2020), Unsupervised Domain Clusters, section 4, Domain-Finetune and
Negative Sampling with Pre-ranking; Platt (1999) for the calibration.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from corpusfit.core.settings import setting
from corpusfit.core.types import Reads, Vectors
from corpusfit.kernels.vectors import lengths, products
from corpusfit.scoring.blocks import blockwise, plain_rows
from corpusfit.scoring.classifiers import calibrated_classifier, least_similar
from corpusfit.scoring.contract import Family, Method, Scorer


@dataclass(frozen=True)
class DomainClassifierScorer(Scorer[Vectors]):
    """A linear function of a text's direction."""

    mean: Vectors  # [1, d], subtracted first; zero without centering
    weights: Vectors  # [1, d]
    bias: float  # added to the inner product

    def score(self, batch: Vectors) -> NDArray[np.float32]:
        """Score float32 [n, d]: log odds, float32 [n].

        1 / (1 + exp(-score)) is the probability of a target text, at equal priors of target texts
        and negatives. Calibrated if at least two target texts differ.
        """

        def block(x: Vectors) -> NDArray[np.float64]:
            placed = x - self.mean
            along = products(placed, self.weights) / lengths(placed)
            return np.asarray(along[:, 0].astype(np.float64) + self.bias)

        return blockwise(batch, self.mean.shape[1], block)


@dataclass(frozen=True)
class DomainClassifier(Method[Vectors]):
    """Log odds of target against background, by logistic regression on embeddings.

    The loss is |w|² / 2 + c times the sum of the texts' logistic losses. Target and negatives have
    equal total weight, and all weights add up to the number of texts.

    Attributes:
        preranked: Draw negatives only from the two thirds of the background that Domain-Cosine
            ranks lowest (default: true).
        centered: Subtract the background's mean from every embedding before scaling to length 1
            (default: false).
        c: Weight of the loss against the penalty; smaller is smoother (default: 0.1).
        negatives: Number of negatives per target text, drawn at random; 0 takes all (default: 0).
    """

    reads: ClassVar[Reads] = "embedding"
    family: ClassVar[Family] = "classifier"
    scorer: ClassVar[type] = DomainClassifierScorer
    cost: ClassVar[str] = "5,000,000/s"

    preranked: bool = True
    centered: bool = False
    c: float = setting(0.1, above=0)
    negatives: float = setting(0.0, minimum=0)

    def fit(self, target: Vectors, background: Vectors, *, seed: int) -> DomainClassifierScorer:
        """Draw the negatives, fit, and calibrate on held-out fifths of both classes."""
        target = plain_rows(target)
        background = plain_rows(background)
        mean = np.zeros((1, target.shape[1]), np.float32)
        if self.centered:
            mean = plain_rows(background.mean(axis=0, keepdims=True, dtype=np.float64))
        near, far = ((x - mean) / lengths(x - mean) for x in (target, background))
        far = far[self._negatives(near, far, seed)]
        weights, bias = calibrated_classifier(
            near.astype(np.float64), far.astype(np.float64), self.c, seed
        )
        return DomainClassifierScorer(mean, plain_rows(weights[None]), bias)

    def _negatives(self, near: Vectors, far: Vectors, seed: int) -> NDArray[np.int64]:
        places = np.arange(len(far))
        if self.preranked:
            places = least_similar(near, far)
        count = round(self.negatives * len(near)) or len(places)
        sampled = np.random.default_rng(seed % 2**64).permutation(len(places))[:count]
        return np.sort(places[sampled])
