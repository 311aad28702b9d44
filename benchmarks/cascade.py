"""Recall and time of a cascade, compared with its last stage alone.

For each seed, runs the last stage alone and the cascade on the same corpus. Reports the share of
the former's selection that reached the cascade's last stage, the share that was selected, and the
cascade's estimate of its recall. The recall is exact. Times are
wall and processor seconds of whole runs, each with an empty cache, including starts and samples.

Run: .venv/bin/python benchmarks/cascade.py TASK CORPUS WORK STAGES FRACTION [SEEDS] [METHOD]
     [SETTING …]
METHOD is that of the last stage if the stage is an embedder. WORK keeps the runs; the same command
goes on where it was stopped. Results: results/cascade_NAME.json with the stages as NAME.
"""

from __future__ import annotations

import json
import os
import re
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

import corpusfit
from corpusfit import Machine
from corpusfit.core.plan import Plan
from corpusfit.selection.resolving import Resolved
from harness import RESULTS, machine


def main(
    task: str,
    corpus: str,
    work: Path,
    stages: str,
    fraction: float,
    seeds: int,
    method: str,
    more: list[str],
) -> None:
    """Measure every seed and write the result."""
    plan = Plan().with_overrides([f"cascade.stages={stages}", f"method.name={method}", *more])
    last = Resolved.of(plan).plan
    alone = {"method": last.method.name, "embedder": last.embed.embedder}
    words = {"target": task, "corpus": corpus, "fraction": fraction, "settings": more}
    runs = []
    for seed in range(seeds):
        one = timed(words | alone, work / f"alone-{seed}", seed)
        both = timed(words | {"cascade": stages, "method": method}, work / f"cascade-{seed}", seed)
        runs.append({"seed": seed, **compared(*one, *both)})
        print(json.dumps({k: v for k, v in runs[-1].items() if k != "stages"}), flush=True)
    name = re.sub(r"[^a-z0-9.]+", "_", f"cascade_{stages}_{method}".lower()).strip("_")
    result = {
        "name": name,
        "note": f"{stages} ({method}), fraction {fraction}, {' '.join(more)}; one worker",
        "runs": runs,
        "machine": machine(),
    }
    (RESULTS / f"{name}.json").write_text(json.dumps(result, indent=1) + "\n", "utf-8")


def timed(words: dict[str, Any], out: Path, seed: int) -> tuple[Any, dict[str, float]]:
    """A run, and its wall and processor seconds; those of all parts if it was stopped."""
    on = Machine(workers=1, cache=out / "cache")
    record = out / "benchmark.json"
    before = json.loads(record.read_text("utf-8")) if record.exists() else {"wall": 0, "cpu": 0}
    started, worked = time.perf_counter(), sum(os.times()[:4])
    try:
        run = corpusfit.select(**words, out=out / "run", seed=seed, machine=on)
    finally:
        spent = {"wall": time.perf_counter() - started, "cpu": sum(os.times()[:4]) - worked}
        if not before.get("whole"):
            before = {name: before[name] + spent[name] for name in spent}
            out.mkdir(parents=True, exist_ok=True)
            record.write_text(json.dumps(before), "utf-8")
    record.write_text(json.dumps(before | {"whole": True}), "utf-8")
    return run, before


def compared(
    alone: Any, alone_s: dict[str, float], cascade: Any, cascade_s: dict[str, float]
) -> dict[str, Any]:
    """Recall of the other run's selection by the cascade, and the cascade's estimate of it."""
    (wanted,) = columns(alone, "selected")
    stage, taken = columns(cascade, "stage", "selected")
    said = cascade.manifest["cascade"]
    recall = float((stage[wanted] == len(said["stages"])).mean())
    return {
        "recall": recall,
        "taken": float(taken[wanted].mean()),
        "said": said["recall"],
        "methods": [run.manifest["method"]["name"] for run in (alone, cascade)],
        "alone_s": alone_s["wall"],
        "cascade_s": cascade_s["wall"],
        "alone_cpu_s": alone_s["cpu"],
        "cascade_cpu_s": cascade_s["cpu"],
        "seconds": cascade.manifest["seconds"],
        "stages": said["stages"],
    }


def columns(run: Any, *names: str) -> list[np.ndarray]:
    """Columns of a run's scores, all parts together."""
    tables = list(run.scores())
    return [np.concatenate([t.column(n).to_numpy() for t in tables]) for n in names]


if __name__ == "__main__":
    task, corpus, work, stages, fraction, *rest = sys.argv[1:]
    seeds, method, *more = [*rest, *["1", "domain_classifier"][len(rest) :]]
    main(task, corpus, Path(work), stages, float(fraction), int(seeds), method, more)
