"""What corpusfit finds on this machine: libraries, devices, cache."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, metadata, version
from importlib.util import find_spec
from itertools import count
from pathlib import Path

import orjson
from packaging.requirements import Requirement

from corpusfit.core.manifest import versions
from corpusfit.core.plan import EmbedPlan, Plan
from corpusfit.embed.hardware import devices, may_have_cuda, memory, resolve
from corpusfit.selection.commands import select
from corpusfit.text.cache_entries import cache_entries
from corpusfit.text.context import Machine

_TARGET, _CORPUS, _SHORT = 100, 300, 300
"""Texts of the selection that compiles kernels, and their length."""


@dataclass(frozen=True)
class Extra:
    """An extra of corpusfit, and its libraries."""

    name: str  # what pip calls it, in brackets after corpusfit
    installed: dict[str, str]  # versions of its libraries, by name
    # libraries that are not installed, or too old or new, as pip writes them
    missing: tuple[str, ...]

    @property
    def cure(self) -> str:
        """The command that installs what is missing; empty if nothing is."""
        return f"pip install 'corpusfit[{self.name}]'" if self.missing else ""


@dataclass(frozen=True)
class Health:
    """What corpusfit finds on this machine.

    Attributes:
        versions: of Python, the machine's architecture and the libraries that change results.
        extras: the extras, installed and missing.
        device: `cpu`, or the names of the GPUs, as far as torch knows them.
        precision: what networks encode in here: `bf16`, `fp16` or `fp32`; empty without torch.
        cores: number of processor cores that this process may use.
        memory: bytes of memory of the machine, or of the container; None if unknown.
        cache: the cache folder.
        cache_size: bytes in it.
        compiled: seconds that compiling the kernels took; None without `warm`.
    """

    versions: dict[str, str]
    extras: tuple[Extra, ...]
    device: str
    precision: str
    cores: int
    memory: int | None
    cache: str
    cache_size: int
    compiled: float | None


def doctor(machine: Machine, *, warm: bool = False) -> Health:
    """Look at this machine, without writing anything but what `warm` keeps."""
    device, precision = _device()
    cache = machine.cache_folder()
    compiled = None
    if warm:
        began = time.perf_counter()
        compile_kernels(machine)
        compiled = time.perf_counter() - began
    return Health(
        versions(),
        tuple(_extras()),
        device,
        precision,
        machine.start().workers,
        memory("cpu"),
        str(cache),
        sum(entry.size for entry in cache_entries(machine)),
        compiled,
    )


def compile_kernels(machine: Machine) -> None:
    """Compile what `select` calls, by a selection on small text; numba keeps the result on disk."""
    with tempfile.TemporaryDirectory(prefix="corpusfit-") as folder:
        texts = _texts(_SHORT)
        paths = [Path(folder, name) for name in ("target.jsonl", "corpus.jsonl")]
        for path, n in zip(paths, (_TARGET, _CORPUS), strict=True):
            rows = (orjson.dumps({"text": next(texts)}) for _ in range(n))
            path.write_bytes(b"\n".join(rows) + b"\n")
        target, corpus = ([str(path)] for path in paths)
        with machine.progress.showing("compile", 0):
            quiet = Machine(machine.engine, machine.workers, machine.cache)
            select(Plan(), target, corpus, Path(folder, "out"), machine=quiet)


def _texts(characters: int) -> Iterator[str]:
    """Texts that every Python has: its language reference in equal parts; without end."""
    from pydoc_data.topics import topics

    whole = "\n".join(topics[name] for name in sorted(topics))
    for start in count(0, characters):
        begin = start % (len(whole) - characters)
        yield whole[begin : begin + characters]


def _extras() -> Iterator[Extra]:
    """The extras by the package's metadata, each with the extras that it includes."""
    try:
        package = metadata("corpusfit")
    except PackageNotFoundError:
        return
    every = list(map(Requirement, package.get_all("Requires-Dist") or ()))

    def needed(extra: str) -> Iterator[Requirement]:
        for r in every:
            if r.marker and r.marker.evaluate({"extra": extra}) > r.marker.evaluate({"extra": ""}):
                if r.name == "corpusfit":
                    yield from (inner for included in r.extras for inner in needed(included))
                else:
                    yield r

    for name in package.get_all("Provides-Extra") or ():
        state = {r: _installed(r.name) for r in needed(name)}
        fits = {r for r, v in state.items() if v and r.specifier.contains(v, prereleases=True)}
        yield Extra(
            name,
            {r.name: v for r, v in state.items() if r in fits},
            tuple(f"{r.name}{r.specifier}" for r in state if r not in fits),
        )


def _installed(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return ""


def _device() -> tuple[str, str]:
    """The device of networks and their precision."""
    if find_spec("torch") is None:
        gpu = ", and perhaps a GPU, which needs torch" if may_have_cuda() else ""
        return f"cpu{gpu}", ""
    import torch

    hardware = resolve(EmbedPlan())
    if hardware.device == "cpu":
        # `auto` trains on these, but does not encode on them
        others = [name for name in devices() if name in ("mps", "xpu")]
        return " and ".join(["cpu", *others]), hardware.precision
    names = [torch.cuda.get_device_properties(i) for i in range(torch.cuda.device_count())]
    return ", ".join(f"{p.name} ({p.total_memory / 1e9:.0f} GB)" for p in names), hardware.precision
