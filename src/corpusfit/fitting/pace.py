"""The speed of a training, known after its first steps."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from transformers import TrainerCallback

_FROM = 2
_UNTIL = 12
"""Steps between which it is measured: the first ones also prepare what the others reuse."""


class Pace(TrainerCallback):  # type: ignore[misc]
    """Tells the seconds of a step, once.

    Args:
        tell: is called with them, and may end the training by an exception.
    """

    def __init__(self, tell: Callable[[float], None]) -> None:
        self._tell = tell
        self._began: float | None = None

    def on_step_end(self, args: Any, state: Any, control: Any, **facts: Any) -> None:
        """See `transformers.TrainerCallback`."""
        if state.global_step == _FROM:
            self._began = time.perf_counter()
        elif state.global_step == _UNTIL and self._began is not None:
            self._tell((time.perf_counter() - self._began) / (_UNTIL - _FROM))
