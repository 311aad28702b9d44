"""Products of bytes against numpy, on this processor and written out for any."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from corpusfit.kernels.dots import WIDTH, laid_out, tile_of_dots


def drawn(n, m):
    rng = np.random.default_rng(n + m)
    rows = rng.integers(0, 256, (n + 3, WIDTH)).astype(np.uint8)
    others = rng.integers(-128, 128, (m, WIDTH)).astype(np.int8)
    rows[:2], others[:3] = 255, [[127], [-128], [0]]
    return rows, others, rng.integers(-(10**8), 10**8, m).astype(np.int32)


def check(n, m, first, last, begin, end):
    rows, others, start = drawn(n, m)
    blocks = laid_out(others)
    filled = np.zeros(16 * len(blocks), np.int32)
    filled[:m] = start
    out = np.zeros((last - first + 3, end - begin + 31), np.int32)
    tile_of_dots(rows, first, last, blocks, begin, end, filled, out)
    want = rows[first:last].astype(np.int64) @ others[begin:end].T.astype(np.int64)
    assert (out[: last - first, : end - begin] == want + start[begin:end]).all()


TILES = [
    (4, 32, 0, 4, 0, 32),
    (1, 3, 0, 1, 0, 3),
    (9, 200, 0, 9, 0, 200),
    (50, 170, 7, 29, 64, 131),
    (10, 64, 2, 5, 32, 64),
]


@pytest.mark.parametrize("tile", TILES)
def test_as_numpy(tile):
    check(*tile)


@pytest.mark.slow
def test_a_processor_without_the_instruction_gets_the_same():
    program = "import test_dots\nfor tile in test_dots.TILES: test_dots.check(*tile)"
    plain = {"NUMBA_CPU_NAME": "generic", "NUMBA_CPU_FEATURES": ""}
    paths = {"PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), *sys.path])}
    command = [sys.executable, "-c", program]
    subprocess.run(command, check=True, env={**os.environ, **plain, **paths})
