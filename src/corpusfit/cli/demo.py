"""`corpusfit demo`: the main job on text that every machine has."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from corpusfit import api
from corpusfit.cli import options as o
from corpusfit.cli.adapt import show_adapted
from corpusfit.cli.show import Bar, as_json, percent, say
from corpusfit.cli.summary import show_run
from corpusfit.demo import FAMILIES, TARGET_FAMILY, write_demo_text

__all__ = ["register"]

STEPS = 80
"""Of training: about half a minute on two cores."""

EXAMPLE = """The main job in about a minute, on text that every Python has.

The corpus is the docstrings of the standard library, one file a family of modules; the task is a
hundred docstrings of its network modules. How well the rest of that family is found can be
checked, because where every text comes from is known. A tiny model is then trained on it.

Example:

\b
  corpusfit demo"""


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("demo", help=EXAMPLE)(demo)


def demo(
    out: Annotated[Path, typer.Option("--out", help="Folder for the demo.")] = Path("demo-out"),
    embedder: o.Embedder = None,
    workers: o.Workers = None,
    cache: o.Cache = None,
    json: o.Json = False,
) -> None:
    """Write the text, select, compare with the truth, adapt."""
    task, corpus = write_demo_text(out / "text", seed=0)
    truth = _rows(corpus / f"{TARGET_FAMILY}.jsonl")
    say(
        f"Task: {_rows(task)} docstrings of Python's {TARGET_FAMILY} modules. "
        f"Corpus: docstrings of {len(FAMILIES)} families of modules, "
        f"{truth} of them {TARGET_FAMILY}."
    )
    machine = api.Machine(workers=workers, cache=cache, progress=Bar())
    run = api.select(
        target=task,
        corpus=corpus,
        out=out / "selection",
        segments=truth,
        embedder=embedder,
        machine=machine,
        overwrite=True,
    )
    selected = run.manifest["selected"]
    hits = selected["by_source"][f"{TARGET_FAMILY}.jsonl"]
    found = {
        "precision": hits["selected"] / selected["segments"],
        "recall": hits["selected"] / hits["segments"],
        "chance": hits["segments"] / run.manifest["counts"]["segments"],
    }
    if not json:
        show_run(run.path, run.manifest)
        say(
            f"Against the truth: precision {percent(found['precision'], 1)}, recall "
            f"{percent(found['recall'], 1)}; any text would give {percent(found['chance'], 1)}.\n"
        )
        say("Now a tiny language model is trained on what was selected, from nothing.")
    adapted = api.adapt(
        init="tiny",
        data=run.path,
        out=out / "model",
        steps=STEPS,
        machine=machine,
        overwrite=True,
    )
    if json:
        as_json({"out": str(run.path), **found, **run.manifest, "adapted": adapted.manifest})
    else:
        show_adapted(adapted.manifest, str(adapted.path))


def _rows(path: Path) -> int:
    return path.read_bytes().count(b"\n")
