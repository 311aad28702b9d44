"""A short form of benchmarks/torture: hostile inputs, mistakes, and a command that is killed."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow
TORTURE = Path(__file__).parents[2] / "benchmarks/torture"
CODE = """
import json, sys
sys.path.insert(0, sys.argv[1])
import foes, kills, mistakes
from pathlib import Path
root, kills.KILLS = Path(sys.argv[2]), 1
campaigns = {"foe": foes.foe, "kill": kills.kill, "mistake": mistakes.mistake}
tried = [campaigns[c] for c, _ in json.loads(sys.argv[3])]
for run, (_, of) in zip(tried, json.loads(sys.argv[3])):
    outcome = run(0, root, of)
    print(json.dumps([of, outcome.counts, outcome.broken]))
"""
FOES = (
    *("tables", "messages", "command line", "model: auto_map", "static: a token below zero"),
    "run: files to delete above",
)
KILLS = ("split",)
MISTAKES = ("torn Parquet", "another field", "two amounts", "another command's --out")


def test_the_promises_hold(tmp_path, tiny_lm):
    shutil.copytree(tiny_lm, tmp_path / "base/model")
    asked = [*(("foe", of) for of in FOES), *(("kill", of) for of in KILLS)]
    asked += [("mistake", of) for of in MISTAKES]
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", CODE, TORTURE, tmp_path, json.dumps(asked)],
        capture_output=True,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found = [json.loads(line) for line in done.stdout.splitlines()]
    assert [(of, broken) for of, _, broken in found] == [(of, []) for _, of in asked]
    assert sum(counts.get("inputs", 0) for _, counts, _ in found) == len(FOES)
    assert sum(counts.get("mistakes", 0) for _, counts, _ in found) == len(MISTAKES)
    signals = [n for _, counts, _ in found for what, n in counts.items() if "signal" in what]
    assert sum(signals) == len(KILLS)
