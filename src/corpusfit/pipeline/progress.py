"""What the user is told while a model trains.

What: a training's steps and losses as a bar and sentences.
Why: the loop in `adapt/` knows nothing of front ends.
Trade-off: the training loss is said only beside held-out losses, which are what tells.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from corpusfit.adapt.trainer import TrainerCallback
from corpusfit.engine import Progress


class TrainingProgress(TrainerCallback):
    """Tells the user how a training goes."""

    def __init__(self, progress: Progress, steps: int) -> None:
        self._progress, self._steps, self._loss = progress, steps, ""
        self._before: Mapping[str, float] = {}

    def step(self, steps: int, tokens: int) -> None:
        """Move the bar."""
        self._progress.advance(steps, tokens)

    def resume(self, step: int, history: Sequence[Mapping[str, Any]]) -> None:
        """Say so, and compare with what was measured before the first step."""
        self._before = next((r["heldout"] for r in history if "heldout" in r), {})
        self._progress.advance(step, 0)
        self._progress.note(f"Goes on after step {step:,} of {self._steps:,}.")

    def record(self, record: Mapping[str, Any]) -> None:
        """Say the held-out losses."""
        if "heldout" not in record:
            self._loss = f"training loss {record['loss']:.3f}; "
            return
        now = record["heldout"]
        self._before = self._before or now
        parts = [
            f"{name} {loss:.3f}"
            + (f" ({loss - self._before[name]:+.3f})" if record["step"] else "")
            for name, loss in now.items()
        ]
        said = f"Step {record['step']:,} of {self._steps:,}: {self._loss}held-out loss "
        self._progress.note(said + ", ".join(parts))

    def warn(self, message: str) -> None:
        """Pass it on."""
        self._progress.warn(message)
