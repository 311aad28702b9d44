"""The job that explains a score by n-grams' effects and by the nearest target texts."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from corpusfit.core.artifacts import restore
from corpusfit.core.engine import PlainJob
from corpusfit.core.errors import InputError
from corpusfit.core.plan import EmbedPlan, MethodPlan
from corpusfit.core.types import Paired, read_as, text_array
from corpusfit.embed import load
from corpusfit.scoring import registry
from corpusfit.scoring.contract import Effect, Scorer
from corpusfit.selection.fit import Sample


@dataclass(frozen=True)
class Neighbour:
    """A text and its cosine similarity with the explained text."""

    text: str
    cosine: float


@dataclass(frozen=True)
class Explained:
    """The explanation of a segment's score.

    Attributes:
        score: mean or sum of the units' scores; None for a method that cannot score a single text.
        effects: effects of the n-grams on the score, in descending order; empty for a method that
            does not read words.
        nearest: most similar target texts; none if the units have no word.
        nearest_by: similarity behind `nearest`: `words` (TF-IDF) or `embedding`.
        learned_from: most similar corpus texts that the method learned from, if it learned any.
        meaning: what the score and the effects are, if that needs words.
    """

    score: float | None
    effects: list[Effect]
    nearest: list[Neighbour]
    nearest_by: str
    learned_from: list[Neighbour]
    meaning: str = ""


@dataclass(frozen=True)
class Explain(PlainJob[list[str], Explained]):
    """Explain the score of a segment, given as its units' texts.

    Similarity is the cosine of `tfidf`, or of `domain_cosine` on the run's embeddings.

    Attributes:
        method: the method and its settings.
        summed: whether a segment's score is the sum of its units' scores, not the mean.
        scorer: file of the fitted scorer.
        target: the target's texts and, for a method on embeddings, its vectors.
        embed: the run's encoder.
        top: most target texts to return.
    """

    method: MethodPlan
    summed: bool
    scorer: Path
    target: Sample
    embed: EmbedPlan
    cache: Path
    top: int

    def _work(self, units: list[str]) -> Explained:
        method = registry.build(self.method.name, self.method.options)
        texts = text_array(units)
        if method.encodes:
            known = Paired(texts, load(self.embed, self.cache).encode(texts))
            by, nearest = "embedding", self._nearest(known.vectors, "embedding")
            batch = read_as(known, method.reads)
        else:
            by, nearest, batch = "words", self._nearest(texts, "words"), texts
        if method.scorer is None:
            return Explained(None, [], nearest, by, [])
        scorer = restore(self.scorer, registry.scorer_class)
        if method.whole_segments:
            units = ["".join(units)]
            batch = text_array(units)
        share = 1.0 if self.summed else 1 / len(units)
        score = float(scorer.score(batch).sum(dtype=np.float64)) * share
        learned = scorer.nearest(known.vectors)[: self.top] if method.encodes else []
        examples = [Neighbour(*found) for found in learned]
        effects = effects_of(scorer, units, share)
        return Explained(score, effects, nearest, by, examples, scorer.meaning())

    def _nearest(self, batch: Any, by: str) -> list[Neighbour]:
        plain = ("domain_cosine", {"centred": False}) if by == "embedding" else ("tfidf", {})
        similarity = registry.unit_method(*plain)
        target = self.target.batch("embedding" if by == "embedding" else "text")
        try:
            cosines = similarity.fit(batch, target, seed=0).score(target)
        except InputError:  # the units have no word
            return []
        texts = self.target.read_texts()
        best = np.argsort(-cosines, kind="stable")[: self.top]
        return [Neighbour(texts[i], float(cosines[i])) for i in best if cosines[i] > 0.0]


def effects_of(scorer: Scorer[Any], units: list[str], share: float) -> list[Effect]:
    """Effects of n-grams on a segment's score; each unit counts by `share`."""
    sums: defaultdict[str, float] = defaultdict(float)
    for unit in units:
        for effect in scorer.explain(unit):
            sums[effect.part] += effect.effect
    effects = [Effect(part, float(total * share)) for part, total in sums.items()]
    return sorted(effects, key=lambda e: (-e.effect, e.part))
