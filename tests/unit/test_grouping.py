"""Under xdist the tests of one file run in one worker, with the project's own settings."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

SETTINGS = Path(__file__).parents[2] / "pyproject.toml"
FILE = """
import os
from pathlib import Path
import pytest

@pytest.mark.parametrize("n", range(6))
def test(n):
    Path(__file__).with_suffix(f".{os.getpid()}").touch()
"""


def test_a_file_keeps_to_one_worker(tmp_path):
    files = [tmp_path / f"test_{name}.py" for name in "abcd"]
    for file in files:
        file.write_text(FILE, "utf-8")
    subprocess.run(
        [
            *(sys.executable, "-m", "pytest", "-c", SETTINGS, "--rootdir", tmp_path),
            *("-n", "2", "-p", "no:cacheprovider", tmp_path),
        ],
        check=True,
        capture_output=True,
    )
    workers = [[p.suffix for p in tmp_path.glob(f"{file.stem}.[0-9]*")] for file in files]
    assert [len(found) for found in workers] == [1, 1, 1, 1]
    assert len({pid for found in workers for pid in found}) == 2
