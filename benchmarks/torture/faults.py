"""Run a command on a machine with faults, then without, and compare with a whole run's files."""

from __future__ import annotations

import contextlib
import errno
import random
import shutil
import struct
import subprocess
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from commands import COMMANDS, digests
from ledger import Outcome
from running import LARGE, broken, disk, drawn, end, prepare, start

WORLDS = 3
"""Inputs that are drawn; each command's whole run on one of them is made once."""
FAULTS = 5
_AFRESH = 0.2
"""How likely a fault hits a command that begins, not one that resumes."""
_SMALL = "small disk"
_LETTERS = "corwsmdut"


@dataclass(frozen=True)
class Fault:
    """A kind of fault; the variables of `faults.c` say what the words mean.

    Attributes:
        kind: how calls fail.
        calls: letters of the calls that it may hit.
        errnos: errors, of which one is drawn.
        stays: whether every later call fails too; None draws it.
        limits: least and most of a limit, for the kinds that have one.
    """

    kind: str
    calls: str = ""
    errnos: tuple[int, ...] = (0,)
    stays: bool | None = None
    limits: tuple[float, float] | None = None


KINDS = {
    "disk full": Fault("error", "cwsmd", (errno.ENOSPC, errno.EDQUOT)),
    "write error": Fault("error", "ws", (errno.EIO,)),
    "read-only folder": Fault("error", "cmdu", (errno.EROFS, errno.EACCES), stays=True),
    "no more handles": Fault("error", "co", (errno.EMFILE, errno.ENFILE)),
    "few handles": Fault("handles", limits=(10, 70)),
    "read error": Fault("error", "r", (errno.EIO,)),
    "short reads and writes": Fault("short", "rw", stays=True),
    "clock": Fault("clock", "t", stays=True),
    "memory of a worker": Fault("memory", limits=(2e8, 4e9)),
    _SMALL: Fault("count"),
}
"""Kinds of faults, by what the user sees."""


def fault(seed: int, root: Path, only: str | None) -> Outcome:
    """A case: one command on one world, with `FAULTS` faults in turn, then without.

    Args:
        seed: draws command, world, workers and faults.
        root: folder with `base/model`, where whole runs are kept.
        only: name of the command or of a kind of fault, instead of a drawn one.
    """
    chance = random.Random(f"fault {seed}")
    kinds = [only] if only in KINDS else list(KINDS)
    name, world = drawn(seed, chance, root, None if only in KINDS else only, WORLDS)
    outcome = Outcome(Counter(), name)
    with disk(root / "faulted", LARGE) as mounted:
        if not mounted:
            kinds = [kind for kind in kinds if kind != _SMALL]
        case = _Case(name, world, root / "faulted", _library(root))
        whole_case = replace(case, here=root / "counted" / world.name / name)
        for _ in range(FAULTS):
            outcome.broken += _try(case, whole_case, chance, chance.choice(kinds), outcome.counts)
            if case.finished() or chance.random() < _AFRESH:
                case.clear()
        code, said, _ = case.run(2, {})
        outcome.counts["resumed"] += 1
        if code != 0:
            outcome.broken.append(f"it does not go on: code {code}, {said[-600:]}")
        elif case.found() != whole_case.whole():
            outcome.broken.append("its files are not those of a whole run")
    return outcome


@dataclass(frozen=True)
class _Case:
    """A command, its inputs, and a folder for its run, its cache and its temporary files."""

    name: str
    world: Path
    here: Path
    library: Path

    def run(self, workers: int, fault: dict[str, object]) -> tuple[int | None, str, int]:
        """Run the command with a fault, or with none; see `running.end`."""
        folders = {"CORPUSFIT_CACHE": self.here / "cache", "TMPDIR": self.here / "tmp"}
        (self.here / "tmp").mkdir(parents=True, exist_ok=True)
        used = {name: str(folder) for name, folder in folders.items()}
        if fault:
            tally = self.here / "tally"
            tally.write_bytes(bytes(8 * (2 + len(_LETTERS))))
            under = [*used.values(), str(self.here / "out"), str(self.world.resolve())]
            given = {"CALLS": "", "AT": 0, **fault, "UNDER": ":".join(under), "TALLY": tally}
            used["LD_PRELOAD"] = str(self.library)
            used |= {f"FAULT_{name}": str(value) for name, value in given.items()}
        return end(start(COMMANDS[self.name], self.world, self.here / "out", workers, used))

    def whole(self) -> dict[str, str]:
        """The files of a run without faults, made once, whose calls are counted."""
        if not (self.here / "done").exists():
            shutil.rmtree(self.here, ignore_errors=True)
            code, said, _ = self.run(2, {"KIND": "count"})
            if code != 0 or not self.found():
                raise RuntimeError(f"{self.name} fails on world {self.world.name}: {said}")
            (self.here / "done").touch()
        return self.found()

    def found(self) -> dict[str, str]:
        """The files that are kept."""
        return digests(self.here / "out", COMMANDS[self.name].kept)

    def tally(self) -> tuple[int, dict[str, int]]:
        """How many faults there were in the last run, and its calls by letter."""
        _, faults, *calls = struct.unpack(
            f"{2 + len(_LETTERS)}q", (self.here / "tally").read_bytes()
        )
        return faults, dict(zip(_LETTERS, calls, strict=True))

    def size(self) -> int:
        """Bytes of all files."""
        return sum(file.stat().st_size for file in self.here.rglob("*") if file.is_file())

    def finished(self) -> bool:
        """Whether a run survived."""
        return (self.here / "out/manifest.json").exists()

    def clear(self) -> None:
        """Remove what the runs wrote."""
        for folder in ("out", "cache", "tmp"):
            shutil.rmtree(self.here / folder, ignore_errors=True)


def _try(
    case: _Case, whole: _Case, chance: random.Random, kind: str, counts: Counter[str]
) -> Iterator[str]:
    """Run the command with one fault; yields each promise that does not hold."""
    kept, (_, calls), used = whole.whole(), whole.tally(), KINDS[kind]
    place = chance.random()
    room = int(whole.size() * chance.random())
    where = 1 + int(sum(calls[letter] for letter in used.calls) * place)
    if used.limits:
        least, most = used.limits
        where = int(least * (most / least) ** place)
    fault = {
        "KIND": used.kind, "CALLS": used.calls, "AT": where,
        "ERRNO": chance.choice(used.errnos),
        "STAYS": int(chance.random() < 0.5 if used.stays is None else used.stays),
        "SECONDS": chance.choice((-86_400, 86_400)),
    }  # fmt: skip
    workers = chance.choice((1, 2))
    prepare(COMMANDS[case.name], case.world, case.here / "out")
    with _left(case.here, room) if kind == _SMALL else contextlib.nullcontext():
        code, said, left = case.run(workers, fault)
    hit = case.tally()[0] or (kind == _SMALL and code != 0)
    counts[f"fault: {kind}" if hit else "not reached"] += 1
    about = f"{kind}, " + (
        f"{room} bytes" if kind == _SMALL else " ".join(map(str, fault.values()))
    )
    for words in broken(code, said, left):
        yield f"{about}, {workers} workers: {words}"
    if code == 0 and case.found() != kept:
        yield f"{about}, {workers} workers: survived with other files"


def _library(root: Path) -> Path:
    """The library of `faults.c`, compiled once."""
    library = root / "faults.so"
    if not library.exists():
        source = Path(__file__).with_name("faults.c")
        words = ["gcc", "-shared", "-fPIC", "-O1", "-o", str(library), str(source), "-ldl"]
        subprocess.run(words, check=True)
    return library


@contextlib.contextmanager
def _left(disk: Path, size: int) -> Iterator[None]:
    """Let a disk have only some bytes left."""
    used = shutil.disk_usage(disk).used
    subprocess.run(["mount", "-o", f"remount,size={used + size}", disk], check=True)
    try:
        yield
    finally:
        subprocess.run(["mount", "-o", f"remount,{LARGE}", disk], check=True)
