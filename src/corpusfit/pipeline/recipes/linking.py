"""Whether what is known beforehand goes with the scores: losses on the task's text, and n-grams.

What: for each row the loss of each model on the task's training texts and the KL reduction of each
selection, as jobs that leave a file; and their correlation with the gains.
Why: if it holds here, the next adaptation need not be paid for to be judged.
Trade-off: the `task` selector has learned those texts by heart and is left out; so are adapters,
which no masked language model is opened with, and companions, which change the score alone. What
all tasks share (`random`, the domain of `oracle`) has its n-grams counted where the selection's own
target is the row's.
Reference: TADPOLE, Figures 2 and 3; Xie et al. (2023), Data Selection for Language Models via
Importance Resampling, section 4.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from corpusfit.adapt.plan import AdapterPlan, AdaptPlan, WeighPlan
from corpusfit.artifacts import write_bytes
from corpusfit.engine import Job
from corpusfit.evaluate.significance import Correlation, correlation
from corpusfit.jobs.fit import Sample
from corpusfit.manifest import RunFolder, digest
from corpusfit.pipeline.forecasting import forecast
from corpusfit.pipeline.given import TASK
from corpusfit.pipeline.recipes.cells import Cell, columns_of
from corpusfit.pipeline.recipes.judging import Judged
from corpusfit.pipeline.recipes.recipe import BASE
from corpusfit.pipeline.recipes.steps import Heard, Report, tried
from corpusfit.pipeline.recipes.work import Made, Work, without_names
from corpusfit.pipeline.run import Machine

__all__ = ["Link", "Links", "Look", "LookAt", "links_of", "looks_of"]


@dataclass(frozen=True)
class Look:
    """One model held against one task.

    Attributes:
        key: digest of both.
        plan: of an adaptation, with the model's folder.
        selections: digests of the selections; each has the task as its target.
        model: digest of the adapted model, nothing for the base.
        out: file of what was found.
    """

    key: str
    plan: AdaptPlan
    selections: tuple[str, ...]
    model: str
    out: Path


@dataclass(frozen=True)
class LookAt(Job[Look, Report]):
    """Measure a model's loss on a task's text, and count what was selected for it.

    Attributes:
        selections: the folder of all selections.
        cache: of token ids.
    """

    selections: Path
    cache: Path | str | None

    @property
    def encodes(self) -> bool:
        """A network is called."""
        return True

    def start(self) -> Callable[[Look], Report]:
        """Nothing to open: each piece has a model of its own."""
        return self._done

    def _done(self, piece: Look) -> Report:
        heard = Heard()
        machine = Machine(workers=1, cache=self.cache, progress=heard)

        def step() -> None:
            data = [str(self.selections / key) for key in piece.selections]
            found = forecast(piece.plan, data, machine=machine).prospects
            kept = {
                "loss": found[0].losses.get("task"),
                "falls": {Path(p.data).name: p.kl.falls for p in found},
            }
            write_bytes(piece.out, json.dumps(kept).encode())

        return tried(piece.key, step, heard)


def looks_of(made: Made, work: Work, failed: Mapping[str, str]) -> dict[Cell, Look]:
    """What to look at: in each row every model, on a selection that was made for the row.

    Args:
        made: what steps are made of.
        work: the steps.
        failed: by digest, why a step failed: nothing that needs it is looked at.
    """
    found: dict[Cell, Look] = {}
    for cell in work.cells:
        if cell.adapter or cell.augment or cell.selector == TASK:
            continue
        own = _own_selections(made, work, cell.row, failed)
        adapted = work.cells[cell][0].adapted
        if not own or adapted in failed:
            continue
        # the base says what all of them hold, the others need a target and a sample alone
        used = own[:1] if adapted else own
        plan = _plan(made, work, cell, adapted)
        identity = {
            "plan": without_names(plan),
            "model": adapted or made.models[cell.model],
            "selections": used,
        }
        key = digest(identity)
        found[cell] = Look(key, plan, used, adapted, made.folder.forecasts / f"{key}.json")
    return found


def _plan(made: Made, work: Work, cell: Cell, adapted: str) -> AdaptPlan:
    """How all models are measured: as the first adaptation measures itself, unweighted."""
    plan = next(iter(work.adaptations.values())).plan
    place = str(made.folder.models / adapted) if adapted else cell.model
    return dataclasses.replace(
        plan,
        model=dataclasses.replace(plan.model, name=place),
        adapter=AdapterPlan(),
        weigh=WeighPlan(),
    )


def _own_selections(
    made: Made, work: Work, row: tuple[str, int, str], failed: Mapping[str, str]
) -> tuple[str, ...]:
    """The selections of a row whose target is the row's, if one kept a sample of the pile.

    That one comes first; the others (a method that goes by labels draws none) are held against it.
    """
    target = made.folder.texts(made.tasks[row[:2]].key, "train")
    adapted = (tunings[0].adapted for c, tunings in work.cells.items() if c.row == row)
    keys = dict.fromkeys(work.adaptations[key].selection for key in adapted if key)
    own = [
        key for key in keys if key and key not in failed and work.selections[key].target == target
    ]
    sampled = [key for key in own if _sample(made.folder.selections / key).texts.exists()]
    return tuple(dict.fromkeys([*sampled, *own])) if sampled else ()


def _sample(selection: Path) -> Sample:
    """A selection's sample of the pile, which may not be there."""
    return Sample(RunFolder(selection).fit, "background")


@dataclass(frozen=True)
class Link:
    """What was known of a cell, and what came of it.

    Attributes:
        row: task, training examples (0: all) and model.
        column: its name.
        loss: on the task's training texts, in nats a token; of adapted models that of the first.
        falls: of the loss, from the base.
        kl: reduction of its selection in nats; None where that was not counted.
        mean: its score.
        gain: over the base.
    """

    row: tuple[str, int, str]
    column: str
    loss: float
    falls: float
    kl: float | None
    mean: float
    gain: float


@dataclass(frozen=True)
class Links:
    """What goes with the scores.

    Attributes:
        links: one for each adapted cell.
        loss: correlation of the fall of the loss with the gain over all links; None for fewer
            than 3.
        kl: of the KL reduction with the gain, over the links that have one.
    """

    links: list[Link]
    loss: Correlation | None
    kl: Correlation | None


def links_of(made: Made, work: Work, judged: Judged, failed: Mapping[str, str]) -> Links:
    """Hold what was looked at against the results; arguments are those of `looks_of`.

    Raises:
        MissingDependencyError: scipy is not installed.
    """
    means = {r.cell: r.mean for r in judged.results if r.mean is not None}
    looks = {cell: _read(look) for cell, look in looks_of(made, work, failed).items()}
    known = {cell: found for cell, found in looks.items() if found and cell in means}
    links = []
    for cell, name in columns_of(work.cells).items():
        base = next((c for c in known if c.row == cell.row and c.selector == BASE), None)
        if base is None or base == cell or cell not in known:
            continue
        selection = work.adaptations[work.cells[cell][0].adapted].selection
        loss, gain = known[cell]["loss"], means[cell] - means[base]
        kl = known[base]["falls"].get(selection)
        fall = known[base]["loss"] - loss
        links.append(Link(cell.row, name, loss, fall, kl, means[cell], gain))
    counted = [(link.kl, link.gain) for link in links if link.kl is not None]
    return Links(
        links,
        correlation([link.falls for link in links], [link.gain for link in links]),
        correlation([kl for kl, _ in counted], [gain for _, gain in counted]),
    )


def _read(look: Look) -> dict[str, Any] | None:
    """What a look found, if it was made and there is a loss."""
    found = json.loads(look.out.read_bytes()) if look.out.exists() else None
    return found if found and found["loss"] is not None else None
