"""`cynical` by rounds on a sample of the corpus beside rounds on all of it.

For each target: rank correlation of the scores of all segments, the share of a selection that both
have, bits a word of unseen texts of the target under a trigram model of the selection (as in
benefit.py), and processor seconds and peak memory of the command.

Run: .venv/bin/python benchmarks/cynical_sample.py DATA CORPUS WORK [--targets acl_arc,…]
     [--share 0.2] [--workers 2]
DATA has tasks/ and ner/; CORPUS is a folder of JSON lines; WORK keeps targets and scores.
"""

from __future__ import annotations

import argparse
import json
import resource
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import spearmanr

from benefit_cells import DEV, TRAIN, Work, bits, dev_apart, outside, some, store, texts_of
from corpusfit.core.types import buffers, text_array
from corpusfit.kernels.characters import table as characters
from corpusfit.kernels.kneser_ney import number_words
from corpusfit.scoring import table
from harness import RESULTS, machine
from memory import family, resident_mb

AMOUNTS = (0.001, 0.01, 0.1)


def main() -> None:
    """Measure every target, and write after each."""
    parser = argparse.ArgumentParser()
    for name in ("data", "corpus", "work"):
        parser.add_argument(name, type=Path)
    parser.add_argument("--targets", default="acl_arc,chemprot,sst2")
    parser.add_argument("--share", type=float, default=0.2)
    parser.add_argument("--workers", default="2")
    asked = parser.parse_args()
    files = sorted(asked.corpus.glob("*.jsonl"))
    documents = {path.name: texts_of(path) for path in files}
    characters_of_all = sum(len(text) for texts in documents.values() for text in texts)
    vocabulary = np.empty(0, np.uint64)
    for texts in documents.values():
        known = number_words(*buffers(text_array(texts)), characters(), False)[1]
        vocabulary = np.union1d(vocabulary, known)
    results: dict[str, Any] = {}
    for name in asked.targets.split(","):
        target, dev = texts_of_target(asked, name, documents)
        settings = {"all": "method.rounds_gb=1000"}
        settings["sample"] = f"method.rounds_gb={asked.share * characters_of_all / 1e9}"
        runs = {
            how: score(asked, target, asked.work / f"{name}-{how}", setting)
            for how, setting in settings.items()
        }
        scores = {how: read(asked.work / f"{name}-{how}") for how in runs}
        found: dict[str, Any] = {"runs": runs, "amounts": {}}
        both = scores["all"]["score"], scores["sample"]["score"]
        found["spearman"] = float(spearmanr(*both).statistic)
        for amount in AMOUNTS:
            taken = {how: first(columns, amount) for how, columns in scores.items()}
            in_both = np.intersect1d(taken["all"], taken["sample"])
            of_amount = {"overlap": len(in_both) / max(1, len(taken["all"]))}
            for how, places in taken.items():
                selected = texts_at(documents, scores[how], places)
                of_amount[f"bits_{how}"] = bits(selected, dev, len(vocabulary))
            found["amounts"][amount] = of_amount
        results[name] = found
        print(name, json.dumps(found, indent=1), flush=True)
        mb = round(characters_of_all / 1e6)
        written = {
            "name": f"cynical_sample_{mb}_{asked.share:g}",
            "share": asked.share,
            "text_mb": mb,
        }
        written |= {"targets": results, "machine": machine()}
        (RESULTS / f"{written['name']}.json").write_text(json.dumps(written, indent=1) + "\n")


def texts_of_target(
    asked: argparse.Namespace, name: str, documents: dict[str, list[str]]
) -> tuple[Path, list[str]]:
    """The file of a target's train texts, and the dev texts that the corpus does not contain."""
    folder = asked.work / "targets" / name
    if not (folder / "dev.jsonl").exists():
        work = Work(asked.data, asked.data, asked.work, 0)
        train, dev = (work.different(name, part) for part in ("train", "dev"))
        store(folder / "train.jsonl", some(train, TRAIN, 0))
        store(folder / "dev.jsonl", outside(some(dev_apart(dev, train), DEV, 0), documents))
    return folder / "train.jsonl", texts_of(folder / "dev.jsonl")


def score(asked: argparse.Namespace, target: Path, out: Path, setting: str) -> dict[str, Any]:
    """Score by a command: its seconds, the most MB of its processes and of its counts on disk."""
    shutil.rmtree(out, ignore_errors=True)
    words = [sys.executable, "-m", "corpusfit", "select", "--target", target, "--out", out]
    words += ["--corpus", asked.corpus, "--method", "cynical", "--workers", asked.workers]
    words += ["--no-report"]
    started, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
    process = subprocess.Popen([*map(str, words), "--set", setting], stdout=subprocess.DEVNULL)
    stored = resident = 0.0
    while process.poll() is None:
        time.sleep(0.5)
        resident = max(resident, sum(map(resident_mb, family(process.pid))))
        kept = (out / ".corpusfit" / "rounds").rglob("*.safetensors")
        stored = max(stored, sum(size_of(path) for path in kept))
    if process.returncode:
        raise SystemExit(process.returncode)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {
        "wall_s": round(time.perf_counter() - started, 1),
        "processor_s": round(used, 1),
        "peak_mb": round(resident),
        "stored_mb": round(stored / 1e6),
    }


def size_of(path: Path) -> int:
    """The bytes of a file, 0 if it was removed meanwhile."""
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


def read(out: Path) -> dict[str, Any]:
    """The columns of all scores, with the sources' names."""
    names = ("row", "start", "end", "tokens", "score")
    parts = [path for _, path in table.parts(out / "scores")]
    columns = [table.read_columns(path, *names) for path in parts]
    found: dict[str, Any] = {
        name: np.concatenate(values)
        for name, values in zip(names, zip(*columns, strict=True), strict=True)
    }
    sources = []
    for path in parts:
        of_part, places = table.read_sources(path)
        sources += [of_part[i] for i in places.tolist()]
    return found | {"source": sources}


def first(columns: dict[str, Any], amount: float) -> np.ndarray:
    """The places of the best segments with a share of all word pieces; ties by position."""
    order = np.argsort(-columns["score"], kind="stable")
    through = np.cumsum(columns["tokens"][order])
    return order[: np.searchsorted(through, amount * through[-1], side="right")]


def texts_at(
    documents: dict[str, list[str]], columns: dict[str, Any], places: np.ndarray
) -> list[str]:
    """The texts of some segments, in reading order."""
    return [
        documents[columns["source"][i]][columns["row"][i]][columns["start"][i] : columns["end"][i]]
        for i in np.sort(places).tolist()
    ]


if __name__ == "__main__":
    main()
