"""Does bits predict benefit? The loss after adaptation beside what is known before it.

For each target, method and seed: a fiftieth of the words of a third of the corpus is selected; bits
a word of unseen target text under an n-gram model of the selection, the share from the target's
domain, the bits of `corpusfit rank`, and the masked-LM loss on that text after equal steps of
adaptation. Every finished cell is stored at once; a later run, on any machine, adds what is
missing.

Run: .venv/bin/python benchmarks/benefit.py DATA MODEL WORK [--seeds 3] [--steps 200]
     [--targets acl_arc,…] [--methods random,…] [--check] [--again cynical,…]
     [--out FOLDER] [--name default] [--tables]
DATA has pile/, tasks/ and ner/; WORK keeps the inputs. --check makes the selections of cells of
earlier commits again; a later run measures the cells whose selection differs. --again forgets the
cells that some methods have from earlier commits; --tables only writes the tables again. Methods
named peer_… are other tools and papers as published (peers.py; requirements-bench.txt has their
packages).
"""

from __future__ import annotations

import argparse
import itertools
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benefit_cells import (
    DEV,
    HELDOUT,
    SHARE,
    TARGETS,
    TRAIN,
    Work,
    measure,
    selects_the_same,
    verdicts,
)
from benefit_tables import tables
from corpusfit.core.artifacts import write_bytes
from corpusfit.core.errors import CorpusfitError
from harness import machine, put
from peers import PEERS

RESULTS = Path(__file__).parents[1] / "docs" / "results"
TITLES = {"default": "In the default cut", "benefit": "In the default cut of version 0.2"}
METHODS = (
    "random,moore_lewis,cynical,domain_moore_lewis,consensus,betr,bm25,dsir,knn,tfidf,"
    "domain_classifier,peer_dsir,peer_fasttext"
)

Found = dict[str, Any]


def main() -> None:
    """Compute what is missing, and write after every cell."""
    asked = arguments()
    path = asked.out / f"{asked.name}.json"
    protocol = protocol_of(asked)
    work = Work(asked.data, asked.model, asked.work, asked.steps)
    if asked.again:
        write(path, forget(read(path, protocol), asked.again, machine()["commit"][:9]))
    if asked.check:
        check(asked, path, work)
    for what, name, method, seed in [] if asked.tables or asked.check else pieces(asked):
        found = read(path, protocol)
        if done(found, what, name, method, seed, asked.methods):
            continue
        started = time.perf_counter()
        try:
            facts = found["corpora"].get(str(seed)) or work.facts(seed)
            texts = work.target(name, seed).facts
            if what == "cell":
                key = f"{name}/{method}/{seed}"
                result = measure(work, name, method, seed, facts)
                result["commit"] = machine()["commit"][:9]
            else:
                key = f"{name}/{seed}"
                result = verdicts(work, name, asked.methods, seed)
        except CorpusfitError as e:
            print(f"{what} {name} {method} {seed}: {e}", flush=True)
            continue
        found = read(path, protocol)
        found["corpora"][str(seed)] = facts
        found["targets"][f"{name}/{seed}"] = texts
        found[f"{what}s"][key] = result
        found["machine"] = machine()
        write(path, found)
        print(f"{time.perf_counter() - started:.0f} s", what, name, method, seed, flush=True)
    write(path, read(path, protocol))


def check(asked: argparse.Namespace, path: Path, work: Work) -> None:
    """Make the selections of earlier commits again, and keep for each cell if it is the same."""
    commit = machine()["commit"][:9]
    protocol = protocol_of(asked)
    for key, cell in read(path, protocol)["cells"].items():
        name, method, seed = key.rsplit("/", 2)
        if commit in (cell["commit"], cell.get("checked")) or method not in asked.methods:
            continue
        same = selects_the_same(work, name, method, int(seed), work.facts(int(seed)), cell)
        print("the same" if same else "differs", key, flush=True)
        found = read(path, protocol)
        found["cells"][key] |= {"checked": commit, "same": same}
        write(path, found)


def pieces(asked: argparse.Namespace) -> Iterator[tuple[str, str, str, int]]:
    """What to compute, in order: (kind, target, method, seed)."""
    for seed in range(asked.seeds):
        for method, name in itertools.product(asked.methods, asked.targets):
            yield "cell", name, method, seed
        for name in asked.targets:
            yield "verdict", name, "", seed


def done(found: Found, what: str, name: str, method: str, seed: int, methods: list[str]) -> bool:
    """Whether a piece is among the results."""
    if what == "cell":
        cell = found["cells"].get(f"{name}/{method}/{seed}", {"same": False})
        return bool(cell.get("same", True))
    return set(methods) - {*PEERS} <= set(found["verdicts"].get(f"{name}/{seed}", ()))


def read(path: Path, protocol: Found) -> Found:
    """The results so far; they must be of the same protocol, as cells are compared."""
    if not path.exists():
        kinds: tuple[str, ...] = ("corpora", "targets", "verdicts", "cells")
        return {"protocol": protocol, **{kind: {} for kind in kinds}}
    found: Found = json.loads(path.read_text("utf-8"))
    if found["protocol"] != protocol:
        raise SystemExit(f"{path} is of {found['protocol']}; asked was {protocol}.")
    return found


def forget(found: Found, methods: list[str], commit: str) -> Found:
    """The results without the cells that some methods have from other commits."""
    kept = {
        key: cell
        for key, cell in found["cells"].items()
        if key.rsplit("/", 2)[1] not in methods or cell["commit"] == commit
    }
    return found | {"cells": kept}


def write(path: Path, found: Found) -> None:
    """The results as JSON, each whole, and their tables as a part of benefit.md."""
    write_bytes(path, (json.dumps(found, indent=1) + "\n").encode())
    put(path.with_name("benefit.md"), tables(found, TITLES.get(path.stem, path.stem)))


def protocol_of(asked: argparse.Namespace) -> Found:
    """What all cells of a file share."""
    sizes = {"share": SHARE, "train": TRAIN, "dev": DEV, "heldout": HELDOUT}
    training = {"model": asked.model.name, "steps": asked.steps, "batch": 16, "length": 128}
    return {**training, "rate": 3e-4, "embedder": "static", **sizes}


def arguments() -> argparse.Namespace:
    """The command line's arguments."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    for name in ("data", "model", "work"):
        parser.add_argument(name, type=lambda given: Path(given).resolve())
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--targets", type=lambda given: given.split(","), default=list(TARGETS))
    parser.add_argument("--methods", type=lambda given: given.split(","), default=METHODS)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--again", type=lambda given: given.split(","), default=[])
    parser.add_argument("--out", type=lambda given: Path(given).resolve(), default=RESULTS)
    parser.add_argument("--name", default="default", help="of the files in the output folder")
    parser.add_argument("--tables", action="store_true")
    asked = parser.parse_args()
    if wrong := set(asked.targets) - set(TARGETS):
        parser.error(f"--targets must name some of {', '.join(TARGETS)}; got {', '.join(wrong)}")
    return asked


if __name__ == "__main__":
    main()
