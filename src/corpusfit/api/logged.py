"""Progress and messages in Python: a logger's lines and Python's own warnings."""

from __future__ import annotations

import logging
import sys
import time
import warnings
from pathlib import Path

from corpusfit.core.engine.progress import Progress
from corpusfit.core.errors import CorpusfitWarning

LOG = logging.getLogger("corpusfit")
LOG.addHandler(logging.NullHandler())

_PACKAGE = str(Path(__file__).parents[1])


class Logged(Progress):
    """Stages and notes as records of the logger `corpusfit` at INFO; warnings by `warnings`.

    Python shows a warning once, with the caller's line. To see the records:
    `logging.basicConfig(level="INFO")`.
    """

    def __init__(self) -> None:
        self._stage, self._began = "", 0.0

    def begin(self, stage: str, total: float, unit: str = "units") -> None:
        """Log that a stage starts."""
        self._stage, self._began = stage, time.monotonic()
        LOG.info("%s.", stage)

    def end(self) -> None:
        """Log that the stage is over, with its seconds."""
        LOG.info("%s: done after %.1f s.", self._stage, time.monotonic() - self._began)

    def stop(self) -> None:
        """Log that an error ended the stage."""
        LOG.info("%s: stopped after %.1f s.", self._stage, time.monotonic() - self._began)

    def warn(self, message: str) -> None:
        """Warn, at the line that called the package."""
        frame, level = sys._getframe(1), 2
        while frame.f_back is not None and frame.f_code.co_filename.startswith(_PACKAGE):
            frame, level = frame.f_back, level + 1
        warnings.warn(message, CorpusfitWarning, stacklevel=level)

    def note(self, message: str) -> None:
        """Log a message."""
        LOG.info("%s", message)
