"""Run two commands at once on one folder or cache, also of two versions, or clean the cache."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from commands import COMMANDS, digests
from ledger import Outcome
from running import broken, drawn, end, start, whole

WORLDS = 3
"""Inputs that are drawn; each command's whole run on one of them is made once."""
KINDS = ("one folder", "one cache", "cleared cache", "removed cache", "two versions")
_OTHER = "9.9.9"
_OLD = 5 * 3600.0  # seconds since the last use of a cache that is cleared


def two(seed: int, root: Path, only: str | None) -> Outcome:
    """A case: two commands at once, or one and its cache's end; then the first one again.

    On one folder the second is told of the first, or finds it finished; on one cache both write
    the files of a whole run. Another version may refuse a folder in a sentence.

    Args:
        seed: draws commands, world, workers and instants.
        root: folder with `base/model`, where whole runs are kept.
        only: name of the command or of a kind, instead of a drawn one.
    """
    chance = random.Random(f"two {seed}")
    kind = only if only in KINDS else KINDS[seed % len(KINDS)]
    name, world = drawn(seed // len(KINDS), chance, root, None if only in KINDS else only, WORLDS)
    here, outcome = root / "two", Outcome(Counter({kind: 1, "resumed": 1}), name)
    shutil.rmtree(here, ignore_errors=True)
    run = _Run(world, here / "cache")
    if kind == "one folder":
        outcome.broken += _one_folder(run, name, here / name, chance)
    elif kind == "one cache":
        outcome.broken += _one_cache(run, name, here, chance)
    elif kind == "two versions":
        other = _Run(world, here / "cache", _other_version(root))
        outcome.broken += _two_versions(run, other, name, here, chance)
    else:
        outcome.broken += _cleaned(run, name, here, chance, clear=kind == "cleared cache")
    code, said, _ = end(run.start(name, here / name, 2))
    refused = kind == "two versions" and _OTHER in said
    if code != 0 and not refused:
        outcome.broken.append(f"it does not go on: code {code}, {said[-600:]}")
    elif not run.right(name, here / name) and not refused:
        outcome.broken.append("its files are not those of a whole run")
    return outcome


class _Run:
    """Runs of commands on one world with one cache."""

    def __init__(self, world: Path, cache: Path, packages: Path | None = None) -> None:
        path = [str(packages or ""), os.environ.get("PYTHONPATH", "")]
        self._world = world
        self._used = {"CORPUSFIT_CACHE": str(cache), "PYTHONPATH": ":".join(filter(None, path))}

    def start(self, name: str, out: Path, workers: int) -> subprocess.Popen[str]:
        return start(COMMANDS[name], self._world, out, workers, self._used)

    def clear(self) -> None:
        words = [sys.executable, "-m", "corpusfit", "cache", "clear"]
        subprocess.run(words, env={**os.environ, **self._used}, capture_output=True, check=True)

    def whole(self, name: str) -> tuple[dict[str, str], float]:
        return whole(self._world, name)

    def right(self, name: str, out: Path) -> bool:
        """Whether a finished run has the files of a whole one."""
        return digests(out, COMMANDS[name].kept) == self.whole(name)[0]


def _one_folder(run: _Run, name: str, out: Path, chance: random.Random) -> Iterator[str]:
    _, seconds = run.whole(name)
    first = run.start(name, out, chance.choice((1, 2)))
    time.sleep(seconds * chance.random())
    second = run.start(name, out, chance.choice((1, 2)))
    ends = [end(first), end(second)]
    for code, said, left in ends:
        yield from broken(code, said, left)
        if code != 0 and "under way" not in said:
            yield f"code {code}, {said[-300:]}"
    if all(code != 0 for code, *_ in ends):
        yield "neither ends well"
    elif not run.right(name, out):
        yield "their files are not those of a whole run"


def _one_cache(run: _Run, name: str, here: Path, chance: random.Random) -> Iterator[str]:
    other = chance.choice([other for other in sorted(COMMANDS) if other != name])
    run.whole(name), run.whole(other)
    pairs = {each: run.start(each, here / each, 1) for each in (name, other)}
    for each, process in pairs.items():
        code, said, left = end(process)
        yield from broken(code, said, left)
        if code != 0 or not run.right(each, here / each):
            yield f"{each} beside {other}: code {code}, {said[-600:]}"


def _cleaned(
    run: _Run, name: str, here: Path, chance: random.Random, *, clear: bool
) -> Iterator[str]:
    """A run whose cache, warm and long unused, is cleared or removed at some instant."""
    _, seconds = run.whole(name)
    end(run.start(name, here / "warm", 2))
    cache = here / "cache"
    for file in cache.rglob("*"):
        os.utime(file, (time.time() - _OLD,) * 2)
    process = run.start(name, here / name, chance.choice((1, 2)))
    time.sleep(seconds * chance.random())
    if clear:
        run.clear()
    else:
        shutil.rmtree(cache, ignore_errors=True)
    code, said, left = end(process)
    yield from broken(code, said, left)
    if clear and code != 0:
        yield f"code {code}, {said[-600:]}"
    if code == 0 and not run.right(name, here / name):
        yield "survived with other files"


def _two_versions(
    run: _Run, other: _Run, name: str, here: Path, chance: random.Random
) -> Iterator[str]:
    """A run, killed or not, then another version on its folder, and on a new one with its cache."""
    _, seconds = run.whole(name)
    first = run.start(name, here / name, chance.choice((1, 2)))
    time.sleep(seconds * chance.random())
    if killed := chance.random() < 0.5:
        first.kill()
    on_folder, on_cache = other.start(name, here / name, 1), other.start(name, here / "new", 1)
    code, said, left = end(first)
    if not killed:
        yield from broken(code, said, left)
    code, said, left = end(on_folder)
    yield from (f"on its folder: {fault}" for fault in broken(code, said, left))
    if code == 0 and not other.right(name, here / name):
        yield "the other version went on to other files"
    code, said, left = end(on_cache)
    yield from (f"on its cache: {fault}" for fault in broken(code, said, left))
    if code != 0 or not other.right(name, here / "new"):
        yield f"on its cache: code {code}, {said[-300:]}"


def _other_version(root: Path) -> Path:
    """A folder that says of the package that it has another version."""
    info = root / "version" / f"corpusfit-{_OTHER}.dist-info"
    info.mkdir(parents=True, exist_ok=True)
    text = f"Metadata-Version: 2.1\nName: corpusfit\nVersion: {_OTHER}\n"
    (info / "METADATA").write_text(text, "utf-8")
    return info.parent
