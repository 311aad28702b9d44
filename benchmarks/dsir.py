"""Speed of `dsir`, compared with its authors' package and with reading alone.

On equal features (hashed words, runs of punctuation and pairs of both), times the whole command
`corpusfit select --method dsir` of one segment, including process start and writing, and the
package's `fit_importance_estimator` and `compute_importance_weights`, excluding imports; with one
worker and with two. Also times one process that reads the lines and parses them with orjson, and
two workers and one. The package reads about 2 MB per second, so it gets every Nth line; the ratio
is one of rates.
Reference: Xie et al. (2023), https://github.com/p-lambda/dsir (data-selection 1.0.3).

Run: .venv/bin/python benchmarks/dsir.py [TARGET.jsonl CORPUS_FOLDER [RUNS]]
Without arguments the corpus is 100 MB of docstrings.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
from scipy.stats import spearmanr

from corpusfit.demo import FAMILIES, docstrings
from harness import paired
from memory import write_corpus

NTH = 20
TIMES = 10
BUCKETS = 10_000
MANY_BUCKETS = 1_000_000
SAME_FEATURES = ("--set", "method.signs=true", "--set", "method.smoothing=1e-8")
PEER = """
import sys, time
from data_selection import HashedNgramDSIR
target, corpus, cache, workers, buckets = sys.argv[1:]
dsir = HashedNgramDSIR(
    [corpus], [target], cache, num_proc=int(workers), num_buckets=int(buckets)
)
started = time.perf_counter()
dsir.fit_importance_estimator()
dsir.compute_importance_weights()
print(time.perf_counter() - started)
"""
PARSE = """
import sys, time, orjson
from pathlib import Path
started = time.perf_counter()
for path in sorted(Path(sys.argv[1]).glob("*.jsonl")):
    with open(path, "rb") as lines:
        for line in lines:
            orjson.loads(line)["text"]
print(time.perf_counter() - started)
"""


def main(target: Path, corpus: Path, runs: int) -> None:
    """Run all measurements."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        part = every_nth(corpus, folder)
        size = megabytes(corpus)
        part_size = megabytes(part)
        large = many_times(corpus, folder)
        alike = {n: agreement(target, part, folder, n) for n in (BUCKETS, MANY_BUCKETS)}
        for n, rho in alike.items():
            print(f"rank correlation of the weights, {n:,} buckets: {rho:.4f}", flush=True)

        def ours(workers: int, *options: str) -> float:
            return timed(score(target, large, folder / "out", workers, *options))

        for workers in (1, 2):
            paired(
                f"dsir_package_{workers}w",
                lambda w=workers: ours(w, *SAME_FEATURES),
                lambda w=workers: peer(target, part, folder, w),
                runs=runs,
                work=TIMES * size,
                peer_work=part_size,
                unit="MB",
                note=f"JSON lines to weights written, {workers} worker(s); peer: data-selection "
                f"1.0.3 on every {NTH}th line",
                extra={"spearman": alike},
            )
        paired(
            "dsir_parse_1w",
            lambda: ours(1),
            lambda: python(PARSE, str(corpus)),
            runs=runs,
            work=TIMES * size,
            peer_work=size,
            unit="MB",
            note="one worker, defaults; peer: reading the lines and parsing them with orjson",
        )
        paired(
            "dsir_two_workers",
            lambda: ours(2),
            lambda: ours(1),
            runs=runs,
            work=TIMES * size,
            unit="MB",
            note="two workers against one, defaults",
        )


def megabytes(folder: Path) -> float:
    """Size of the folder's lines in MB."""
    return sum(p.stat().st_size for p in folder.rglob("*.jsonl")) / 1e6


def every_nth(corpus: Path, folder: Path) -> Path:
    """Every Nth line of the corpus, in one file of a new folder."""
    part = folder / "part"
    part.mkdir()
    with (part / "part.jsonl").open("wb") as out:
        for path in sorted(corpus.glob("*.jsonl")):
            with path.open("rb") as lines:
                out.writelines(line for i, line in enumerate(lines) if i % NTH == 0)
    return part


def score(target: Path, corpus: Path, out: Path, workers: int, *options: str) -> list[str]:
    """The command that writes the weights."""
    command = [sys.executable, "-m", "corpusfit", "select", "--method", "dsir", "--overwrite"]
    command += ["--segments", "1", "--dedup", "none", "--no-report"]
    command += ["--target", str(target), "--corpus", str(corpus), "--out", str(out)]
    return [*command, "--workers", str(workers), *options]


def timed(command: list[str]) -> float:
    """Seconds of a command with a new output folder."""
    out = Path(command[command.index("--out") + 1])
    fresh = out.with_name(f"{out.name}-{time.time_ns()}")
    command = [str(fresh) if c == str(out) else c for c in command]
    started = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    seconds = time.perf_counter() - started
    subprocess.run(["rm", "-r", str(fresh)], check=True)
    return seconds


def python(code: str, *arguments: str) -> float:
    """Seconds that a script prints."""
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments], check=True, capture_output=True, text=True
    )
    return float(done.stdout.split()[-1])


def peer(target: Path, part: Path, folder: Path, workers: int) -> float:
    """Seconds of the package on the part."""
    return package(target, part, folder / f"peer-{time.time_ns()}", workers, BUCKETS)


def package(target: Path, part: Path, cache: Path, workers: int, buckets: int) -> float:
    """Run the package; returns the seconds that it prints."""
    raw = part / "part.jsonl"
    return python(PEER, *map(str, (target, raw, cache, workers, buckets)))


def agreement(target: Path, part: Path, folder: Path, buckets: int) -> float:
    """Spearman's correlation of both sides' weights of whole documents on the same features.

    Left as they are: the package hashes by SHA-256 and ours by its own function, so that other
    n-grams share a bucket (with 10,000 buckets the package under another hash agrees with itself
    to 0.962); and ours counts marks above letters to the word (Unicode Technical Standard 18).
    """
    whole = ["--unit", "document", "--set", "method.per_token=false"]
    raw = ["--set", "fit.background=1000000", "--set", "fit.normalize=false"]
    out = folder / f"agree-{buckets}"
    raw += ["--set", f"method.buckets={buckets}"]
    command = score(target, part, out, 1, *SAME_FEATURES, *whole, *raw)
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    table = pq.read_table(out / "scores").to_pandas().sort_values("row")
    cache = folder / f"peer-agree-{buckets}"
    package(target, part, cache, 1, buckets)
    (weights,) = sorted(cache.rglob("log_importance_weights/*.npy"))
    theirs = np.load(weights)
    return float(spearmanr(table["score"], theirs[table["row"]]).statistic)


def many_times(corpus: Path, folder: Path) -> Path:
    """A folder with many links to each file of the corpus."""
    large = folder / "large"
    for copy in range(TIMES):
        (large / str(copy)).mkdir(parents=True)
        for path in corpus.glob("*.jsonl"):
            (large / str(copy) / path.name).symlink_to(path.resolve())
    return large


def of_docstrings(folder: Path) -> tuple[Path, Path]:
    """A target and a corpus available on every machine."""
    target = folder / "task.jsonl"
    corpus = folder / "corpus"
    corpus.mkdir()
    texts = sorted({t for m in FAMILIES.values() for t in docstrings(m.split())})
    target.write_text("".join(json.dumps({"text": t}) + "\n" for t in texts[:300]))
    write_corpus(corpus / "docstrings.jsonl", texts, 100)
    return target, corpus


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as made:
        given = [Path(a) for a in sys.argv[1:3]] or of_docstrings(Path(made))
        main(*given, int(sys.argv[3]) if len(sys.argv) > 3 else 3)
