"""Every command of the tutorials runs, and prints the lines that the page shows.

A page's blocks run in order in one folder: `bash` and `python` are run, a `text` block is what the
block before it printed, with `…` for lines that are left out. Numbers depend on the machine and on
Python's version, whose docstrings are the data, so they are compared as numbers of any value.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

PAGES = sorted((Path(__file__).parents[2] / "docs/tutorials").glob("*.md"))


def blocks(page):
    """(language, text) of the fenced blocks of a page, in order."""
    return re.findall(r"^```(\w+)\n(.*?)^```$", page.read_text("utf-8"), re.M | re.S)


def masked(text):
    """The lines of an output, without their numbers and the widths of their columns."""
    number = r"(\bp [<=] )?[-+±]?\d[\d,.:]*"
    found = (re.sub(number, "#", line) for line in text.splitlines())
    return [" ".join(line.split()) for line in found if line.strip() not in ("", "…")]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_tutorial_runs_and_prints_what_it_shows(page, tmp_path):
    environment = os.environ | {
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "OMP_NUM_THREADS": "1",
        "COLUMNS": "80",
    }
    programs = {"bash": ["bash", "-euc"], "python": [sys.executable, "-c"]}
    output, shown = "", 0
    for language, text in blocks(page):
        if language == "text":
            shown += 1
            missing = [line for line in masked(text) if line not in masked(output)]
            assert missing == [], output
            continue
        done = subprocess.run(
            [*programs[language], text], cwd=tmp_path, env=environment, check=False,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )  # fmt: skip
        output = done.stdout
        assert done.returncode == 0, output
    assert shown
