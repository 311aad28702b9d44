"""`corpusfit demo`: `corpusfit fit` on text that every machine has."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import corpusfit
from corpusfit.cli.fit import show_fitted
from corpusfit.cli.options import command, write_report
from corpusfit.cli.select import show_run
from corpusfit.cli.show import as_json, percent, say
from corpusfit.core.artifacts import user_path
from corpusfit.core.keywords import Keywords
from corpusfit.core.plan import DEFAULT_METHOD, Plan
from corpusfit.demo import FAMILIES, TARGET_FAMILY, write_demo_text

if TYPE_CHECKING:
    from corpusfit.text.context import Machine

DEMO = Keywords(Plan, ("method.name", "seed"))
TOKENS = 20_000
"""Word pieces to select; more than a training reads, so that no text is read twice."""
BASE: dict[str, Any] = {
    "objective": "causal",
    "init": "tiny",
    "max_steps": 60,
    "batch": 8,
    "settings": ["model.vocabulary=2048"],
}
CONTINUED = {"max_steps": 40, "batch": 4, "length": 128, "replicates": 4}
RATE = 1e-3
SECONDS = {"select": 4, "random": 1, "step": 0.04, "around": 2, "probe": 0.5, "finetune": 0}
"""About what each part takes on a quiet machine, for its progress."""


@command(machine=("workers", "cache"), plain=True, keywords=DEMO)
def demo(
    *,
    out: str = "demo-out",
    workers: int | None = None,
    cache: str | None = None,
    json: bool = False,
    method: str = DEFAULT_METHOD,
    seed: int = 0,
) -> None:
    """Try `corpusfit fit` on Python's docstrings (1 to 4 min).

    The corpus is the docstrings of the standard library, one file per family of modules. The task's
    texts are 100 docstrings of the network modules; others are held out. The demo first trains a
    tiny base model on a random part of the corpus. Then it does what `corpusfit fit` does: it
    selects from the corpus, trains on the selection and on as many tokens of random text, with
    several seeds, and prints the difference. It also prints the precision and recall of the
    selection, because the family of every text is known.

    Without the extra train, the demo stops after the selection. report.html needs the extra report.

    Example:
      corpusfit demo

    Writes the texts, the selection, the models and fit/report.html to demo-out/.

    Options:
        --out FOLDER: Folder for the demo (default: demo-out)
    """
    from corpusfit.cli.bar import Stages  # help does without it

    os.environ.setdefault("OMP_NUM_THREADS", "1")  # a tiny model is slower on several threads
    folder = user_path(out)
    task, corpus = write_demo_text(folder / "text", seed=seed)
    say(
        f"Task: {_rows(task / 'train.jsonl')} docstrings of Python's {TARGET_FAMILY} modules, and "
        f"{_rows(task / 'test.jsonl')} held-out ones. Corpus: docstrings of {len(FAMILIES)} "
        f"families of modules, {_rows(corpus / f'{TARGET_FAMILY}.jsonl')} of them {TARGET_FAMILY}."
    )
    machine = corpusfit.Machine(
        engine="inline" if workers is None else "local",  # starting workers takes longer
        workers=workers,
        cache=cache,
        progress=Stages(),
    )
    texts = DemoTexts(task, corpus, folder, seed)
    if find_spec("accelerate") is None:
        _select(texts, method, machine, json=json)
    else:
        _fit(texts, method, machine, json=json)


@dataclass(frozen=True)
class DemoTexts:
    """What the demo reads, and where it writes."""

    task: Path
    corpus: Path
    folder: Path
    seed: int


def _select(texts: DemoTexts, method: str, machine: Machine, *, json: bool) -> None:
    """Select from the corpus, without the extra train, and print the selection."""
    run = corpusfit.select(
        target=texts.task / "train.jsonl",
        corpus=texts.corpus,
        out=texts.folder / "selection",
        method=method,
        embedder="static",
        tokens=TOKENS,
        seed=texts.seed,
        machine=machine,
        overwrite=True,
    )
    if json:
        as_json({"out": str(run.path), **_found(run.manifest), **run.manifest})
        return
    show_run(run.path, run.manifest)
    _show_found(run.manifest)
    say(
        "The gain is measured, and a report written, with two extras: "
        "pip install 'corpusfit[report,train]'"
    )


def _fit(texts: DemoTexts, method: str, machine: Machine, *, json: bool) -> None:
    """Train a base model, then do what `corpusfit fit` does, and print the difference."""
    from corpusfit.evaluation.plan import EvaluatePlan
    from corpusfit.fitting.fitting import fit
    from corpusfit.fitting.resolving import Request
    from corpusfit.fitting.schedule import Costs, Schedule

    test_file = texts.task / "test.jsonl"
    base = corpusfit.adapt(
        data=texts.corpus,
        out=texts.folder / "base",
        task=test_file,
        guard=test_file,
        seed=texts.seed,
        machine=machine,
        overwrite=True,
        **BASE,
    )
    plan = EvaluatePlan(seed=texts.seed).with_value("model.name", str(base.path))
    request = Request(plan, str(texts.task), (str(texts.corpus),), method, "text")
    schedule = Schedule(**CONTINUED, tokens=TOKENS, finetunings=0)
    fixed = schedule, Costs(**SECONDS), RATE
    fitted = fit(request, texts.folder / "fit", 60, machine=machine, overwrite=True, fixed=fixed)
    selection = corpusfit.open(fitted.path / "selection")
    if json:
        as_json({"out": str(fitted.path), **_found(selection.manifest), **fitted.manifest})
    write_report(fitted.path, quiet=json)
    if not json:
        _show_found(selection.manifest)
        show_fitted({**fitted.manifest, "more": ""})  # a demo is given no time


def _found(manifest: Mapping[str, Any]) -> dict[str, float]:
    """Precision and recall of the target's family."""
    selected = manifest["selected"]
    hits = selected["by_source"][f"{TARGET_FAMILY}.jsonl"]
    return {
        "precision": hits["selected"] / selected["segments"],
        "recall": hits["selected"] / hits["segments"],
        "chance": hits["segments"] / manifest["counts"]["segments"],
    }


def _show_found(manifest: Mapping[str, Any]) -> None:
    quality = {name: percent(share, 1) for name, share in _found(manifest).items()}
    say(
        f"Selection of {TARGET_FAMILY} docstrings: precision {quality['precision']}, recall "
        f"{quality['recall']} (chance: {quality['chance']}; higher is better).\n"
    )


def _rows(path: Path) -> int:
    return path.read_bytes().count(b"\n")
