"""One trial: a short adaptation on one selection, its loss by step, and its record."""

from __future__ import annotations

import dataclasses
import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from corpusfit.core.artifacts import write_bytes
from corpusfit.core.engine import Progress
from corpusfit.training.plan import TASK
from corpusfit.training.trainer import TrainerCallback
from corpusfit.tuning.grid import Setting
from corpusfit.tuning.schedule import Rung, is_behind


@dataclass(frozen=True)
class Trial:
    """The record of a trial.

    Attributes:
        setting: what was selected.
        rung: number of the rung, from 1.
        steps: steps planned.
        losses: (step, loss on held-out text of the target in nats per token), increasing.
        tokens: tokens trained on, padding included.
        seconds: seconds of selecting, tokenising and training.
        training: seconds of its training alone, with the measurements.
        stopped: whether it stopped early, behind as many trials as pass on.
        error: why it has no loss after training; empty if it has one.
    """

    setting: Setting
    rung: int
    steps: int
    losses: tuple[tuple[int, float], ...]
    tokens: int
    seconds: float
    training: float
    stopped: bool = False
    error: str = ""

    @property
    def loss(self) -> float:
        """The last loss; infinite if the trial failed."""
        return float("inf") if self.error or not self.losses else self.losses[-1][1]

    @property
    def done(self) -> int:
        """Steps trained."""
        return self.losses[-1][0] if self.losses else 0

    def at(self, step: int) -> float | None:
        """The loss after a step; None if it was not measured."""
        return dict(self.losses).get(step)

    def write(self, path: Path) -> None:
        """Write the record."""
        write_bytes(path, json.dumps(dataclasses.asdict(self), indent=1).encode())

    @classmethod
    def read(cls, path: Path) -> Trial:
        """The record that `write` wrote."""
        stored = json.loads(path.read_text("utf-8"))
        losses = tuple((int(step), float(loss)) for step, loss in stored["losses"])
        return cls(**{**stored, "setting": Setting(**stored["setting"]), "losses": losses})


def order(trials: Sequence[Trial]) -> list[Trial]:
    """The trials of a rung, lowest loss first; then those that stopped early, then failed ones.

    Ties keep their order.
    """
    return sorted(trials, key=lambda t: (bool(t.error), t.stopped, t.loss))


class EarlyStopError(Exception):
    """Ends a training that is behind."""


class TrialCallback(TrainerCallback):
    """Keeps a trial's losses, moves the bar of all trials, and stops a trial that is behind.

    Args:
        rung: the trial's rung.
        before: the rung's earlier trials.
        margin: difference that counts, in nats per token.
        progress: shows the steps of all trials.
        quiet: shows warnings.
    """

    def __init__(
        self,
        rung: Rung,
        before: Sequence[Trial],
        margin: float,
        progress: Progress,
        quiet: Progress,
    ) -> None:
        self._rung, self._before, self._margin = rung, before, margin
        self._progress, self._quiet = progress, quiet
        self.losses: list[tuple[int, float]] = []
        self._tokens, self._counted, self.moved, self._before_phase = 0, 0, 0, 0
        self._began = self._ended = time.perf_counter()

    @property
    def seconds(self) -> float:
        """Seconds from the first measurement to the last."""
        return self._ended - self._began

    @property
    def tokens(self) -> int:
        """Tokens of all steps, those of an earlier command by the mean of this one's."""
        return round(self._tokens * self.moved / max(1, self._counted))

    def step(self, steps: int, tokens: int) -> None:
        """Count a step."""
        self._tokens += tokens
        self._counted += steps
        self.moved += steps
        self._progress.advance(steps, tokens)

    def resume(self, step: int, history: Sequence[Mapping[str, Any]]) -> None:
        """Take over what was measured before."""
        for record in history:
            self._keep(record)
        self.moved += step
        self._progress.skip(step)

    def record(self, record: Mapping[str, Any]) -> None:
        """Keep a loss, and compare it."""
        if not self._keep(record):
            return
        step, loss = self.losses[-1]
        self._ended = time.perf_counter()
        if len(self.losses) == 1:
            self._began = self._ended
        if self._rung.steps <= 2 * step < 2 * self._rung.steps:
            others = [found for trial in self._before if (found := trial.at(step)) is not None]
            if is_behind(loss, others, self._rung.passed, self._margin):
                raise EarlyStopError

    def _keep(self, record: Mapping[str, Any]) -> bool:
        """Keep the loss of a record, by steps of both phases; whether it has a new one."""
        if "heldout" not in record:
            return False
        if record["step"] == 0 and self.losses:  # the second phase begins with the same loss
            self._before_phase = self.losses[-1][0]
            return False
        self.losses.append((self._before_phase + record["step"], record["heldout"][TASK]))
        return True

    def warn(self, message: str) -> None:
        """Pass a warning on."""
        self._quiet.warn(message)
