"""The speed of a training, known after its first steps."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from transformers import TrainerCallback

_FROM = 2
_UNTIL = 12
"""Steps between which it is measured: the first ones also prepare what the others reuse."""


class StepTimer(TrainerCallback):  # type: ignore[misc]
    """Measures the seconds of a step, once.

    Args:
        callback: is called with the seconds, and may end the training by an exception.
    """

    def __init__(self, callback: Callable[[float], None]) -> None:
        self._callback = callback
        self._began: float | None = None

    def on_step_end(self, args: Any, state: Any, control: Any, **facts: Any) -> None:
        """See `transformers.TrainerCallback`."""
        if state.global_step == _FROM:
            self._began = time.perf_counter()
        elif state.global_step == _UNTIL and self._began is not None:
            self._callback((time.perf_counter() - self._began) / (_UNTIL - _FROM))
