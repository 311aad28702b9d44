"""The notebooks of the tutorials run, and print the lines that they show.

`unit/test_docs.py` compares them with the tutorials. `…` stands for lines that are left out.
Numbers depend on the machine and on Python's version, whose docstrings are the data, so they are
compared as numbers of any value; `CLAIMS` has those whose order a tutorial speaks of.
"""

import os
import re
import sys
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

pytestmark = pytest.mark.long

ROOT = Path(__file__).parents[2]
NOTEBOOKS = [*ROOT.glob("docs/notebooks/*.ipynb"), *ROOT.glob("papers/docs/notebooks/*.ipynb")]
CLAIMS = {
    "bert": [
        r"network\.jsonl \* +[\d,]+ +(?P<less>[\d.]+) %.* (?P<more>[\d.]+) %",
        r"task +(?P<more>[\d.]+) +(?P<less>[\d.]+)",
    ],
    "dsir": [
        r"precision (?P<less>[\d.]+) %(.|\n)*?precision (?P<more>[\d.]+) %",
        r"\ndsir +– +(?P<less>[\d.]+)(.|\n)*?\nrandom +– +(?P<more>[\d.]+)",
    ],
    "large": [r"network\.jsonl +[\d,]+ +(?P<less>[\d.]+) %.* (?P<more>[\d.]+) %"],
    "multilingual": [r"task +(?P<more>[\d.]+) +(?P<less>[\d.]+)"],
}
"""By notebook, patterns of two numbers of its output: the first match must have less < more."""


def masked(text):
    """The lines of an output, without colors, their numbers and the widths of their columns."""
    color, number = r"\x1b\[[\d;]*m", r"(\bp [<=] )?[-+±]?\d[\d,.:]*"
    found = (re.sub(number, "#", re.sub(color, "", line)) for line in text.splitlines())
    return [" ".join(line.split()) for line in found if line.strip() not in ("", "…")]


def printed(notebook):
    """The lines that each cell printed, masked; the two streams come in pieces."""
    outputs = [cell.outputs for cell in notebook.cells if cell.cell_type == "code"]
    return [
        [
            line
            for name in ("stdout", "stderr")
            for line in masked("".join(out.text for out in cell if out.get("name") == name))
        ]
        for cell in outputs
    ]


@pytest.mark.parametrize("path", sorted(NOTEBOOKS), ids=lambda path: path.stem)
def test_a_notebook_runs_and_prints_what_it_shows(path, tmp_path, monkeypatch):
    programs = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    for name, value in {"PATH": programs, "OMP_NUM_THREADS": "1", "COLUMNS": "80"}.items():
        monkeypatch.setenv(name, value)
    notebook = nbformat.read(path, 4)
    del notebook.cells[0]  # it installs the package
    shown = printed(notebook)
    assert any(shown)
    NotebookClient(notebook, resources={"metadata": {"path": tmp_path}}, timeout=None).execute()
    for found, lines in zip(printed(notebook), shown, strict=True):
        assert [line for line in lines if line not in found] == [], found
    outputs = (out for cell in notebook.cells for out in cell.get("outputs", ()))
    whole = "".join(out.text for out in outputs if out.get("name") == "stdout")
    for claim in CLAIMS.get(path.stem, ()):
        numbers = re.search(claim, re.sub(r"\x1b\[[\d;]*m", "", whole))
        assert float(numbers["less"]) < float(numbers["more"]), claim
