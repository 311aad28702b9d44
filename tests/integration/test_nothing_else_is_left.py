"""A command leaves files in its output folder and the cache, and nowhere else."""

import os
import subprocess
import sys

import pytest
from journeys import prose

pytest.importorskip("accelerate", reason="the extra train is not installed")


@pytest.mark.slow
def test_a_training_leaves_nothing_elsewhere(tmp_path, jsonl, tiny_lm):
    folders = {name: tmp_path / name for name in ("HOME", "TMPDIR", "cwd")}
    for folder in folders.values():
        folder.mkdir()
    used = ("PATH", "SYSTEMROOT", "VIRTUAL_ENV")
    environment = {name: os.environ[name] for name in used if name in os.environ}
    environment |= {
        "HOME": str(folders["HOME"]), "TMPDIR": str(folders["TMPDIR"]), "OMP_NUM_THREADS": "1",
        "CORPUSFIT_CACHE": str(tmp_path / "cache"), "PYTHONPATH": os.pathsep.join(sys.path),
    }  # fmt: skip
    words = f"adapt --model {tiny_lm} --data {jsonl('data.jsonl', prose('task', 40))} --max-steps 2"
    more = f"--set train.length=32 --set train.batch=4 --workers 1 --out {tmp_path}/out"
    subprocess.run(
        [sys.executable, "-m", "corpusfit", *f"{words} {more}".split()],
        cwd=folders["cwd"], env=environment, check=True,
    )  # fmt: skip
    left = {name: [*folder.rglob("*")] for name, folder in folders.items()}
    assert left == {name: [] for name in folders}
    assert {path.name for path in (tmp_path / "cache").iterdir()} == {"compiled", "tokens"}
