"""The job that explains a score: what raised and lowered it, and the target texts most like it.

What: scores a few units anew, gathers their n-grams' effects, ranks the target texts by likeness.
Why: the scorer speaks for itself where it looks at words; for any other method the nearest target
texts are what a person can look at.
Trade-off: likeness is a method turned round: `tfidf`, or `domain_cosine` on the run's own vectors,
is fitted on the units and scores the target; so it is a cosine, whatever the run's method was.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from corpusfit.artifacts import restore
from corpusfit.embed import load
from corpusfit.engine import Job
from corpusfit.errors import InputError
from corpusfit.jobs.fit import Sample
from corpusfit.plan import EmbedPlan, MethodPlan
from corpusfit.score import registry
from corpusfit.score.contract import Effect, Method, Scorer
from corpusfit.types import Paired, read_as, text_array


@dataclass(frozen=True)
class Neighbour:
    """A target text and its cosine with the text explained."""

    text: str
    cosine: float


@dataclass(frozen=True)
class Explained:
    """What is to be said of a few units together.

    Attributes:
        score: the mean, or the sum, of the units' scores; None from a method that scores no single
            text.
        effects: what each n-gram did to it, strongest raise first; empty where the method does not
            look at words.
        nearest: target texts, the most alike first; none where the units hold no word.
        nearest_by: `words` (TF-IDF) or `embedding`.
        learned_from: corpus texts that the method learned from, the most alike first, if it did.
    """

    score: float | None
    effects: list[Effect]
    nearest: list[Neighbour]
    nearest_by: str
    learned_from: list[Neighbour]


@dataclass(frozen=True)
class Explain(Job[list[str], Explained]):
    """Explain the score of a segment, given as its units' texts.

    Attributes:
        method: the method and its settings.
        summed: whether a segment's score is the sum of its units', not the mean.
        scorer: where the fitted scorer is.
        target: the target's texts and, for a method on embeddings, its vectors.
        embed: the run's encoder.
        cache: where encoders are kept.
        top: target texts shown.
    """

    method: MethodPlan
    summed: bool
    scorer: Path
    target: Sample
    embed: EmbedPlan
    cache: Path
    top: int

    def start(self) -> Callable[[list[str]], Explained]:
        """Nothing to open: it is done once."""
        return self._work

    def _work(self, units: list[str]) -> Explained:
        method = registry.build(self.method.name, self.method.options)
        texts = text_array(units)
        if method.encodes:
            known = Paired(texts, load(self.embed, self.cache).encode(units))
            by, nearest = "embedding", self._nearest(known.vectors, "embedding")
            batch = read_as(known, method.reads)
        else:
            by, nearest, batch = "words", self._nearest(texts, "words"), texts
        if not isinstance(method, Method):
            return Explained(None, [], nearest, by, [])
        scorer: Scorer[Any] = restore(self.scorer, registry.scorer_class)
        share = 1.0 if self.summed else 1 / len(units)
        score = float(scorer.score(batch).sum(dtype=np.float64)) * share
        learned = scorer.nearest(known.vectors)[: self.top] if method.encodes else []
        examples = [Neighbour(*found) for found in learned]
        return Explained(score, effects_of(scorer, units, share), nearest, by, examples)

    def _nearest(self, batch: Any, by: str) -> list[Neighbour]:
        plain = ("domain_cosine", {"centred": False}) if by == "embedding" else ("tfidf", {})
        likeness = registry.unit_method(*plain)
        target = self.target.batch("embedding" if by == "embedding" else "text")
        try:
            cosines = likeness.fit(batch, target, seed=0).score(target)
        except InputError:  # the units hold no word
            return []
        texts = self.target.read_texts()
        best = np.argsort(-cosines, kind="stable")[: self.top]
        return [Neighbour(texts[i], float(cosines[i])) for i in best if cosines[i] > 0.0]


def effects_of(scorer: Scorer[Any], units: list[str], share: float) -> list[Effect]:
    """Effects on a segment's score, in which each unit has a share."""
    sums: defaultdict[str, float] = defaultdict(float)
    for unit in units:
        for effect in scorer.explain(unit):
            sums[effect.part] += effect.effect
    effects = [Effect(part, total * share) for part, total in sums.items()]
    return sorted(effects, key=lambda e: (-e.effect, e.part))
