"""The job that describes example segments for the report: vectors, scores and effects."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from corpusfit.core.artifacts import restore
from corpusfit.core.engine import PlainJob
from corpusfit.core.errors import ModelError
from corpusfit.core.plan import CutPlan, EmbedPlan, MethodPlan
from corpusfit.core.types import Documents, read_as, taken_of, text_array
from corpusfit.embed import load, prepare
from corpusfit.scoring import registry
from corpusfit.scoring.contract import Effect
from corpusfit.selection.explain_job import effects_of
from corpusfit.selection.fit import Sample
from corpusfit.text.reading import cut_units

_UNITS = 2
"""First units of a segment whose mean is its vector, enough to place it on a map."""


@dataclass(frozen=True)
class Described:
    """The description of k segments and m target units.

    Attributes:
        vectors: float32 [k, d]; None without embeddings.
        effects: by segment, the effects of its n-grams on its score, in descending order.
        target_vectors: float32 [m, d]; None without embeddings.
        target_scores: float32 [m]; None for a method that cannot score a single text.
    """

    vectors: NDArray[np.float32] | None
    effects: list[list[Effect]]
    target_vectors: NDArray[np.float32] | None
    target_scores: NDArray[np.float32] | None


@dataclass(frozen=True)
class Describe(PlainJob[list[str], Described]):
    """Describe segments, given as their texts.

    Attributes:
        method: the run's method and its settings.
        scorer: file of the fitted scorer.
        target: the target's units.
        places: places of the target units to describe.
        embed: the run's encoder.
        encoder: its fingerprint; None to encode nothing.
    """

    method: MethodPlan
    scorer: Path
    target: Sample
    places: tuple[int, ...]
    cut: CutPlan
    embed: EmbedPlan
    encoder: str | None
    cache: Path

    @property
    def encodes(self) -> bool:
        """Whether segments are encoded."""
        own = registry.build(self.method.name, self.method.options).encodes
        return own and self.encoder is not None

    def _work(self, texts: list[str]) -> Described:
        method = registry.build(self.method.name, self.method.options)
        cut, pieces = cut_units(Documents(np.arange(len(texts)), text_array(texts)), self.cut)
        units: list[list[str]] = [[] for _ in texts]
        for row, unit in zip(cut.row.tolist(), pieces.to_pylist(), strict=True):
            units[row].append(unit)
        vectors = target_vectors = target_scores = None
        places = np.array(self.places, np.int64)
        if self.encodes:
            vectors = self._encoded(units)
            target_vectors = self.target.batch("embedding")[places]
        effects: list[list[Effect]] = [[] for _ in texts]
        if method.scorer is not None:
            scorer = restore(self.scorer, registry.scorer_class)
            known = self.target.batch("both" if method.encodes else "text")
            target_scores = scorer.score(read_as(taken_of(known, places), method.reads))
            if method.whole_segments:
                units = [["".join(own)] for own in units]
            share = [1.0 if method.log_weights else 1.0 / max(1, len(own)) for own in units]
            effects = [effects_of(scorer, *each) for each in zip(units, share, strict=True)]
        return Described(vectors, effects, target_vectors, target_scores)

    def _encoded(self, units: list[list[str]]) -> NDArray[np.float32]:
        if prepare(self.embed, self.cache) != self.encoder:
            raise ModelError(
                f"The model {self.embed.embedder} changed since the corpus was scored with it."
            )
        first = [own[:_UNITS] or [""] for own in units]
        flat = [unit for own in first for unit in own]
        found = load(self.embed, self.cache).encode(flat)
        counts = np.array([len(own) for own in first])
        sums = np.add.reduceat(found, np.cumsum(counts) - counts, axis=0)
        return np.asarray(sums / counts[:, None], np.float32)
