"""`corpusfit demo`: select, adapt and evaluate on text that every machine has."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

from corpusfit import api, workflows
from corpusfit.api.offers import DEMO
from corpusfit.cli import options as o
from corpusfit.cli.adapt import show_adapted
from corpusfit.cli.bar import Bar
from corpusfit.cli.evaluate import show_evaluated
from corpusfit.cli.report import write_report
from corpusfit.cli.show import as_json, percent, say
from corpusfit.cli.summary import show_run
from corpusfit.demo import FAMILIES, KINDS, TARGET_FAMILY, write_demo_text

STEPS = 80
"""Steps of each training."""

SEEDS, EPOCHS, RATE = 4, 20, 1e-3
"""Settings of the fine-tunings; a tiny untrained model needs more epochs than a real one."""


@o.offers(DEMO)
def demo(
    *,
    out: Annotated[
        Path,
        o.option("FOLDER", "Folder for the demo (default: demo-out)"),
    ] = Path("demo-out"),
    words: o.Words,
    workers: o.Workers = None,
    cache: o.Cache = None,
    json: o.Json = False,
) -> None:
    """Select, adapt and evaluate on Python's docstrings (2 min).

    The corpus is the docstrings of the standard library, one file per family of modules. The task
    is to classify docstrings of the network modules as web, mail or sockets; 100 of them are the
    target. The demo selects from the corpus and prints precision and recall, which are known
    because the family of every text is known. Then it trains one tiny model on the selection and
    one on a random selection of the same size, and fine-tunes both on the task with several seeds.

    Example:
      corpusfit demo

    Writes the texts, selections, models, scores and report.html to demo-out/.
    """
    task, corpus = write_demo_text(out / "text", seed=0)
    truth = _rows(corpus / f"{TARGET_FAMILY}.jsonl")
    say(
        f"Task: {_rows(task / 'train.jsonl')} docstrings of Python's {TARGET_FAMILY} modules. "
        f"Corpus: docstrings of {len(FAMILIES)} families of modules, "
        f"{truth} of them {TARGET_FAMILY}."
    )
    again: dict[str, Any] = {
        "machine": workflows.Machine(workers=workers, cache=cache, progress=Bar()),
        "overwrite": True,
    }
    request = {"target": task / "train.jsonl", "corpus": corpus, "segments": truth, **again}
    run = api.select(out=out / "selected/selection", **words, **request)
    drawn = api.select(out=out / "chance/selection", method="random", **request)
    found = _found(run.manifest)
    if not json:
        show_run(run.path, run.manifest)
        say(
            f"Selection of {TARGET_FAMILY} docstrings: precision "
            f"{percent(found['precision'], 1)}, recall {percent(found['recall'], 1)} (chance: "
            f"{percent(found['chance'], 1)}; higher is better).\n"
        )
        say(
            "Next, one tiny untrained language model is trained on the selection and one on a "
            "random selection of the same size."
        )
    training = {"init": "tiny", "guard": task, "steps": STEPS, **again}
    adapted = api.adapt(data=run.path, out=out / "selected/model", **training)
    other = api.adapt(data=drawn.path, out=out / "chance/model", **training)
    if not json:
        show_adapted(adapted.manifest, str(adapted.path))
        say(
            f"Next, both models are fine-tuned on the task (labels: {', '.join(KINDS)}) with "
            f"{SEEDS} seeds."
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
            "A model this small seldom gains from a selection. To adapt a real model: corpusfit "
            "adapt --help. To compare selections in one table: corpusfit run --help."
        )


def _found(manifest: Mapping[str, Any]) -> dict[str, float]:
    """Precision and recall of the target's family."""
    selected = manifest["selected"]
    hits = selected["by_source"][f"{TARGET_FAMILY}.jsonl"]
    return {
        "precision": hits["selected"] / selected["segments"],
        "recall": hits["selected"] / hits["segments"],
        "chance": hits["segments"] / manifest["counts"]["segments"],
    }


def _rows(path: Path) -> int:
    return path.read_bytes().count(b"\n")
