"""`corpusfit demo`: the main job on text that every machine has."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from corpusfit import api, pipeline
from corpusfit.cli import options as o
from corpusfit.cli.adapt import show_adapted
from corpusfit.cli.evaluate import show_evaluated
from corpusfit.cli.report import write_report
from corpusfit.cli.show import Bar, as_json, percent, say
from corpusfit.cli.summary import show_run
from corpusfit.demo import FAMILIES, KINDS, TARGET_FAMILY, write_demo_text

STEPS = 80
"""Of each training."""

SEEDS, EPOCHS, RATE = 4, 20, 1e-3
"""Of the fine-tunings: a model of nothing needs more than a real one."""

EXAMPLE = """The main job in about two minutes, on text that every Python has.

The corpus is the docstrings of the standard library, one file a family of modules; the task is to
say of docstrings of its network modules whether they are of the web, of mail or of sockets. A
hundred are the target. How well the rest of that family is found can be checked, because where
every text comes from is known. A tiny model is then trained on what was selected, another on as
many texts drawn by chance, and both are fine-tuned on the task with several seeds.

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
    """Write the text, select, compare with the truth, adapt, judge."""
    task, corpus = write_demo_text(out / "text", seed=0)
    truth = _rows(corpus / f"{TARGET_FAMILY}.jsonl")
    say(
        f"Task: {_rows(task / 'train.jsonl')} docstrings of Python's {TARGET_FAMILY} modules. "
        f"Corpus: docstrings of {len(FAMILIES)} families of modules, "
        f"{truth} of them {TARGET_FAMILY}."
    )
    again: dict[str, Any] = {
        "machine": pipeline.Machine(workers=workers, cache=cache, progress=Bar()),
        "overwrite": True,
    }
    given = {"target": task / "train.jsonl", "corpus": corpus, "segments": truth, **again}
    run = api.select(out=out / "selected/selection", embedder=embedder, **given)
    drawn = api.select(out=out / "chance/selection", method="random", **given)
    found = _found(run.manifest)
    if not json:
        show_run(run.path, run.manifest)
        say(
            f"Against the truth: precision {percent(found['precision'], 1)}, recall "
            f"{percent(found['recall'], 1)}; any text would give {percent(found['chance'], 1)}.\n"
        )
        say(
            "Now a tiny language model is trained on what was selected, from nothing, and another "
            "on as many texts drawn by chance."
        )
    given = {"init": "tiny", "guard": task, "steps": STEPS, **again}
    adapted = api.adapt(data=run.path, out=out / "selected/model", **given)
    other = api.adapt(data=drawn.path, out=out / "chance/model", **given)
    if not json:
        show_adapted(adapted.manifest, str(adapted.path))
        say(
            f"Did it help? Both are fine-tuned on the task, whose labels are {', '.join(KINDS)}, "
            f"with {SEEDS} seeds."
        )
    judged = api.evaluate(
        model=adapted.path,
        base=other.path,
        task=task,
        out=out / "judged",
        seeds=SEEDS,
        epochs=EPOCHS,
        rate=RATE,
        **again,
    )
    if json:
        after = {"adapted": adapted.manifest, "judged": judged.manifest}
        as_json({"out": str(run.path), **found, **run.manifest, **after})
    else:
        show_evaluated(judged.manifest)
    write_report(out, quiet=json)
    if not json:
        say(
            "A model this small, trained from nothing, seldom gains by it. Adapt a real one: "
            "corpusfit adapt --help; or all of it as a table: corpusfit run --help."
        )


def _found(manifest: Mapping[str, Any]) -> dict[str, float]:
    """How much of the target's family was found."""
    selected = manifest["selected"]
    hits = selected["by_source"][f"{TARGET_FAMILY}.jsonl"]
    return {
        "precision": hits["selected"] / selected["segments"],
        "recall": hits["selected"] / hits["segments"],
        "chance": hits["segments"] / manifest["counts"]["segments"],
    }


def _rows(path: Path) -> int:
    return path.read_bytes().count(b"\n")
