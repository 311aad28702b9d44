"""Jobs that fit: prepare the encoder, fit one method, compare methods on one seed.

What: everything that needs the target and the background, read from two small files.
Why: done in a worker, so that the planning process stays small and the arithmetic runs on one
thread, the same on every machine of a kind.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa

from corpusfit.artifacts import read_arrays, store, write_bytes
from corpusfit.embed import prepare
from corpusfit.engine import Job
from corpusfit.plan import EmbedPlan, MethodPlan
from corpusfit.score import registry
from corpusfit.score.rank import Trial, trial

__all__ = ["Fit", "PrepareEncoder", "Rank", "Sample"]


@dataclass(frozen=True)
class Sample:
    """The target or the background, as texts and as vectors, in a folder."""

    folder: Path
    name: str

    @property
    def vectors(self) -> Path:
        """The file with the vectors [n, d]."""
        return self.folder / f"{self.name}.safetensors"

    @property
    def texts(self) -> Path:
        """The file with the n texts."""
        return self.folder / f"{self.name}.json"

    def write_texts(self, texts: list[str]) -> None:
        """Keep the texts."""
        write_bytes(self.texts, orjson.dumps(texts))

    def read_texts(self) -> list[str]:
        """The texts again."""
        texts: list[str] = orjson.loads(self.texts.read_bytes())
        return texts

    def batch(self, reads: str) -> Any:
        """What a method that reads this gets: Arrow texts or float32 [n, d]."""
        if reads == "text":
            return pa.array(self.read_texts(), pa.large_string())
        return read_arrays(self.vectors)[0]["vectors"]


@dataclass(frozen=True)
class PrepareEncoder(Job[EmbedPlan, str]):
    """Download, verify or distil an encoder; returns its fingerprint."""

    cache: Path

    @property
    def encodes(self) -> bool:
        """It looks at the hardware that will encode."""
        return True

    def start(self) -> Callable[[EmbedPlan], str]:
        """Nothing to open."""
        return lambda plan: prepare(plan, self.cache)


@dataclass(frozen=True)
class Fit(Job[MethodPlan, str]):
    """Fit a method and store its scorer; returns the method's name."""

    target: Sample
    background: Sample
    scorer: Path
    seed: int

    def start(self) -> Callable[[MethodPlan], str]:
        """Nothing to open."""
        return self._work

    def _work(self, plan: MethodPlan) -> str:
        method = registry.build(plan.name, plan.options)
        target, background = (s.batch(method.reads) for s in (self.target, self.background))
        store(self.scorer, plan.name, method.fit(target, background, seed=self.seed))
        return plan.name


@dataclass(frozen=True)
class Rank(Job[tuple[MethodPlan, int], Trial]):
    """One trial of one method with one seed."""

    target: Sample
    background: Sample

    def start(self) -> Callable[[tuple[MethodPlan, int]], Trial]:
        """Nothing to open."""
        return self._work

    def _work(self, piece: tuple[MethodPlan, int]) -> Trial:
        plan, seed = piece
        method = registry.build(plan.name, plan.options)
        target, background = (s.batch(method.reads) for s in (self.target, self.background))
        return trial(plan.name, method, target, background, seed=seed)
