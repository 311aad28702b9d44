"""The job that translates texts into another language and back."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from corpusfit.core.artifacts import write_bytes
from corpusfit.core.engine import Job, Progress
from corpusfit.evaluation.backtranslate import BackTranslator


@dataclass(frozen=True)
class Passage:
    """Texts that are translated together.

    Attributes:
        texts: n texts.
        first: number of the first text in the task.
        out: file of the translations: a JSON list of n * copies texts.
    """

    texts: tuple[str, ...]
    first: int
    out: Path


@dataclass(frozen=True)
class Backtranslate(Job[Passage, int]):
    """Translate a passage to another language and back; returns the number of texts.

    Each worker loads two models and computes on one thread, so that rounding does not depend on the
    number of workers.

    Attributes:
        mt: folder or hub id of the model that translates from the source language.
        mt_back: folder or hub id of the model that translates back to it.
        copies: number of translations of each text.
        device: `auto`, `cpu` or `cuda`.
    """

    mt: str
    mt_back: str
    copies: int
    seed: int
    device: str

    encodes = True  # two networks are loaded

    def start(self) -> Callable[[Passage], int]:
        """Load the models; raises `ModelError`."""
        models = BackTranslator.load(self.mt, self.mt_back, device=self.device)

        def work(piece: Passage) -> int:
            how = {"copies": self.copies, "seed": self.seed, "first": piece.first}
            found = models.translate(piece.texts, **how, progress=Progress())
            write_bytes(piece.out, json.dumps(found).encode())
            return len(piece.texts)

        return work
