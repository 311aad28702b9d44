"""What the journeys share: texts to read, and what to look at in what a run left."""

import hashlib
import json
import random
import signal
import time
from pathlib import Path
from typing import NamedTuple

_WORDS = """
task: kinase receptor binds protein inhibitor enzyme affinity ligand cell assay
market: shares market investors sold quarterly results fell profit bank bonds
kitchen: flour butter oven stir onion garlic simmer salt bowl serve
"""
WORDS = {line.split(": ")[0]: line.split()[1:] for line in _WORDS.strip().splitlines()}


class Done(NamedTuple):
    """What a command left behind."""

    code: int
    out: str
    err: str


def prose(topic, n, seed=0, most=60):
    """n texts of a topic's words, all different."""
    chance = random.Random(f"{topic}{seed}")
    return [
        " ".join(chance.choices(WORDS[topic], k=chance.randint(4, most))) + f" {i}."
        for i in range(n)
    ]


def chats(topic, n, seed=0):
    """Conversations about a topic: what is asked, and what the assistant says."""
    asked, told = prose(topic, n, seed, most=8), prose(topic, n, f"told {seed}", most=12)
    return [
        {"messages": [{"role": "user", "content": a}, {"role": "assistant", "content": b}]}
        for a, b in zip(asked, told, strict=True)
    ]


def write_rows(path, rows):
    """Rows, or texts, as JSON lines; returns the path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    rows = ({"text": row} if isinstance(row, str) else row for row in rows)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    return path


def kill_at(process, folder, pattern, count):
    """SIGKILL a process as soon as so many files are there; whether it still ran."""
    while len(list(folder.glob(pattern))) < count:
        if process.poll() is not None:
            return False
        time.sleep(0.001)
    return killed(process)


def killed(process):
    """SIGKILL a process and wait for its workers, which hold its pipes; whether it still ran."""
    process.kill()
    process.communicate()
    return process.returncode == -signal.SIGKILL


def digests(folder, *parts):
    """SHA-256 of the named files of a folder, and of all in its named folders, by relative path."""
    return {
        file.relative_to(folder).as_posix(): hashlib.sha256(file.read_bytes()).hexdigest()
        for part in parts or ("scores", "selected", "examples.parquet")
        for file in [folder / part, *sorted((folder / part).rglob("*"), key=str)]
        if file.is_file()
    }


def stamps(folder, pattern):
    """What changes when a file is written anew: its inode and time, by name."""
    return {p.name: (p.stat().st_ino, p.stat().st_mtime_ns) for p in Path(folder).glob(pattern)}


def rejects(folder):
    """The rows of `rejects.jsonl`."""
    return [json.loads(line) for line in Path(folder, "rejects.jsonl").read_bytes().splitlines()]


def scores(run):
    """Every segment's row of `scores/`, as dictionaries, in order."""
    return [row for table in run.scores() for row in table.to_pylist()]


def children(pid):
    """Ids of a process's living children (Linux)."""
    return [int(p) for p in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
