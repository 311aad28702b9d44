"""The long commands of corpusfit on small inputs that a seed makes."""

from __future__ import annotations

import csv
import gzip
import hashlib
import importlib.util
import io
import json
import os
import random
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import zstandard

_TOPICS = {
    "task": "kinase receptor binds protein inhibitor enzyme affinity ligand cell assay",
    "market": "shares market investors sold quarterly results fell profit bank bonds",
    "kitchen": "flour butter oven stir onion garlic simmer salt bowl serve",
    "court": "appeal judge evidence order statute claim counsel hearing costs relief",
}

_RECIPE = """
name = "small"
model = "{w}/model"
corpus = ["{w}/corpus"]
seeds = 1
fractions = [0.3]
selectors = ["random", "dsir"]
compare = "random"
pairs = [["dsir", "random"]]
[adapt]
mix = {{heldout = 8}}
[adapt.train]
max_steps = 6
batch = 4
length = 32
evaluations = 1
device = "cpu"
precision = "fp32"
[evaluate]
finetune = {{epochs = 1, length = 32, device = "cpu", precision = "fp32"}}
[[tasks]]
name = "task"
path = "{w}/split"
"""


@dataclass(frozen=True)
class Command:
    """A command line, and which of its files the promise of the same bytes is about.

    Attributes:
        words: its arguments; `{w}` is the folder of inputs, `{out}` its own folder.
        kept: patterns of the files and folders in `{out}` that are the same after any interruption.
        before: commands whose whole runs it reads, as `{w}/whole/NAME`.
        copied: one of them, of whose folder `{out}` begins as a copy.
        workers: whether it has the option --workers.
    """

    words: str
    kept: tuple[str, ...]
    before: tuple[str, ...] = ()
    copied: str = ""
    workers: bool = True

    def line(self, world: Path | str, out: Path | str, workers: int) -> list[str]:
        """The arguments, with their folders."""
        given = [w.format(w=world, out=out) for w in self.words.split()]
        more = ["--workers", str(workers)] if self.workers else []
        return [sys.executable, "-m", "corpusfit", *given, *more]


_TIMES = {
    *("seconds", "cpu_seconds", "examples_per_second", "training"),
    *("select_s", "adapt_s", "tune_s", "look_s", "cpu_s", "watt_hours"),
}
_SELECT = "select --target {w}/target.jsonl --corpus {w}/corpus --out {out} --no-report"
_SCORED = ("scores", "selected", "examples.parquet", "rejects.jsonl")
_TRAINED = ("model.safetensors", "losses.jsonl", "config.json")
_SHORT = "--set train.length=32 --set train.batch=4 --set train.checkpoint_minutes=1e-9"
COMMANDS = {
    **{
        method: Command(f"{_SELECT} --fraction 0.2 --method {method} --embedder static", _SCORED)
        for method in (
            *("dsir", "moore_lewis", "cynical", "bm25", "tfidf", "ngram_coverage"),
            *("knn", "isolation_forest", "centroid_distance", "domain_classifier"),
            *("textgram", "cluster_ratio", "consensus"),
        )
    },
    "near": Command(f"{_SELECT} --tokens 2000 --method dsir --dedup near", _SCORED),
    "clusters": Command(
        "clusters --corpus {w}/corpus --k 3 --embedder static --out {out}",
        ("domains.safetensors", "sample.parquet"),
    ),
    "split": Command(
        "split --data {w}/labeled.jsonl --dev 20 --test 20 --near --out {out}",
        ("train.jsonl", "dev.jsonl", "test.jsonl", "rejects.jsonl"),
    ),
    "compose": Command("compose {w}/compose.toml --out {out}", ("composed", "rejects.jsonl")),
    "adapt": Command(
        f"adapt --model {{w}}/model --data {{w}}/corpus --max-steps 30 {_SHORT} --out {{out}}",
        _TRAINED,
    ),
    "adapt_nsp": Command(
        "adapt --model {w}/model --new-head --objective mlm+nsp --data {w}/corpus "
        f"--task {{w}}/target.jsonl --max-steps 30 {_SHORT} --out {{out}}",
        _TRAINED,
    ),
    "evaluate": Command(
        "evaluate --model {w}/model --base {w}/model --task {w}/split --seeds 2 --epochs 2 "
        "--length 32 --out {out}",
        ("outcomes",),
    ),
    "choose": Command(
        "choose {w}/whole/dsir --policy resample --fraction 0.3 --out {out} --no-report",
        _SCORED,
        before=("dsir",),
    ),
    "choose_in_place": Command(
        "choose {out} --fraction 0.05 --dedup near --no-report",
        _SCORED,
        before=("dsir",),
        copied="dsir",
    ),
    "run": Command(
        "run {w}/recipe.toml --out {out}",
        (
            *("table.csv", "tasks", "scores"),
            *("selections/*/scores", "selections/*/selected", "models/*/model.safetensors"),
        ),
    ),
    "report": Command(
        "report {w}/whole/dsir --out {out}/page.html --figures {out}/figures",
        ("page.html", "figures"),
        before=("dsir",),
        workers=False,
    ),
}
if importlib.util.find_spec("ray"):
    COMMANDS["ray"] = Command(f"{_SELECT} --fraction 0.2 --method dsir --engine ray", _SCORED)


def make_world(folder: Path, seed: int, model: Path) -> None:
    """Write the inputs of every command, drawn by a seed: sizes, formats, copies, empty rows."""
    chance = random.Random(seed)
    (folder / "corpus").mkdir(parents=True)
    (folder / "model").symlink_to(model)
    for i, topic in enumerate(_TOPICS):
        texts = _texts(chance, topic, chance.randint(60, 250))
        texts += chance.choices(texts, k=chance.randint(0, 20))
        rows = [{"text": text, "id": f"{topic}-{n}"} for n, text in enumerate(texts)]
        _write(folder / "corpus" / f"{i}-{topic}", rows, chance.choice(tuple(_WRITERS)))
    target = [{"text": text} for text in _texts(chance, "task", 40)]
    _write(folder / "target", target, ".jsonl")
    labeled = [
        {"text": text, "label": topic}
        for topic in ("task", "market")
        for text in _texts(chance, topic, 60)
    ]
    _write(folder / "labeled", labeled, ".jsonl")
    cuts = {"train": labeled[::3], "dev": labeled[1::3], "test": labeled[2::3]}
    (folder / "split").mkdir()
    for name, rows in cuts.items():
        _write(folder / "split" / name, rows, ".jsonl")
    (folder / "compose.toml").write_text(
        'composition = "E_D"\nbudget = 100\n[[sources]]\nname = "own"\nkind = "specific"\n'
        f'language = "en"\npath = "{folder}/corpus"\n',
        "utf-8",
    )
    (folder / "recipe.toml").write_text(_RECIPE.format(w=folder), "utf-8")


def make_model(folder: Path) -> None:
    """Train a tiny model that every world uses."""
    folder.mkdir(parents=True)
    chance = random.Random(0)
    rows = [{"text": text} for topic in _TOPICS for text in _texts(chance, topic, 100)]
    _write(folder / "texts", rows, ".jsonl")
    words = f"adapt --init tiny --data {folder}/texts.jsonl --max-steps 2 --out {folder}/model"
    sizes = "--set model.vocabulary=300 --set train.length=32"
    subprocess.run(
        [sys.executable, "-m", "corpusfit", *words.split(), *sizes.split()],
        check=True, capture_output=True,
    )  # fmt: skip


def digests(out: Path, kept: tuple[str, ...]) -> dict[str, str]:
    """SHA-256 of the files that are kept, by name; of JSON and CSV files without their times."""
    return {
        str(file.relative_to(out)): hashlib.sha256(_timeless(file)).hexdigest()
        for pattern in kept
        for found in out.glob(pattern)
        for file in [found, *sorted(found.rglob("*"))]
        if file.is_file()
    }


def _timeless(file: Path) -> bytes:
    data = file.read_bytes()
    if file.suffix == ".json":
        found = json.loads(data, object_hook=_without_times)
    elif file.suffix == ".csv":
        found = [_without_times(row) for row in csv.DictReader(io.StringIO(data.decode()))]
    else:
        return data
    return json.dumps(found).encode()


def _without_times(row: dict[str, object]) -> dict[str, object]:
    return {name: value for name, value in row.items() if name not in _TIMES}


def environment() -> dict[str, str]:
    """One compute thread, warnings as a user sees them, and a Ray cluster for each command."""
    return {
        **os.environ, "OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "default", "NO_COLOR": "1",
        "RAY_ADDRESS": "local",
    }  # fmt: skip


def _texts(chance: random.Random, topic: str, n: int) -> list[str]:
    words = _TOPICS[topic].split()
    return [
        " ".join(chance.choices(words, k=chance.randint(4, 40))) + f" {chance.randint(0, 10**6)}."
        for _ in range(n)
    ]


def _write(path: Path, rows: list[dict[str, str]], suffix: str) -> None:
    _WRITERS[suffix](path.with_name(path.name + suffix), rows)


def _lines(rows: list[dict[str, str]]) -> bytes:
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


_WRITERS = {
    ".jsonl": lambda path, rows: path.write_bytes(_lines(rows)),
    ".jsonl.gz": lambda path, rows: path.write_bytes(gzip.compress(_lines(rows), mtime=0)),
    ".jsonl.zst": lambda path, rows: path.write_bytes(zstandard.compress(_lines(rows))),
    ".parquet": lambda path, rows: pq.write_table(pa.Table.from_pylist(rows), path),
}
