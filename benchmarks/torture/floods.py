"""Give commands far more of something than is usual, with a limit of memory, and count the rows."""

from __future__ import annotations

import base64
import json
import random
import re
import shutil
import subprocess
import sys
import zipfile
from collections import Counter
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import zstandard

from commands import environment
from ledger import Outcome
from running import disk

_SELECT = "select --target {w}/target --corpus {w}/corpus --method random --tokens 1000 --no-report"
_OUT = " --out {w}/out"
_LONGEST = 1800  # seconds
_RUN = """
import resource, subprocess, sys
if largest := int(sys.argv[1]):
    resource.setrlimit(resource.RLIMIT_FSIZE, (largest, largest))
code = subprocess.call(sys.argv[2:])
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss >> 10, file=sys.stderr)
sys.exit(code)
"""
"""Runs a command with a limit on the files that it writes, and says how much memory it had."""

_TEXT = "shares sold before the quarterly results"


@dataclass(frozen=True)
class Flood:
    """One thing in excess.

    Attributes:
        make: writes `corpus` into a folder, which has a `target`; returns the counts to find in
            the manifest, or the words of an error.
        megabytes: the most memory that any process may have.
        words: the command; `{w}` is the folder.
        largest: the largest file in MB that it may write; 0 for any.
        room: MB of the disk `{w}/small`, if it needs one.
    """

    make: Callable[[Path], dict[str, int] | str]
    megabytes: int
    words: str = _SELECT + _OUT
    largest: int = 0
    room: int = 0


def _rows(folder: Path) -> dict[str, int]:
    line = json.dumps({"text": _TEXT}).encode() + b"\n"
    with (folder / "corpus/a.jsonl").open("wb") as file:
        for _ in range(100):
            file.write(line * 100_000)
    return {"rows": 10_000_000, "rejected": 0}


def _files(folder: Path) -> dict[str, int]:
    for group in range(1000):
        inner = folder / f"corpus/{group:03d}"
        inner.mkdir()
        for number in range(1000):
            (inner / f"{number:03d}.txt").write_text(f"{_TEXT} {group} {number}")
    return {"rows": 1_000_000, "rejected": 0}


def _long_row(folder: Path) -> dict[str, int]:
    with (folder / "corpus/a.jsonl").open("wb") as file:
        file.write(b'{"text": "' + b"word " * 200_000)
        for _ in range(2_000):
            file.write(b"word " * 200_000)
        file.write(b'"}\n' + json.dumps({"text": _TEXT}).encode() + b"\n")
    return {"rows": 2, "rejected": 1}


def _columns(folder: Path) -> dict[str, int]:
    columns = {f"c{i}": [i] * 3 for i in range(100_000)}
    pq.write_table(pa.table({**columns, "text": [_TEXT] * 3}), folder / "corpus/a.parquet")
    return {"rows": 3, "rejected": 0}


def _targets(folder: Path) -> dict[str, int]:
    for number in range(10_000):
        (folder / f"target/{number}.txt").write_text(f"{_TEXT} {number}")
    return _few(folder)


def _few(folder: Path) -> dict[str, int]:
    lines = "".join(json.dumps({"text": f"{_TEXT} {i}"}) + "\n" for i in range(50))
    (folder / "corpus/a.jsonl").write_text(lines)
    return {"rows": 50, "rejected": 0}


def _labels(folder: Path) -> dict[str, int]:
    rows = [{"text": f"{_TEXT} {i}", "label": f"label {i % 1000}"} for i in range(5000)]
    (folder / "labeled.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return {"rows": 5000}


def _deep(folder: Path) -> dict[str, int]:
    deep = b'{"n": ' + b"[" * 1_000_000 + b"]" * 1_000_000 + b', "text": "x"}\n'
    open_ended = b'{"a": ' * 1_000_000 + b"\n"
    (folder / "corpus/a.jsonl").write_bytes(
        (deep + open_ended) * 3 + json.dumps({"text": _TEXT}).encode()
    )
    return {"rows": 7}


def _bomb(folder: Path) -> dict[str, int]:
    packer = zstandard.ZstdCompressor().compressobj()
    with (folder / "corpus/a.txt.zst").open("wb") as file:
        for _ in range(10_000):
            file.write(packer.compress(b"\0" * 1_000_000))
        file.write(packer.flush())
    (folder / "corpus/b.txt").write_text(_TEXT)
    return {"documents": 1}


def _sheet(folder: Path) -> str:
    _few(folder)
    (folder / "task").mkdir()
    with zipfile.ZipFile(folder / "task/train.xlsx", "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("xl/sharedStrings.xml", bytes(400 << 20))
    return r"train\.xlsx must unpack to at most 100 times"


def _random(folder: Path) -> str:
    chance = random.Random(0)
    with (folder / "corpus/a.jsonl").open("w") as file:
        for _ in range(60_000):
            file.write(
                json.dumps({"text": base64.b64encode(chance.randbytes(750)).decode()}) + "\n"
            )
    return r"(?s)free room.*Make room on the disk"


def _endless(folder: Path) -> str:
    return r"room|space|large"


FLOODS = {
    "10,000,000 rows": Flood(_rows, 1500),
    "1,000,000 files": Flood(_files, 3000),
    "a row of 2 GB": Flood(_long_row, 1500),
    "100,000 columns": Flood(_columns, 2000),
    "10,000 targets": Flood(_targets, 1500),
    "1,000 labels": Flood(
        _labels, 1500, "split --data {w}/labeled.jsonl --dev 1000 --test 1000 --near" + _OUT
    ),
    "JSON a million deep": Flood(_deep, 1500),
    "a bomb of 10 GB": Flood(_bomb, 1500),
    "a sheet that unpacks to 400 MB": Flood(
        _sheet, 500, "contamination --task {w}/task --data {w}/corpus"
    ),
    "a corpus larger than the disk": Flood(
        _random,
        1500,
        "select --target {w}/target --corpus {w}/corpus --method random --fraction 1 --no-report "
        "--out {w}/small/out",
        room=20,
    ),
    "endless standard input": Flood(
        _endless, 1500, "select --target {w}/target --corpus - --method random" + _OUT, largest=200
    ),
}


def flood(seed: int, root: Path, only: str | None) -> Outcome:
    """A case: one flood, in a folder of its own.

    Args:
        seed: number of the flood.
        root: where to work.
        only: name of the flood, instead of its number.
    """
    name = only or list(FLOODS)[seed % len(FLOODS)]
    folder = root / "flooded"
    shutil.rmtree(folder, ignore_errors=True)
    room = FLOODS[name].room
    with disk(folder / "small", f"size={room}m") if room else nullcontext(True) as permitted:
        missing = Outcome(Counter({"not permitted": 1}), name)
        outcome = _flooded(name, folder) if permitted else missing
    shutil.rmtree(folder, ignore_errors=True)
    return outcome


def _flooded(name: str, folder: Path) -> Outcome:
    outcome, given = Outcome(Counter(floods=1), name), FLOODS[name]
    (folder / "corpus").mkdir(parents=True)
    (folder / "target").mkdir()
    (folder / "target/a.txt").write_text("\n\n".join(f"{_TEXT} of {i}" for i in range(40)))
    wanted = given.make(folder)
    words = given.words.format(w=folder).split()

    source = subprocess.Popen(["yes", json.dumps({"text": _TEXT})], stdout=subprocess.PIPE)
    process = subprocess.Popen(
        [
            *(sys.executable, "-c", _RUN, str(given.largest << 20)),
            *(sys.executable, "-m", "corpusfit", *words, "--json", "--workers", "2"),
        ],
        stdin=source.stdout, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment(),
    )  # fmt: skip
    try:
        out, err = process.communicate(timeout=_LONGEST)
    except subprocess.TimeoutExpired:
        process.kill()
        outcome.broken.append(f"it takes more than {_LONGEST} seconds")
        return outcome
    finally:
        source.kill()
        source.wait()
    said = err.decode(errors="replace")
    most = int(said.split()[-1])
    if "Traceback" in said:
        outcome.broken.append(f"a traceback: {said[-500:]}")
    if isinstance(wanted, str):
        if process.returncode in (0, None) or not re.search(wanted, said):
            outcome.broken.append(f"no error with {wanted}: {said[-300:]}")
    elif process.returncode != 0:
        outcome.broken.append(f"it fails: {said[-500:]}")
    else:
        found = json.loads(out)["counts"]
        wrong = {key: found.get(key) for key, n in wanted.items() if found.get(key) != n}
        if wrong:
            outcome.broken.append(f"its counts are {wrong}")
    if most > given.megabytes:
        outcome.broken.append(f"a process has {most} MB of memory")
    return outcome
