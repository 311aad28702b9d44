"""What `select` and `choose` cost the driver and the workers: by message, by shard and by GB.

A corpus is selected from as it is and repeated (other texts of the same words) to three times its
size, and parts of it are in thousands of tiny shards. Processor seconds, bytes and messages are
counted (`metering`). Of workers it is taken as a constant, an amount for each GB of text and one
for each shard, of the driver as a constant, an amount for each message and one for each shard; none
is below 0, and they fit these runs best (least squares, relative). The tables follow from these for
shards of 4 MiB and the messages that `Run.map` sends: nothing of their size was run.

As `cynical` runs its rounds on a sample of a large corpus, it does so here (`SAMPLE`); what rounds
on all text cost is measured on the largest corpus, and added for the default size of a sample.

Run: python benchmarks/scale.py DATA WORK [--methods moore_lewis,cynical] [--forms jsonl,jsonl.gz]
     [--pieces 64,256]
     python benchmarks/scale.py --table
"""

from __future__ import annotations

import argparse
import gzip
import itertools
import json
import random
import re
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.parquet as pq
import zstandard
from sklearn.linear_model import LinearRegression

import corpusfit
from corpusfit.core.artifacts import remove
from corpusfit.selection import folder
from corpusfit.text import context
from harness import machine
from metering import Meter, used_so_far

RESULTS = Path(__file__).parent / "results" / "scale.json"
BYTES = 120_000_000  # of text in the smaller corpora, JSON included
FILE = 10_000_000  # of text in an archive
SHARD = 4.0  # MiB, the default
TINY = 0.0005  # MiB: each row is a shard
# share of the text, how often, size of a shard
RUNS = ((1.0, 1, SHARD), (1.0, 3, SHARD), (0.4, 1, TINY), (1.0, 1, TINY))
SIZES = {"10 GB": 10, "1 TB": 1_000, "10 TB": 10_000}
WORKERS = (2, 16, 96)
PASSES = {"select": 3, "choose": 1}
"""Passes over all shards: a sample, scores, and what is selected."""
STEPS = 4
"""Steps over the scores that find a threshold and write the choice."""
SAMPLE = 0.03
"""GB of text that the rounds of `cynical` are on; by default `ROUNDS`."""
ROUNDS = 8
COUNTED: dict[str, Callable[[Counter[str], Counter[str]], float]] = {
    "driver, s of a core": lambda driver, _: driver["cpu"],
    "driver, MB read and written": lambda driver, _: (driver["read"] + driver["written"]) / 1e6,
    "messages": lambda _, workers: workers["messages"],
    "workers, s of a core": lambda _, workers: workers["cpu"],
    "workers, MB read": lambda _, workers: workers["read"] / 1e6,
    "workers, MB written": lambda _, workers: workers["written"] / 1e6,
}
_WORD = re.compile(rb'[a-z]{4,}(?!"\s*:)')  # but no name of a field


def main() -> None:
    """Measure what is asked for, or show the tables of what was measured."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path, nargs="?")
    parser.add_argument("work", type=Path, nargs="?")
    parser.add_argument("--methods", default="moore_lewis,cynical")
    parser.add_argument("--forms", default="jsonl,jsonl.gz,jsonl.zst,parquet")
    parser.add_argument("--pieces", default="64,256", help="word pieces of a unit")
    parser.add_argument("--table", action="store_true")
    asked = parser.parse_args()
    stored = json.loads(RESULTS.read_bytes()) if RESULTS.exists() else {"cases": {}}
    if not asked.table:
        lines = texts_of(asked.data)
        target = next(asked.data.glob("tasks/chemprot/dev.jsonl*"))
        asked_for = (asked.forms.split(","), asked.methods.split(","), asked.pieces.split(","))
        for form, method, pieces in itertools.product(*asked_for):
            case = measure(lines, target, asked.work, form, method, pieces)
            stored["cases"][f"{method}, {form}, {pieces}"] = case | {"machine": machine()}
            RESULTS.write_text(json.dumps(stored, indent=1) + "\n")
    for name, case in stored["cases"].items():
        for command in ("select", "choose"):
            rounds = case.get("rounds") if command == "select" else None
            print(f"\n{command}, {name}\n\n{table(case[command], command, rounds)}")


def texts_of(data: Path) -> list[bytes]:
    """JSON lines of the data's corpus, of about `BYTES`, in random order."""
    lines = []
    for path in sorted(data.glob("pile/*.zst")):
        plain = zstandard.ZstdDecompressor().decompressobj().decompress(path.read_bytes())
        lines += plain.splitlines(keepends=True)
    random.Random(0).shuffle(lines)
    through = np.cumsum([len(line) for line in lines])
    return lines[: int(np.searchsorted(through, BYTES))]


def measure(
    lines: list[bytes], target: Path, work: Path, form: str, method: str, pieces: str
) -> dict[str, list[dict[str, Any]]]:
    """The counts of three corpora: GB, shards, and what was counted, for each command."""
    found: dict[str, list[dict[str, Any]]] = {"select": [], "choose": []}
    for share, times, shard in RUNS:
        remove(work)
        size = write(lines[: int(share * len(lines))], work / "corpus", form, times)
        settings = [f"read.shard_mb={shard}", f"cut.pieces={pieces}"]
        out = work / "out"
        meter = Meter()
        on = corpusfit.Machine(workers=2, cache=work / "cache", progress=meter)
        inputs = {"target": target, "corpus": work / "corpus", "method": method, "machine": on}
        # then kernels are compiled, and the survey of the files is in the cache
        with meter.counting():
            corpusfit.select(out=work / "first", settings=settings, **inputs)
        if method == "cynical":
            settings.append(f"method.rounds_gb={SAMPLE}")
            if times > 1:
                found["rounds"] = [{"gb": size / 1e9, **counts(*meter.stages["take"])}]
        for command, run in (
            ("select", partial(corpusfit.select, out=out, settings=settings, **inputs)),
            ("choose", partial(corpusfit.choose, out, fraction=0.1, machine=on)),
        ):
            here = used_so_far()
            workers = meter.workers.copy()
            with meter.counting():
                done = run()
            assert not done.manifest["warnings"], done.manifest["warnings"]
            counted = counts(used_so_far() - here, meter.workers - workers)
            shards = len(list((out / "scores").glob("part-*")))
            found[command].append({"gb": size / 1e9, "shards": shards, **counted})
            print(form, method, command, found[command][-1], flush=True)
    remove(work)
    return found


def counts(driver: Counter[str], workers: Counter[str]) -> dict[str, float]:
    """What was counted, as it is stored."""
    return {name: count(driver, workers) for name, count in COUNTED.items()}


def write(lines: list[bytes], folder: Path, form: str, times: int) -> int:
    """Write the lines so many times, each time with other words; returns the bytes of text."""
    folder.mkdir(parents=True)
    every = list(lines)
    for number in range(1, times):
        mark = b"%c" % (96 + number)
        every += [_WORD.sub(lambda word, mark=mark: word[0] + mark, line) for line in lines]
    size = sum(map(len, every))
    held: list[bytes] = []
    files = through = 0
    for line in every:
        held.append(line)
        through += len(line)
        if through >= (size if form == "jsonl" else FILE):
            WRITERS[form](folder / f"{files:05d}.{form}", held)
            held = []
            through = 0
            files = files + 1
    if held:
        WRITERS[form](folder / f"{files:05d}.{form}", held)
    return size


def _parquet(path: Path, lines: list[bytes]) -> None:
    texts = [orjson.loads(line)["text"] for line in lines]
    pq.write_table(pa.table({"text": texts}), path)


WRITERS: dict[str, Callable[[Path, list[bytes]], Any]] = {
    "jsonl": lambda path, lines: path.write_bytes(b"".join(lines)),
    "jsonl.gz": lambda path, lines: path.write_bytes(gzip.compress(b"".join(lines), 6)),
    "jsonl.zst": lambda path, lines: path.write_bytes(zstandard.compress(b"".join(lines), 3)),
    "parquet": _parquet,
}


def messages(shards: float, workers: int, command: str) -> float:
    """How many messages a command sends, at most: passes over all shards, and steps of `choose`."""
    sent = before = 0.0
    while before < shards:
        size = max(1, min(context._MOST_PIECES, int(before / (context._MESSAGES * workers))))
        many = context._MESSAGES * workers if size < context._MOST_PIECES else shards / size
        many = min(many, (shards - before) / size)
        sent = sent + many
        before = before + many * size
    runs = min(folder._MOST_RUNS, shards)
    return PASSES[command] * sent + STEPS * runs


def table(
    runs: list[dict[str, Any]], command: str, rounds: list[dict[str, Any]] | None = None
) -> str:
    """What follows for larger corpora, with as many workers as finish each in a reasonable time."""
    ones = np.ones(len(runs))

    def fitted(name: str, *by: str) -> Any:
        known = np.array([[1.0, *(run[each] for each in by)] for run in runs])
        seen = np.array([run[name] for run in runs], float)
        fit = LinearRegression(positive=True, fit_intercept=False)
        return fit.fit(known / seen[:, None], ones).coef_

    shards = [gb * 1e9 / (SHARD * 2**20) for gb in SIZES.values()]
    sent = [messages(n, w, command) for n, w in zip(shards, WORKERS, strict=True)]
    head = ["", "constant", "by message", "by GB", "by shard"]
    head += [f"{size}, {w} workers" for size, w in zip(SIZES, WORKERS, strict=True)]
    rows = [["messages", "", "", "", "", *(f"{n:,.0f}" for n in sent)]]
    busy: dict[str, list[float]] = {}
    for name in COUNTED:
        if name == "messages":
            continue
        driver = name.startswith("driver")
        a, b, c = fitted(name, "messages" if driver else "gb", "shards")
        amounts = sent if driver else list(SIZES.values())
        a += sum(ROUNDS / of["gb"] * of[name] for of in rounds or ())
        busy[name] = [a + b * x + c * n for x, n in zip(amounts, shards, strict=True)]
        by = (f"{b:,.3g}", "") if driver else ("", f"{b:,.3g}")
        rows.append([name, f"{a:,.3g}", *by, f"{c:,.3g}", *(f"{x:,.3g}" for x in busy[name])])
    here, there = (busy[f"{who}, s of a core"] for who in ("driver", "workers"))
    hours = [max(d, w / n) / 3600 for d, w, n in zip(here, there, WORKERS, strict=True)]
    rows.append(["hours", "", "", "", "", *(f"{h:,.2g}" for h in hours)])
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


if __name__ == "__main__":
    main()
