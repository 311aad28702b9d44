"""Measure what is known of a recipe's models before fine-tuning, and correlate it with the gain.

The loss of each adapted model on its row's training texts, and the KL reduction of its selection
(TADPOLE, Figures 2 and 3). What CELLS/forecasts has is not measured again; the rest needs the
selections and models of a finished run.

Run: .venv/bin/python papers/tables/predictors.py RECIPE RUN [CELLS]
"""

from __future__ import annotations

import dataclasses
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import corpusfit_papers
from corpusfit import Machine
from corpusfit import text as corpora
from corpusfit.contracts import AnsweredTaskType
from corpusfit.core.artifacts import write_bytes
from corpusfit.evaluation.tasks import load
from corpusfit.selection.folder import SelectionFolder
from corpusfit.training.plan import AdapterPlan, AdaptPlan, WeightsPlan
from corpusfit_papers.experiments import fingerprints
from corpusfit_papers.experiments.config import BASE
from corpusfit_papers.experiments.folder import RecipeFolder
from corpusfit_papers.experiments.graph import StepGraph, build_graph, with_found
from corpusfit_papers.experiments.grid import Cell, adapt_plan, columns_of
from corpusfit_papers.experiments.inputs import RecipeInputs, load_inputs
from corpusfit_papers.experiments.loader import read_recipe
from corpusfit_papers.experiments.rendering import Table, markdown
from corpusfit_papers.experiments.steps import Select
from corpusfit_papers.experiments.tables import row_name

sys.path.insert(1, str(Path(__file__).parents[2] / "benchmarks"))

from correlation import correlation, correlation_within

EQUAL = 0.02
"""Most nats between losses on general text that count as equal (TADPOLE, Figure 3)."""
Row = tuple[str, int, str]


@dataclass(frozen=True)
class Link:
    """Predictors and gain of one adapted cell, in the form of the kept results."""

    row: Row
    column: str
    loss: float  # of its first adapted model on the task's training texts, in nats per token
    falls: float  # loss of the base minus this loss
    kl: float | None  # KL reduction of its selection in nats
    mean: float  # mean test score, and the same minus that of the base
    gain: float
    general: float | None = None  # loss on general text


@dataclass(frozen=True)
class Predictor:
    """What is measured of one model on one task, and the digest of both."""

    key: str
    plan: AdaptPlan
    selections: tuple[str, ...]


def predictors_of(inputs: RecipeInputs, graph: StepGraph) -> dict[Cell, Predictor]:
    """The predictors of every model of a row with a base and a selection for the row's target."""
    # Left out: models trained on the row's task, which have memorized the texts; columns of another
    # model; adapters, which a masked model is not opened with; augmentations, which change only the
    # score; and tasks without fine-tuning.
    selectors = {s.name: s for s in inputs.recipe.selectors}
    entries = {t.name: t for t in inputs.recipe.tasks}
    found: dict[Cell, Predictor] = {}
    for cell in graph.cells if BASE in selectors else ():
        selector = selectors[cell.selector]
        stored = inputs.tasks[cell.row[:2]]
        memorized = selector.trains_on_task and not selector.of
        other = selector.model_for(entries[cell.task], cell.model) != cell.model
        answered = isinstance(load(stored.kind), AnsweredTaskType)
        if cell.adapter or cell.augment or memorized or other or answered:
            continue
        own = row_selections(inputs, graph, cell.row)
        if not own or not fingerprints.sampled(own[0].plan):
            continue
        # the base measures all selections; other models need only a target and a sample
        adapted = graph.cells[cell][0].adapted
        selections = tuple(step.key for step in (own[:1] if adapted else own))
        first = next(iter(graph.cells))
        plan = adapt_plan(inputs.recipe, selectors[BASE], first, entries[first.task], 0)
        name = str(inputs.folder.models / adapted) if adapted else cell.model
        model = dataclasses.replace(plan.model, name=name)
        adapter, weights = AdapterPlan(), WeightsPlan()
        plan = dataclasses.replace(plan, model=model, adapter=adapter, weights=weights)
        settings, train = plan.decisive(), plan.train
        key = fingerprints.step(
            "look",
            plan={name: settings[name] for name in ("read", "objective", "mix", "seed")},
            train=[train.length, train.device, train.precision],
            model=adapted or inputs.models[cell.model],
            selections=selections,
            texts=stored.texts,
        )
        found[cell] = Predictor(key, plan, selections)
    return found


def row_selections(inputs: RecipeInputs, graph: StepGraph, row: Row) -> list[Select]:
    """The selections whose target is the row's, those with a sample of the corpus first."""
    target = inputs.folder.texts(inputs.tasks[row[:2]].key, "train")
    adapted = (tunings[0].adapted for c, tunings in graph.cells.items() if c.row == row)
    keys = dict.fromkeys(graph.adaptations[key].selection for key in adapted if key)
    own = []
    for step in (graph.selections[key] for key in keys if key):
        if not isinstance(step, Select) or step.target != target:
            continue
        run_file = SelectionFolder(inputs.folder.selections / step.key).work / "run.json"
        if run_file.exists() and target.exists():  # one that ignores its target may have another
            before = json.loads(run_file.read_text("utf-8"))["target"].values()
            if list(before) != [corpora.fingerprint(str(target))[0]]:
                continue
        own.append(step)
    return sorted(own, key=lambda step: not fingerprints.sampled(step.plan))


def links_of(recipe: Path, out: Path, cells: Path, machine: Machine) -> tuple[Any, list[Link]]:
    """The recipe, and the predictors and gain of each adapted model; measures what is missing."""
    asked = fingerprints.on_machine(read_recipe(recipe), machine)
    inputs = with_found(load_inputs(asked, RecipeFolder(out), machine, store=True))
    graph = build_graph(inputs)
    results = json.loads((out / "table.json").read_text("utf-8"))["results"]
    names = [field.name for field in dataclasses.fields(Cell)]
    means = {Cell(*(r["cell"][n] for n in names)): r["mean"] for r in results}
    known: dict[Cell, dict[str, Any]] = {}
    for cell, predictor in predictors_of(inputs, graph).items():
        path = cells / "forecasts" / f"{predictor.key}.json"
        if means.get(cell) is None:
            continue
        if not path.exists():
            data = [str(inputs.folder.selections / key) for key in predictor.selections]
            plan = predictor.plan
            prospects = corpusfit_papers.forecast(
                data=data, model=plan.model.name, length=plan.train.length or 128, seed=plan.seed
            ).prospects
            record = {
                "loss": prospects[0].losses.get("task"),
                "general": prospects[0].losses.get("general"),
                "falls": {Path(p.data).name: p.kl.falls for p in prospects},
            }
            write_bytes(path, json.dumps(record).encode())
        measured = json.loads(path.read_bytes())
        if measured["loss"] is not None:
            known[cell] = measured
    links = []
    for cell, column in columns_of(graph.cells).items():
        base = next((c for c in known if c.row == cell.row and c.selector == BASE), None)
        if base is None or base == cell or cell not in known:
            continue
        selection = graph.adaptations[graph.cells[cell][0].adapted].selection
        loss = known[cell]["loss"]
        kl = known[base]["falls"].get(selection)
        fall, gain = known[base]["loss"] - loss, means[cell] - means[base]
        general = known[cell].get("general")
        links.append(Link(cell.row, column, loss, fall, kl, means[cell], gain, general))
    return asked, links


def correlate(links: Sequence[Link]) -> dict[str, Any]:
    """The correlations of the fall of the loss and of the KL reduction with the gain."""
    # Tasks differ in predictors and gain at once, so the correlation within tasks is the one that
    # counts; the pooled one is reported without a test.
    equal: list[Link] = []  # of each row's cells the most whose losses on general text are equal
    for row in dict.fromkeys(link.row for link in links):
        own = sorted(
            (link for link in links if link.row == row and link.general is not None),
            key=lambda link: link.general or 0.0,
        )
        losses = [(link.general or 0.0, link) for link in own]
        near = [[link for g, link in losses if low <= g <= low + EQUAL] for low, _ in losses]
        equal += max(near, key=len, default=[])
    with_kl = [link for link in links if link.kl is not None]
    loss, kl, same = (
        ([k.row for k in of], [getattr(k, name) for k in of], [k.gain for k in of])
        for of, name in ((links, "falls"), (with_kl, "kl"), (equal, "falls"))
    )
    return {
        "loss": correlation_within(*loss),
        "kl": correlation_within(*kl),
        "pooled_loss": correlation(*loss[1:]),
        "pooled_kl": correlation(*kl[1:]),
        "equal": correlation_within(*same),
    }


def table_of(recipe: Any, links: Sequence[Link]) -> Table:
    """Predictors and gain of each adapted model, with their correlations."""
    of = correlate(links)
    rows = tuple(
        (
            row_name(recipe, link.row),
            link.column,
            None if link.kl is None else f"{link.kl:+.3f}",
            f"{link.loss:.3f}",
            f"{link.falls:+.3f}",
            f"{100 * link.gain:+.2f}",
        )
        for link in links
    )
    notes = [
        "KL reduction: divergence of the task's n-grams from the corpus minus that from the "
        "selection, in nats (higher is nearer to the task), at the size of the smallest of a row's "
        "selections: the same selection has another value in a table of other columns. Loss: of "
        "the adapted model on the task's training texts, in nats per token (lower is better). Loss "
        f"reduction: loss of the base minus this loss. Gain: over {BASE}, in points (higher is "
        "better).",
        f"Loss reduction and gain: {in_words(of['loss'], of['pooled_loss'])}",
    ]
    if of["equal"] is not None:
        notes.append(
            "Loss reduction and gain of models whose losses on general text are within "
            f"{EQUAL} nats of each other (TADPOLE, Figure 3): {in_words(of['equal'], None)}"
        )
    notes.append(f"KL reduction and gain: {in_words(of['kl'], of['pooled_kl'])}")
    columns = ("dataset", "column", "KL reduction", "loss", "loss reduction", "gain")
    return Table("Predictors known before fine-tuning", columns, rows, tuple(notes))


def in_words(within: Any, pooled: Any) -> str:
    """Correlations in words."""
    text = "too few cells for a correlation within tasks, or no variation"
    if within is not None:
        rows = "rows" if within.groups > 1 else "row"
        text = (
            f"within tasks Pearson's r = {within.pearson:.2f} (p = {within.p:.3f}, "
            f"{within.n} cells in {within.groups} {rows})"
        )
    if pooled is not None:
        text += f"; over all tasks together r = {pooled.pearson:.2f}, not tested"
    return f"{text}."


def measure(
    recipe: Path, out: Path, cells: Path, machine: Machine | None = None
) -> tuple[str, dict[str, Any]]:
    """The table in Markdown, empty without predictors, and the figures."""
    asked, links = links_of(recipe, out, cells, machine or Machine())
    figures = {k: v and dataclasses.asdict(v) for k, v in correlate(links).items()}
    shown = markdown(table_of(asked, links)) if links else ""
    return shown, {"links": [dataclasses.asdict(link) for link in links], **figures}


if __name__ == "__main__":
    run = Path(sys.argv[2])
    print(measure(Path(sys.argv[1]), run, Path(sys.argv[3]) if len(sys.argv) > 3 else run)[0])
