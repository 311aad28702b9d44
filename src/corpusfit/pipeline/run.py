"""What the steps of one command share.

What: the plan, the sources, the workers, the work folder and what is said along the way.
Why: every step needs most of it; handing each over singly would hide what a step really does.
Trade-off: a small mutable object in an otherwise frozen world, living for one command.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import tempfile
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TypeVar

from corpusfit import corpus
from corpusfit.artifacts import place, remove
from corpusfit.engine import Engine, Job, LocalEngine, Progress, RayEngine
from corpusfit.errors import ChangedInputError, EmptyInputError, bad_setting
from corpusfit.jobs.reading import Reasons
from corpusfit.jobs.survey import look_with
from corpusfit.pipeline.budget import Decision
from corpusfit.plan import Plan, ReadPlan
from corpusfit.types import Shard, Source

ENGINES: dict[str, type[Engine]] = {"local": LocalEngine, "ray": RayEngine}
P = TypeVar("P")
R = TypeVar("R")


def default_cache() -> Path:
    """Where embeddings and distilled models are kept: $CORPUSFIT_CACHE, or the user's cache."""
    given = os.environ.get("CORPUSFIT_CACHE")
    if given:
        return place(given, "CORPUSFIT_CACHE")
    return Path(os.environ.get("XDG_CACHE_HOME", "~/.cache")).expanduser() / "corpusfit"


@dataclass(frozen=True)
class Machine:
    """Where a command runs and what it says; nothing here can change a result.

    Attributes:
        engine: `local`, or `ray`.
        workers: worker processes; None for one a core, or one for each CPU of a Ray cluster.
        cache: folder or URL for embeddings and distilled models; None for the user's cache.
        progress: told what is going on.
    """

    engine: str = "local"
    workers: int | None = None
    cache: Path | str | None = None
    progress: Progress = field(default_factory=Progress)

    def start(self) -> Engine:
        """The engine, not yet started.

        Raises:
            UsageError: no such engine.
        """
        if self.engine not in ENGINES:
            raise bad_setting("--engine", " or ".join(ENGINES), self.engine)
        return ENGINES[self.engine](self.workers)

    def for_training(self, device: str) -> Machine:
        """The machine for several trainings: on its GPU they come one at a time."""
        alone = self.engine == "local" and device == "cuda"
        return dataclasses.replace(self, workers=1) if alone else self

    def cache_folder(self) -> Path:
        """The cache.

        Raises:
            UsageError: it is a URL that cannot be written to.
        """
        return place(self.cache, "--cache") if self.cache else default_cache()

    @contextlib.contextmanager
    def scratch(self) -> Iterator[Path]:
        """A folder that lasts as long as the command, where every worker sees it."""
        if self.engine == "local":
            with tempfile.TemporaryDirectory(prefix="corpusfit-") as folder:
                yield Path(folder)
            return
        shared = self.cache_folder() / f"scratch-{uuid.uuid4().hex}"
        try:
            yield shared
        finally:
            remove(shared)


@dataclass
class Run:
    """One command under way.

    Attributes:
        plan: what is done: with a budget, the plan after its decision.
        asked: what was asked for: the plan that the command began with.
        clusters: the fingerprint of the clusters that the selection is balanced by.
        role: what the sources were given as.
    """

    plan: Plan
    machine: Machine
    engine: Engine
    work: Path
    target: list[Source]
    sources: list[Source]
    warnings: list[str] = field(default_factory=list)
    seconds: dict[str, float] = field(default_factory=dict)
    shard_count: int = 0
    encoder: str | None = None
    encoders: dict[str, str] = field(default_factory=dict)
    remark: str = ""
    files: dict[str, str] = field(default_factory=dict)
    clusters: str = ""
    decision: Decision | None = None
    role: str = "corpus"
    asked: Plan = field(init=False)

    @property
    def cache(self) -> Path:
        """The cache folder."""
        return self.machine.cache_folder()

    @property
    def names(self) -> tuple[str, ...]:
        """The corpus's source names, by number."""
        return tuple(s.name for s in self.sources)

    @property
    def size(self) -> int:
        """The corpus's stored bytes."""
        return sum(s.size for s in self.sources)

    def __post_init__(self) -> None:
        """Note the plan, and when the inputs were last written."""
        self.asked = self.plan
        self._written = {s.url: _written(s) for s in (*self.target, *self.sources)}

    def require_unchanged(self) -> None:
        """Make sure that nobody wrote to an input since the command began.

        Raises:
            ChangedInputError: names the first whose content is another.
        """
        for source in (*self.target, *self.sources):
            touched = _written(source) != self._written[source.url]
            if touched and corpus.content(source) != source.fingerprint:
                raise ChangedInputError(
                    f"{source.name} changed while it was read. Run again with --overwrite when "
                    "nobody writes to it."
                )

    def warn(self, message: str) -> None:
        """Tell the user, and keep it for the manifest."""
        if message not in self.warnings:
            self.warnings.append(message)
            self.machine.progress.warn(message)

    @contextlib.contextmanager
    def stage(self, name: str, total: float = 0) -> Iterator[None]:
        """Time a stage and show its progress."""
        started = time.perf_counter()
        self.machine.progress.begin(name, total)
        try:
            yield
        finally:
            self.machine.progress.end()
            took = time.perf_counter() - started
            self.seconds[name] = round(self.seconds.get(name, 0.0) + took, 3)

    def over_shards(
        self, name: str, job: Job[Shard, R], done: Callable[[int], bool] = lambda _: False
    ) -> Iterator[R]:
        """Read the corpus and do a job on every shard that is not done, with progress by bytes.

        Afterwards `shard_count` is known.
        """
        with self.stage(name, self.size):
            yield from self.engine.map(job, (s for s in self.shards() if not done(s.index)))

    def over(self, name: str, job: Job[P, R], pieces: list[P]) -> Iterator[R]:
        """Do a job on listed pieces, with progress by pieces."""
        with self.stage(name, len(pieces)):
            for result in self.engine.map(job, pieces):
                self.machine.progress.advance(1)
                yield result

    def one(self, job: Job[P, R], piece: P) -> R:
        """Do a job once, in a worker."""
        return next(iter(list(self.engine.map(job, [piece]))))

    def shards(self) -> Iterator[Shard]:
        """The corpus's shards; progress moves as stored bytes are read."""
        for shard in moving(self.sources, self.plan.read, self.machine):
            self.shard_count = shard.index + 1
            yield shard

    def nothing_read(self, rejected: Reasons) -> EmptyInputError:
        """The error for a corpus without one usable row."""
        return EmptyInputError(
            f"--{self.role} has no usable row ({rejected}). Name the field with the text "
            f"with --text-field, or point --{self.role} at other files."
        )


def moving(sources: Sequence[Source], read: ReadPlan, machine: Machine) -> Iterator[Shard]:
    """The shards of some sources; progress moves as stored bytes are read."""
    before: Counter[int] = Counter()
    for shard in corpus.shards(sources, read):
        machine.progress.advance(shard.position - before[shard.source])
        before[shard.source] = shard.position
        yield shard


def find_again(
    sources: Sequence[Source], read: ReadPlan, engine: Engine, out: Path
) -> list[Source]:
    """The sources of an earlier run in `out`, found again.

    Raises:
        ChangedInputError: one is no longer what was scored.
        InputError: one is gone.
    """
    now, changed = corpus.found_again(sources, read, partial(look_with, engine))
    if changed:
        raise ChangedInputError(
            f"{', '.join(changed[:3])} changed since {out} was scored. Put the files back, or "
            "score again with `corpusfit select` and another --out."
        )
    return now


def _written(source: Source) -> list[tuple[int, int]] | None:
    """Sizes and times of the last writing of local files; None where that cannot be told."""
    try:
        stats = [Path(file).stat() for file in corpus.files_of(source)]
    except OSError:
        return None
    return [(stat.st_size, stat.st_mtime_ns) for stat in stats]
