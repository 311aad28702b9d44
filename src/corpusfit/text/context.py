"""Where a command runs: the machine, and a running command on it."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import gc
import json
import math
import os
import sys
import tempfile
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from corpusfit import text as corpus
from corpusfit.core.artifacts import (
    folder_path,
    is_local,
    no_collection,
    remove,
    require_plain,
    user_cache,
    user_path,
    write_bytes,
)
from corpusfit.core.credentials import public_text
from corpusfit.core.engine import (
    Engine,
    InlineEngine,
    LocalEngine,
    Meter,
    Progress,
    RayEngine,
    Work,
)
from corpusfit.core.engine.contract import Job, Wrapping, as_job
from corpusfit.core.engine.logged import new_progress
from corpusfit.core.engine.worker import on_compile, run_each
from corpusfit.core.errors import (
    ChangedInputError,
    bad_setting,
)
from corpusfit.core.hub import downloaded, pinned
from corpusfit.core.keywords import MACHINE
from corpusfit.core.plan import EmbedPlan, ReadPlan
from corpusfit.core.types import Nth, Shard, Source
from corpusfit.text.input import Input
from corpusfit.text.surveyed import Kept

ENGINES: dict[str, type[Engine]] = {
    "local": LocalEngine,
    "inline": InlineEngine,
    "ray": RayEngine,
}
CutSources = Callable[[Sequence[Source], ReadPlan], Iterator[Shard]]
COMPILED = "compiled"
"""Folder of the cache for the code that torch compiles."""
_COMPILING = "Compiling kernels, once for each command on this machine; this takes a while."
# A source that is read from its beginning is divided into so many stretches per worker, each of at
# most so many shards, as results of a stretch are sent together. Whoever reads a stretch passes
# through those before it, but through each of them once.
_AHEAD = 2
_LONGEST = 256
_SOME_WORKERS = 8
# A message to a worker costs the driver time (benchmarks/scale.md). It has at most so many pieces,
# and each worker gets at least so many messages of one size, so that all end at about one time.
_MOST_PIECES = 256
_MESSAGES = 64
_MANY_SOURCES = 10_000
P = TypeVar("P")
R = TypeVar("R")


def default_cache() -> Path:
    """Folder for embeddings and token ids: $CORPUSFIT_CACHE, or the user's cache."""
    folder = os.environ.get("CORPUSFIT_CACHE")
    if folder:
        return require_plain(folder_path(folder, "CORPUSFIT_CACHE"), "CORPUSFIT_CACHE")
    return user_cache()


def local_cache(cache: Path) -> Path:
    """The cache folder for what needs a local file; the user's cache if that one is in a store."""
    return cache if is_local(cache) else user_cache()


@dataclass(frozen=True)
class Machine:
    """Where a command runs and how it shows progress; none of it changes a result.

    Attributes:
        engine: `local`, `inline` (this process, for small inputs) or `ray`.
        workers: number of worker processes; None for one per core, or per CPU of a Ray cluster.
        cache: folder or URL for embeddings and token ids; None for the user's cache.
        progress: shows progress and warnings.
        verify: read input files again, whatever the cache knows of them.
    """

    engine: str = "local"
    workers: int | None = None
    cache: Path | str | None = None
    progress: Progress = field(default_factory=Progress)
    verify: bool = False

    def start(self) -> Engine:
        """The engine, not yet started."""
        if self.engine not in ENGINES:
            raise bad_setting("`engine`", f"one of {', '.join(ENGINES)}", self.engine)
        return ENGINES[self.engine](self.workers)

    def for_training(self, device: str) -> Machine:
        """The machine for several training runs: on a local GPU, one at a time."""
        one_at_a_time = self.engine == "local" and device != "cpu"
        return dataclasses.replace(self, workers=1) if one_at_a_time else self

    def cache_folder(self) -> Path:
        """The cache folder."""
        if not self.cache:
            return default_cache()
        return require_plain(folder_path(self.cache, "`cache`"), "`cache`")

    @contextlib.contextmanager
    def running(self, work: Path | None = None) -> Iterator[Run]:
        """A command on this machine, with its engine started."""
        if self.cache and Path(self.cache).is_file():
            raise bad_setting("`cache`", "a folder or a URL", str(self.cache))
        downloaded.clear()  # each command asks the hub again
        note_once = functools.cache(lambda: self.progress.note(_COMPILING))
        with self.start() as engine, contextlib.ExitStack() as stack:
            stack.callback(on_compile(note_once))
            engine.on_compile = note_once
            engine.on_wait = self.progress.warn
            if work is None:
                work = stack.enter_context(self.scratch())
                engine.require_shared(work, "`cache`")
            try:
                yield Run(self, engine, work)
            finally:
                gc.unfreeze()

    @contextlib.contextmanager
    def scratch(self) -> Iterator[Path]:
        """A temporary folder that every worker can read, removed after the command."""
        if self.engine != "ray":
            # Windows removes no file that a worker has open
            with tempfile.TemporaryDirectory(
                prefix="corpusfit-", ignore_cleanup_errors=True
            ) as folder:
                yield Path(folder)
            return
        shared = self.cache_folder() / f"scratch-{uuid.uuid4().hex}"
        try:
            yield shared
        finally:
            remove(shared)


def machine_of(machine: Machine | None, options: Any, **defaults: Any) -> Machine:
    """The machine of an API call: its `machine`, or one with the keywords of `MACHINE`.

    The default progress, which shows nothing, is replaced by logging, or bars in a notebook.
    """
    explicit = {name: options[name] for name in MACHINE if options.get(name) is not None}
    if machine is not None and explicit:
        name, value = next(iter(explicit.items()))
        cure = f"Set it on the machine: corpusfit.Machine({name}={value!r})."
        raise bad_setting(f"`{name}`", "left out with `machine`", value, cure)
    machine = machine or Machine(**{**defaults, **explicit})
    _keep_compiled(local_cache(machine.cache_folder()) / COMPILED)
    if type(machine.progress) is not Progress:
        return machine
    return dataclasses.replace(machine, progress=new_progress())


def _keep_compiled(folder: Path) -> None:
    """Let torch keep compiled code in a folder of the cache, in this process and its workers."""
    # With a model, torch makes a folder for compiled code, if nothing is compiled too: in the
    # temporary folder, where nothing removes it; and it sets this variable itself.
    existing = next(p for p in folder.absolute().parents if os.access(p, os.F_OK))
    if os.access(existing, os.W_OK):
        os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", str(folder.absolute()))


HERE: Machine = Machine()
"""This machine, with default settings."""


@dataclass(frozen=True)
class _Each(Wrapping[list[P], list[R]]):
    """A job on each of several pieces."""

    job: Job[P, R]

    def start(self) -> Callable[[list[P]], list[R]]:
        """Start the job."""
        return partial(run_each, self.job.start())


def _shard_of(piece: Any) -> Shard | None:
    """The shard that a piece is, or has."""
    parts = piece if isinstance(piece, tuple) else (piece,)
    return next((part for part in parts if isinstance(part, Shard)), None)


@dataclass
class Run:
    """A running command, with its started engine; steps return their results."""

    machine: Machine
    engine: Engine
    work: Path  # a folder that every worker can read
    # shown and stored, and notes on input files that are skipped
    warnings: list[str] = field(default_factory=list)
    # keeps the warnings for the command that resumes this one and skips what it has done
    warnings_file: Path | None = None
    seconds: dict[str, float] = field(default_factory=dict)  # by stage
    shard_count: int = 0  # of the input that `shards` cut last
    # documents and segments of each shard, once they are counted
    counted: dict[int, tuple[int, int]] = field(default_factory=dict)
    _weights: list[float] = field(default_factory=list, init=False, repr=False, compare=False)
    # shards of a source that are read one after the other, by its path
    _stretch: dict[str, int] = field(default_factory=dict, init=False, repr=False, compare=False)

    @property
    def progress(self) -> Progress:
        """Shows progress and warnings."""
        return self.machine.progress

    @property
    def cache(self) -> Path:
        """The cache folder."""
        return self.machine.cache_folder()

    def at(self, work: Path) -> Run:
        """The same command in another work folder."""
        return dataclasses.replace(self, work=work)

    def warn(self, message: str) -> None:
        """Show a warning once, and store it for the manifest."""
        message = public_text(message)
        if message not in self.warnings:
            self.warnings.append(message)
            self.machine.progress.warn(message)
            kept = self._kept_warnings()
            if self.warnings_file is not None and message not in kept:
                write_bytes(self.warnings_file, json.dumps([*kept, message]).encode())

    def all_warnings(self) -> list[str]:
        """The warnings so far, and those of the steps that an interrupted command has done."""
        kept = self._kept_warnings()
        return [*(message for message in self.warnings if message not in kept), *kept]

    def _kept_warnings(self) -> list[str]:
        if self.warnings_file is None or not self.warnings_file.exists():
            return []
        kept: list[str] = json.loads(self.warnings_file.read_bytes())
        return kept

    @contextlib.contextmanager
    def stage(self, name: str, total: float = 0) -> Iterator[None]:
        """Note a stage's time, and show its progress."""
        with self.progress.showing(name, total), noting(name, self.seconds):
            yield

    def find(self, inputs: Sequence[str], read: ReadPlan, role: str) -> list[Source]:
        """Find and fingerprint inputs."""
        with no_collection():
            sources = corpus.find(
                inputs,
                read,
                role=role,
                engine=self.engine,
                note=self._note,
                kept=self.surveys,
            )
            if len(sources) > _MANY_SOURCES:
                gc.freeze()  # the garbage collector would look at each of them again and again
        return sources

    @property
    def surveys(self) -> Kept:
        """What is known of input files."""
        return Kept(self.cache / "surveys", self.machine.verify)

    def _note(self, message: str) -> None:
        if message not in self.warnings:
            self.warnings.append(message)
        self.progress.note(message)

    def shards_of(
        self, sources: Sequence[Source], read: ReadPlan, cut: CutSources = corpus.shards
    ) -> Iterator[Shard]:
        """Cut sources into shards; `map` weights its progress by the stored bytes of each."""
        positions: Counter[int] = Counter()
        total = sum(source.size for source in sources)
        workers = self.engine.workers
        if isinstance(self.engine, RayEngine):  # a cluster grows
            workers = max(workers, _SOME_WORKERS)
        for source in sources:
            # a single worker gets them in order anyway
            if source.blocks and workers > 1:
                # as many stretches as keep all workers busy; each reads the source up to its end
                wanted = math.ceil(_AHEAD * workers * source.size / total)
                stretch = math.ceil(len(source.blocks.rows) / wanted)
                self._stretch[source.url] = min(stretch, _LONGEST)
        for shard in cut(sources, read):
            if shard.position < positions[shard.source]:  # in the next file of a run
                del positions[shard.source]
            self._weights.append(shard.position - positions[shard.source])
            positions[shard.source] = shard.position
            yield shard

    def _stretch_of(self, shard: Shard | None) -> tuple[str, int] | None:
        """Equal for shards that one worker reads one after the other; None for any other."""
        if shard is None or not isinstance(shard.span, Nth):
            return None
        url = shard.span.source.url
        return url, shard.span.number // self._stretch.get(url, 1)

    def map(self, work: Work[P, R], pieces: Iterable[P]) -> Iterator[R]:
        """Run a job on every piece, and advance the progress of the stage.

        A piece made from a shard of `shards_of` counts by the shard's stored bytes, any other as 1.
        Shards without a piece count as skipped. Shards that have to be read one after the other,
        as those of an archive, go to one worker together, and so do pieces of which there are many.
        """
        meter = Meter(self.progress, self._weights)
        before = [0]  # pieces before each batch

        def batches() -> Iterator[list[P]]:
            batch: list[P] = []
            stretch = None
            full = False
            for piece in meter.weighed(pieces):
                shard = _shard_of(piece)
                here = self._stretch_of(shard)
                if batch and (here != stretch or (here is None and full)):
                    before.append(before[-1] + len(batch))
                    yield batch
                    batch = []
                batch.append(piece)
                stretch = here
                # messages grow with the number of pieces, each with a small part of all
                most = min(_MOST_PIECES, before[-1] // (_MESSAGES * self.engine.workers))
                full = len(batch) >= most or bool(shard and shard.data)
            if batch:
                before.append(before[-1] + len(batch))
                yield batch

        def on_share(number: int, share: float) -> None:
            first = before[number]
            end = before[number + 1]
            done = share * (end - first)
            for i in range(first, min(end, first + int(done) + 1)):
                meter(i, min(1.0, done - (i - first)))

        for results in self.engine.map(_Each(as_job(work)), batches(), on_share):
            yield from results

    def track(self, pieces: Iterable[P]) -> Iterator[P]:
        """Yield pieces for work in this process, with progress as in `map`."""
        # the caller has finished a piece when it requests the next one
        meter = Meter(self.progress, self._weights)
        for number, piece in enumerate(meter.weighed(pieces)):
            meter(number, 0.0)
            yield piece
            meter(number, 1.0)

    def find_again(self, sources: Sequence[Source], read: ReadPlan, out: Path) -> list[Source]:
        """Find the sources of an earlier run again; raises `ChangedInputError` if they changed."""
        current, changed = corpus.current_sources(sources, read, self.engine, self.surveys)
        if changed:
            raise ChangedInputError(
                f"{', '.join(changed[:3])} changed since {out} was scored. Restore the files, or "
                "score again with `corpusfit select` and another `out`."
            )
        return current

    def over_shards(
        self,
        name: str,
        texts: Input,
        work: Work[Shard, R],
        done: Callable[[int], bool] = lambda _: False,
    ) -> Iterator[R]:
        """Run a job on every unfinished shard, with progress by bytes; sets `shard_count`."""
        with self.stage(name, texts.size):
            yield from self.map(work, (s for s in self.shards(texts) if not done(s.index)))

    def over(self, name: str, work: Work[P, R], pieces: list[P]) -> Iterator[R]:
        """Run a job on a list of pieces, with progress by pieces."""
        with self.stage(name, len(pieces)):
            yield from self.map(work, pieces)

    def one(self, work: Work[P, R], piece: P) -> R:
        """Run a job once, in a worker."""
        (result,) = self.engine.map(work, [piece])
        return result

    def shards(self, texts: Input) -> Iterator[Shard]:
        """An input's shards, with small sources packed together; progress as in `shards_of`."""
        for shard in self.shards_of(texts.sources, texts.read, corpus.packed):
            self.shard_count = shard.index + 1
            yield shard


def at_commit(embed: EmbedPlan, commits: Mapping[str, str]) -> EmbedPlan:
    """The plan with its encoder at the commit of its name, if there is one."""
    commit = commits.get(embed.embedder, "")
    return dataclasses.replace(embed, embedder=pinned(embed.embedder, commit))


@contextlib.contextmanager
def noting(stage: str, seconds: dict[str, float]) -> Iterator[None]:
    """Add the time of a stage to that of earlier ones of its name."""
    started = time.perf_counter()
    yield
    seconds[stage] = round(seconds.get(stage, 0.0) + time.perf_counter() - started, 3)


def peak() -> float:
    """Peak resident memory of this process in MB; 0 on Windows, which does not report it."""
    try:
        import resource
    except ImportError:
        return 0.0
    size = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    # macOS states bytes, Linux KiB
    return size / (1e6 if sys.platform == "darwin" else 976.6)


def command_words(
    command: str,
    inputs: Mapping[str, Sequence[str]],
    options: Mapping[str, str | int],
    overrides: Sequence[str],
) -> list[str]:
    """The command line that repeats a run, without `--out`."""
    arguments = ["corpusfit", command]
    for option, paths in inputs.items():
        for path in paths:
            arguments += [f"--{option}", path]
    for option, value in options.items():
        if value != "":
            arguments += [f"--{option}", str(value)]
    for setting in overrides:
        arguments += ["--set", setting]
    return arguments


def absolute(inputs: Sequence[str]) -> list[str]:
    """Make paths absolute, so that they are valid in any working folder."""
    cwd = Path.cwd()
    return [name if name == "" else corpus.located(name, cwd) for name in inputs]


def named_model(name: str) -> str:
    """Make a model folder (or pattern) absolute; a hub id is unchanged."""
    path = user_path(name)
    is_path = "{seed}" in name or path.exists()  # a pattern stands for folders
    return str(path.absolute()) if name and is_path else name
