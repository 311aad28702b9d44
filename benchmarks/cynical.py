"""Order, bits per word and speed of `cynical` beside its author's Perl scripts.

Candidates are drawn from a corpus: one text a line, at most 100 words, as the scripts demand, in
corpusfit's tokens. Compares, for each number of candidates:
- the order with a search that evaluates the paper's formula for every text at every step;
- bits per word of a task's dev texts under a trigram model of the first words of each order;
- processor seconds of the whole commands: vocabularies, ratios and selection on their
  side, `corpusfit select` on ours; and of ours in memory.
The scripts draw their first scores at random and follow Perl's order of hash keys; both are seeded.

PEER is a folder with amittai-cynical-selection.pl and its two vocabulary scripts, on PERL5LIB are
List::MoreUtils, Sort::Key::Top, Array::Heap and Array::Heap::ModifiablePriorityQueue. From Perl
5.36 on the pragma `sort` refuses the scripts' '_mergesort', which has been Perl's default since
5.8; an empty pragma stands in for it.
Reference: Axelrod (2017), Cynical Selection of Language Model Training Data (arXiv 1709.02279).

Run: .venv/bin/python benchmarks/cynical.py PEER TASK CORPUS [SIZE…]
TASK has train.jsonl.zst and dev.jsonl.zst, CORPUS has .jsonl files.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import json
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import orjson
from scipy.stats import spearmanr

from corpusfit.core.types import text_array
from corpusfit.kernels.tokens import reference
from corpusfit.scoring import language_model
from corpusfit.scoring.methods.cynical import Cynical
from harness import paired
from lexical_quality import target

SIZES = (300, 3_000, 10_000, 30_000)
WORDS = 100
RUNS = 2
SMALL = 1_000
"""Above this size there is no search by the formula, and the scripts run once for each setting."""
LARGE = 5_000
"""From this size on the scripts run with their wrapper's setting only."""
SEEDS = 3
SHARES = {"tenth": 0.1, "third": 1 / 3}
FLAGS = {
    "wrapper": ["--mincount=20", "--batchmode"],
    "one text at a time": ["--mincount=3"],
    "no floor, no first lines": ["--mincount=1", f"--maxcount={10**9}"],
}
"""Settings of the script: its wrapper's; its defaults; as near the formula as they go."""
OURS = {"ours, words one at a time": Cynical(pairs=0.0, rounds=10_000), "ours": Cynical()}
PRAGMA = "package sort; srand($ENV{SEED}); 1;\n"


@dataclass(frozen=True)
class Lines:
    """Target and candidates: n lines of words between single spaces, and the same as JSON lines."""

    folder: Path
    wanted: list[str]
    texts: list[str]

    def __len__(self) -> int:
        return len(self.texts)

    def write(self) -> None:
        """Write both sides' inputs."""
        for name, texts in (("task", self.wanted), ("available", self.texts)):
            (self.folder / name).write_text("".join(f"{t}\n" for t in texts), "utf-8")
            rows = "".join(json.dumps({"text": t}) + "\n" for t in texts)
            (self.folder / f"{name}.jsonl").write_text(rows, "utf-8")
        (self.folder / "sort.pm").write_text(PRAGMA, "utf-8")

    @property
    def words(self) -> np.ndarray:
        """Words of each candidate, int64 [n]."""
        return np.array([len(t.split()) for t in self.texts])


def tokens(text: str) -> list[str]:
    """The words of a text, without labels such as `__x`, which the scripts treat differently."""
    return [word for word in reference(text) if not word.startswith("__")]


def candidates(corpus: Path, most: int) -> list[str]:
    """A seeded draw of pieces of documents, at most 100 words each."""
    pieces = []
    for path in sorted(corpus.glob("*.jsonl")):
        with path.open("rb") as rows:
            for row in rows:
                words = orjson.loads(row)["text"].split()
                pieces += [words[i : i + WORDS] for i in range(0, len(words), WORDS)]
    order = np.random.default_rng(0).permutation(len(pieces))
    read = (" ".join(tokens(" ".join(pieces[i]))[:WORDS]) for i in order)
    return [text for text, _ in zip(filter(None, read), range(most), strict=False)]


def scripts(peer: Path, lines: Lines, flags: list[str], seed: int) -> np.ndarray:
    """Run the author's scripts as their wrapper does; the order of the lines, int64 [n]."""
    at, env = lines.folder, {**os.environ, "PERL_HASH_SEED": str(seed), "SEED": str(seed)}

    def perl(name: str, *options: str, out: Any = subprocess.DEVNULL) -> None:
        command = ["perl", "-I", str(at), str(peer / f"amittai-{name}.pl"), *options]
        subprocess.run(command, env=env, stdout=out, stderr=subprocess.DEVNULL, check=True)

    for name in ("task", "available"):
        perl("vocab-compute-counts", f"--corpus={at / name}", f"--vcb_file={at / name}.vocab")
    with (at / "ratios").open("wb") as out:
        models = [f"--model1={at / 'task.vocab'}", f"--model2={at / 'available.vocab'}"]
        perl("vocab-ratios", *models, out=out)
    sort = ["sort", "-g", "-r", "-k2,2", "-o", str(at / "stats"), str(at / "ratios")]
    subprocess.run(sort, check=True)
    options = [f"--task_vocab={at / 'task.vocab'}", f"--unadapt_vocab={at / 'available.vocab'}"]
    options += [f"--available={at / 'available'}", f"--stats={at / 'stats'}"]
    options += [f"--seed_vocab={at / 'none'}", f"--working_dir={at}", f"--jaded={at / 'jaded'}"]
    perl("cynical-selection", *options, "--keep_boring", *flags)
    with (at / "jaded").open("rb") as found:
        order = [int(row.split(b"\t", 1)[0]) - 1 for row in found]
    return np.append(order, np.setdiff1d(np.arange(len(lines)), order)).astype(np.int64)


def command(lines: Lines) -> None:
    """Run the whole command of ours."""
    with tempfile.TemporaryDirectory() as out:
        words = [sys.executable, "-m", "corpusfit", "select", "--method", "cynical"]
        words += ["--target", str(lines.folder / "task.jsonl"), "--unit", "document"]
        words += ["--corpus", str(lines.folder / "available.jsonl"), "--workers", "1"]
        words += ["--out", f"{out}/run"]
        subprocess.run(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)


def ours(method: Cynical, lines: Lines) -> np.ndarray:
    """The order in which the method takes the texts, int64 [n]."""
    wanted, texts = text_array(lines.wanted), text_array(lines.texts)
    _, scores = next(iter(method.score_corpus([(0, texts)], wanted, texts, seed=0)))
    return np.argsort(-scores, kind="stable")


def search(lines: Lines, *, per_word: bool) -> np.ndarray:
    """The order by the formula, evaluated for every text at every step, int64 [n].

    As published the text with the lowest change of the cross-entropy comes next, and counts start
    near 0 (0.01, as in the scripts). `per_word` divides the change by the words of the text and
    adds the corpus's counts, as of a part of the words taken so far, as `cynical` does.
    """
    wanted = Counter(word for text in lines.wanted for word in text.split())
    number = {word: i for i, word in enumerate(wanted)}
    p = np.array(list(wanted.values())) / wanted.total()
    found = [Counter(w for w in text.split() if w in number) for text in lines.texts]
    text = np.repeat(np.arange(len(found)), [len(c) for c in found])
    word = np.array([number[w] for c in found for w in c], np.int64)
    count = np.array([n for c in found for n in c.values()], np.float64)
    words = lines.words
    taken, total = np.full(len(p), 0.0 if per_word else 0.01), 0.0 if per_word else 0.01
    of_corpus = np.bincount(word, count, minlength=len(p)) / words.sum()
    left, order = np.ones(len(words), np.bool_), np.empty(len(words), np.int64)
    for step in range(len(words)):
        added = Cynical.start * max(1.0, total) if per_word else 0.0
        before = taken + added * of_corpus
        gain = np.bincount(text, p[word] * np.log1p(count / before[word]), minlength=len(words))
        change = np.log1p(words / (total + added)) - gain
        order[step] = best = np.argmin(np.where(left, change / (words if per_word else 1), np.inf))
        left[best], own = False, text == best
        taken[word[own]] += count[own]
        total += words[best]
    return order


def agreement(a: np.ndarray, b: np.ndarray) -> dict[str, float]:
    """Spearman's correlation of two orders, and the shared part of their first tenth and third."""
    out = {"spearman": float(spearmanr(np.argsort(a), np.argsort(b)).statistic)}
    for name, share in SHARES.items():
        n = round(share * len(a))
        out[name] = len(np.intersect1d(a[:n], b[:n])) / n
    return out


def bits(orders: dict[str, np.ndarray], lines: Lines, dev: Any) -> dict[str, dict[str, float]]:
    """Bits per word of the dev texts, from the same number of words of each order."""
    out: dict[str, dict[str, float]] = {name: {} for name in orders}
    lengths = np.array([len(reference(text)) + 1 for text in dev.to_pylist()])
    for part, share in SHARES.items():
        most = share * lines.words.sum()
        first = [o[np.cumsum(lines.words[o]) <= most] for o in orders.values()]
        samples = [text_array([lines.texts[i] for i in chosen]) for chosen in first]
        for name, model in zip(orders, language_model.train(samples, 3, signs=False), strict=True):
            found, _ = language_model.entropy(model, 3, dev, signs=False)
            out[name][part] = float(np.average(found, weights=lengths))
    return out


def compared(peer: Path, lines: Lines, dev: Any, seconds: dict[str, list[float]]) -> dict[str, Any]:
    """Orders and bits of both sides, of the search, and of chance; also the scripts' seconds."""
    n, small = len(lines), len(lines) <= SMALL
    orders = {f"chance {s}": np.random.default_rng(s).permutation(n) for s in range(SEEDS)}
    for name in FLAGS if n < LARGE else ["wrapper"]:
        for seed in range(SEEDS if small else 1):
            orders[f"{name} {seed}"], *seconds[name] = timed(
                scripts, peer, lines, FLAGS[name], seed
            )
    orders |= {name: ours(m, lines) for name, m in OURS.items() if small or name == "ours"}
    if small:
        orders["formula"] = search(lines, per_word=False)
        orders["formula per word"] = search(lines, per_word=True)
    pairs = [(a, b) for b in ("formula", "formula per word", "ours") for a in orders if a != b]
    pairs = [(a, b) for a, b in pairs if b in orders] + list(neighbors(list(orders)))
    alike = {f"{a} / {b}": agreement(orders[a], orders[b]) for a, b in pairs}
    found = {"agreement": alike, "bits": bits(orders, lines, dev)}
    for kind, rows in found.items():
        for name, row in rows.items():
            print(f"{kind} {name:60s}", *(f"{k} {x:.3f}" for k, x in row.items()), flush=True)
    return found


def neighbors(names: list[str]) -> Iterator[tuple[str, str]]:
    """The same settings with another seed."""
    return ((a, b) for a, b in pairwise(names) if a[:-1] == b[:-1])


def timed(work: Any, *arguments: Any) -> tuple[Any, float, float]:
    """What a function returns, its processor seconds with those of its processes, and seconds."""
    started, before = time.perf_counter(), time.process_time() + sum(os.times()[2:4])
    found = work(*arguments)
    busy = time.process_time() + sum(os.times()[2:4]) - before
    return found, busy, time.perf_counter() - started


def speed(peer: Path, lines: Lines, seconds: dict[str, list[float]], found: dict[str, Any]) -> None:
    """Time the whole commands in turn, and ours in memory."""
    small = len(lines) <= SMALL
    extra: dict[str, Any] = {"unit": "processor seconds, seconds", "once": seconds, **found}
    every: dict[str, list[tuple[float, float]]] = {"command": [], "in memory": [], "scripts": []}
    extra["runs"] = every

    def mine() -> float:
        if not small and not every["in memory"]:  # no warm-up
            every["in memory"].append(timed(ours, OURS["ours"], lines)[1:])
            return 0.0
        every["command"].append(timed(command, lines)[1:])
        every["in memory"].append(timed(ours, OURS["ours"], lines)[1:])
        return every["command"][-1][0]

    def theirs() -> float:
        if small:
            every["scripts"].append(timed(scripts, peer, lines, FLAGS["wrapper"], 0)[1:])
            return every["scripts"][-1][0]
        return seconds["wrapper"][0]

    result = paired(
        f"cynical_{len(lines)}",
        mine,
        theirs,
        runs=RUNS if small else 1,
        note=f"{len(lines):,} texts ordered, whole commands, one worker, processor seconds; peer: "
        f"the author's Perl scripts as in their wrapper ({' '.join(FLAGS['wrapper'])})",
        work=len(lines),
        unit="texts",
        extra=extra,
    )
    memory = float(np.median([run[0] for run in every["in memory"][1:]]))
    print(f"    ours in memory {memory:.3f} s, ratio {result['peer']['median_s'] / memory:.0f}")


def main(peer: Path, task: Path, corpus: Path, sizes: list[int]) -> None:
    """Measure every size."""
    wanted = [" ".join(tokens(t)) for t in target(task / "train.jsonl.zst").to_pylist()]
    dev, drawn = target(task / "dev.jsonl.zst"), candidates(corpus, max(sizes))
    for n in sizes:
        with tempfile.TemporaryDirectory() as folder:
            lines = Lines(Path(folder), wanted, drawn[:n])
            lines.write()
            seconds: dict[str, list[float]] = {}
            found = compared(peer, lines, dev, seconds)
            speed(peer, lines, seconds, found)


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:4]), [int(n) for n in sys.argv[4:]] or list(SIZES))
