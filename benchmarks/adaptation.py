"""Loss on a task's text after adapting on selected text (TADPOLE, Figure 3 and appendix E).

Adapts one model for equally many steps on a selection, on a random part of the corpus, on all of
it, and on all of it with each kind of weights; masked-LM loss on held-out text of the task,
before and after. A small model and a few hundred steps: a table takes an hour on two cores. Every
cell resumes.

Run: .venv/bin/python benchmarks/adaptation.py MODEL TASK PILE WORK [--seeds 3] [--steps 200]
or benchmarks/adaptation.py --written, which writes the table from adaptation.json again.
TASK has {train,dev}.jsonl.zst (text), PILE has *.jsonl.zst (text); WORK keeps resumable runs.
"""

from __future__ import annotations

import argparse
import itertools
import json
import shutil
import statistics
import sys
from pathlib import Path
from typing import Any

import corpusfit
from harness import machine, put

RESULTS = Path(__file__).parents[1] / "docs" / "results"
SHARP = ("choose.c=5.0", "choose.alpha=-1.28")
"""A lambda that gives weight to about a tenth of the corpus: alpha is its lower edge."""

CELLS = {
    "selected": ("top", "off"),
    "random part": ("random", "off"),
    "whole corpus": ("pile", "off"),
    "lambda": ("sharp", "lambda"),
    "resample": ("sharp", "resample"),
    "mask+lambda": ("top", "mask+lambda"),
    "lambda, C = 1": ("pile", "lambda"),
    "resample, C = 1": ("pile", "resample"),
}
"""By name of a cell: selection, and use of the weights."""

LAST = 6
"""Cells from here on run after all seeds of the others."""


def main() -> None:
    """Select, adapt, write; with `--written` only write what adaptation.json has."""
    if sys.argv[1:] == ["--written"]:
        write(json.loads((RESULTS / "adaptation.json").read_text("utf-8")))
        return
    asked = arguments()
    selections = selected(asked)
    found: dict[str, list[dict[str, Any]]] = {name: [] for name in CELLS}
    for names in (list(CELLS)[:LAST], list(CELLS)[LAST:]):
        for seed, name in itertools.product(range(asked.seeds), names):
            selection, weights = CELLS[name]
            cell = name.replace(" ", "_").replace(",", "").replace("=", "")
            run = corpusfit.adapt(
                model=str(asked.model),
                data=selections[selection],
                task=asked.task / "dev.jsonl.zst",
                out=asked.work / f"{cell}-{seed}",
                weights=weights,
                max_steps=asked.steps,
                seed=seed,
                settings=("train.evaluations=1",),
            )
            m = run.manifest
            kept = ("losses", "seconds", "tokens", "chunks", "effective_chunks", "fill")
            found[name].append({"seed": seed, **{k: m[k] for k in kept}})
            print(seed, name, m["losses"], f"{m['seconds']} s", flush=True)
            write(
                {
                    "model": asked.model.name,
                    "task": asked.task.name,
                    "steps": asked.steps,
                    "fraction": asked.fraction,
                    "machine": machine(),
                    "cells": found,
                }
            )


def selected(asked: argparse.Namespace) -> dict[str, Path]:
    """The selections that the cells train on; existing ones are reused."""
    given = {"target": asked.task / "train.jsonl.zst", "corpus": asked.pile}
    out = {name: asked.work / f"select-{name}" for name in ("top", "random", "pile", "sharp")}
    corpusfit.select(**given, out=out["top"], fraction=asked.fraction, embedder="static")
    corpusfit.select(**given, out=out["random"], fraction=asked.fraction, method="random")
    for name, settings in (("pile", ()), ("sharp", SHARP)):
        if not (out[name] / "manifest.json").exists():
            shutil.copytree(out["top"], out[name], dirs_exist_ok=True)
            corpusfit.choose(out[name], policy="continuous", settings=settings)
    return out


def write(facts: dict[str, Any]) -> None:
    """docs/results/adaptation.json, and a part of benefit.md."""
    found = facts["cells"]
    here = facts["machine"]
    (RESULTS / "adaptation.json").write_text(json.dumps(facts, indent=1) + "\n", "utf-8")
    lines = [
        "## Adapting on what was selected",
        "",
        f"**{conclusion(found)}**",
        "",
        f"`{facts['model']}` is trained for {facts['steps']} steps of 16 x 128 tokens, the task is "
        f"{facts['task']} (its dev texts), and {facts['fraction']:.0%} of the corpus is selected "
        "on static embeddings (`benchmarks/adaptation.py`). The table has the masked-LM loss in "
        "nats, mean ± standard deviation over seeds, and the change of the loss on general text. "
        "`selected`, `random part` and `mask+lambda` train on a tenth of the corpus, the others on "
        f"all of it, `lambda` and `resample` with {' and '.join(SHARP)} unless C = 1 is named.",
        "",
        "| trained on | seeds | task before | task after | change | general | effective chunks |",
        "|---|---|---|---|---|---|---|",
    ]
    for name, runs in found.items():
        if runs:
            lines.append(line(name, runs))
    lines += [
        "",
        f"Measured on {here['cpu']}, at commit {here['commit'][:9]}, {here['date'][:10]}.",
    ]
    put(RESULTS / "benefit.md", "\n".join(lines) + "\n")


def conclusion(found: dict[str, list[dict[str, Any]]]) -> str:
    """What lowers the loss on the task most, and what the weights change."""
    falls = {name: -statistics.fmean(map(change, runs)) for name, runs in found.items() if runs}
    best, *others = sorted(falls, key=lambda name: -falls[name])
    said = f"`{best}` lowers the loss on the task's text most ({falls[best]:.3f} nats)"
    said += (
        f", before {', '.join(f'`{o}` ({falls[o]:.3f})' for o in others[:2])}." if others else "."
    )
    if {"selected", "lambda", "resample"} <= falls.keys():
        better = "no " if max(falls["lambda"], falls["resample"]) <= falls["selected"] else ""
        said += (
            f" Weights over the whole corpus are {better}better than the selection alone "
            f"(`lambda` {falls['lambda']:.3f}, `resample` {falls['resample']:.3f}, `selected` "
            f"{falls['selected']:.3f}); TADPOLE and DANA compare them by the task's score, after "
            "50,000 steps of BERT-base."
        )
    return said


def change(run: dict[str, Any]) -> float:
    """The change of the loss on the task's text."""
    return float(run["losses"]["after"]["task"] - run["losses"]["before"]["task"])


def line(name: str, runs: list[dict[str, Any]]) -> str:
    """One row of the table."""
    before, after = ([r["losses"][w]["task"] for r in runs] for w in ("before", "after"))
    changes = [a - b for a, b in zip(after, before, strict=True)]
    forgot = [r["losses"]["after"]["general"] - r["losses"]["before"]["general"] for r in runs]
    parts = runs[0]["effective_chunks"] / runs[0]["chunks"]
    return (
        f"| {name} | {len(runs)} | {spread(before, '.3f')} | {spread(after, '.3f')} | "
        f"{spread(changes, '+.3f')} | {spread(forgot, '+.3f')} | {parts:.0%} |"
    )


def spread(values: list[float], form: str) -> str:
    """Mean ± standard deviation."""
    sd = statistics.stdev(values) if len(values) > 1 else 0.0
    return f"{statistics.fmean(values):{form}} ± {sd:.3f}"


def arguments() -> argparse.Namespace:
    """The command line's arguments."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    for name in ("model", "task", "pile", "work"):
        parser.add_argument(name, type=lambda given: Path(given).resolve())
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--fraction", type=float, default=0.1)
    return parser.parse_args()


if __name__ == "__main__":
    main()
