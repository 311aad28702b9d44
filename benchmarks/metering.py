"""What a command uses: processor seconds and bytes of this process and of workers, and messages."""

from __future__ import annotations

import contextlib
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from corpusfit.core.engine import Engine, Progress
from corpusfit.core.engine.contract import Wrapping, as_job

_IO = Path("/proc/self/io")


def used_so_far() -> Counter[str]:
    """Of this process: seconds of a core, and bytes read and written, to other processes too."""
    counts = dict(line.split(": ") for line in _IO.read_text().splitlines())
    read = int(counts["rchar"])
    written = int(counts["wchar"])
    return Counter({"cpu": time.process_time(), "read": read, "written": written})


@dataclass(frozen=True)
class Metered(Wrapping[Any, Any]):
    """A job that also returns what each piece used; the first bears the cost of opening."""

    def start(self) -> Callable[[Any], tuple[Any, Counter[str]]]:
        """Start the job."""
        before = used_so_far()
        work = self.job.start()
        opening = used_so_far() - before

        def run(piece: Any) -> tuple[Any, Counter[str]]:
            nonlocal opening
            before = used_so_far()
            result = work(piece)
            used = used_so_far() - before + opening + Counter(messages=1)
            opening = Counter()
            return result, used

        return run


class Meter(Progress):
    """Counts what commands use whose progress it is.

    Attributes:
        workers: what the workers used.
        stages: by stage, what this process and the workers used.
    """

    def __init__(self) -> None:
        self.workers: Counter[str] = Counter()
        self.stages: dict[str, tuple[Counter[str], Counter[str]]] = {}

    def begin(self, stage: str, total: float, unit: str = "units") -> None:
        """Note what was used before a stage."""
        self._begun = stage, used_so_far(), self.workers.copy()

    def end(self) -> None:
        """Note what the stage used."""
        stage, here, workers = self._begun
        self.stages[stage] = used_so_far() - here, self.workers - workers

    @contextlib.contextmanager
    def counting(self) -> Iterator[None]:
        """Have workers count, too."""
        plain = Engine.map

        def metered(engine: Engine, work: Any, pieces: Any, on_share: Any = None) -> Iterator[Any]:
            for result, used in plain(engine, Metered(as_job(work)), pieces, on_share):
                self.workers += used
                yield result

        Engine.map = metered  # type: ignore[method-assign]
        try:
            yield
        finally:
            Engine.map = plain  # type: ignore[method-assign]
