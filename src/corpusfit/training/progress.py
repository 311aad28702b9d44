"""Reports the steps and losses of a training to the user."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

from corpusfit.core.engine import Progress
from corpusfit.training.trainer import TrainerCallback


class TrainingProgress(TrainerCallback):
    """Passes a training's steps and losses on to a progress display.

    Args:
        progress: the display.
        steps: number of steps.
        measurement: the work of measuring the held-out losses once, in steps.
    """

    def __init__(self, progress: Progress, steps: int, measurement: float = 0.0) -> None:
        self._progress, self._steps, self._measurement = progress, steps, measurement
        self._recent: list[float] = []  # losses since the last held-out one
        self._before: Mapping[str, float] = {}

    def step(self, steps: int, tokens: int) -> None:
        """Move the bar."""
        self._progress.advance(steps, tokens)

    def resume(self, step: int, history: Sequence[Mapping[str, Any]]) -> None:
        """Note the step; later losses are compared with those before the first step."""
        measured = [r["heldout"] for r in history if "heldout" in r]
        self._before = next(iter(measured), {})
        self._progress.skip(step + len(measured) * self._measurement)
        self._progress.note(f"Resume after step {step:,} of {self._steps:,}.")

    def record(self, record: Mapping[str, Any]) -> None:
        """Note the held-out losses, with their change since the first step."""
        if "heldout" not in record:
            self._recent.append(record["loss"])
            return
        self._progress.advance(self._measurement)
        now = record["heldout"]
        self._before = self._before or now
        parts = [
            f"{name} {loss:.3f}"
            + (f" ({loss - self._before[name]:+.3f})" if record["step"] else "")
            for name, loss in now.items()
        ]
        mean = f"mean training loss {fmean(self._recent):.3f}; " if self._recent else ""
        self._recent.clear()
        text = f"Step {record['step']:,} of {self._steps:,}: {mean}held-out loss "
        bleu = f"; BLEU {record['bleu']:.2f}" if "bleu" in record else ""
        self._progress.note(text + ", ".join(parts) + bleu)

    def warn(self, message: str) -> None:
        """Pass the warning on."""
        self._progress.warn(message)
