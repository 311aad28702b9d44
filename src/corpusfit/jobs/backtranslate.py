"""The job that translates a few texts into another language and back.

What: translates, writes what came out to a file of its own.
Why: a task's companions take hours; several pieces go on at once, one compute thread each, and what
is finished is not done again.
Trade-off: each worker holds two models. With one thread, and always the same texts in a piece,
rounding is the same however many workers there are.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from corpusfit.artifacts import write_bytes
from corpusfit.engine import Job, Progress
from corpusfit.evaluate.backtranslate import BackTranslator


@dataclass(frozen=True)
class Passage:
    """Texts that are translated together.

    Attributes:
        texts: n of them.
        first: the number of the first one among all of the task.
        out: where the translations go: a JSON list of n * copies texts.
    """

    texts: tuple[str, ...]
    first: int
    out: Path


@dataclass(frozen=True)
class Backtranslate(Job[Passage, int]):
    """Translate there and back; returns how many texts.

    Attributes:
        mt: folder or hub id of the model that translates there.
        mt_back: of the one that translates back.
        copies: translations of each text.
        seed: the only source of chance.
        device: `auto`, `cpu` or `cuda`.
    """

    mt: str
    mt_back: str
    copies: int
    seed: int
    device: str

    @property
    def encodes(self) -> bool:
        """Two networks are opened."""
        return True

    def start(self) -> Callable[[Passage], int]:
        """Open the models; raises `ModelError`."""
        models = BackTranslator.load(self.mt, self.mt_back, device=self.device)

        def work(piece: Passage) -> int:
            found = models.translate(
                piece.texts,
                copies=self.copies,
                seed=self.seed,
                first=piece.first,
                progress=Progress(),
            )
            write_bytes(piece.out, json.dumps(found).encode())
            return len(piece.texts)

        return work
