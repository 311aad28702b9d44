"""The command `fit`: selects, adapts, measures, and says whether the selection helps.

What: every step is the public function of its own command, in a folder inside `out`.
Why: an adaptation is worth its cost only if its model is better than the base, and a selection only
if it is better than as much random text; both are measured over several trainings.
Trade-off: time decides how long and how often is trained, so the schedule that was decided is
stored, and a resumed fit keeps it; with more time, further replicates follow.
"""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from corpusfit.core.credentials import public_text
from corpusfit.core.engine.pace import format_duration
from corpusfit.core.errors import InputError
from corpusfit.core.manifest import Finished, locked, read_object, versions
from corpusfit.core.plan import DEFAULT_METHOD
from corpusfit.evaluation.plan import TaskPlan
from corpusfit.evaluation.points import POINTS
from corpusfit.fitting.folder import FitFolder
from corpusfit.fitting.outside import OutsideParts, schedule_of
from corpusfit.fitting.resolving import Request, resolve
from corpusfit.fitting.schedule import FEWEST, Costs, Schedule
from corpusfit.fitting.vectors import REPLICATES
from corpusfit.fitting.verdict import Measure, conclude
from corpusfit.fitting.work import FewerStepsError, FitParts
from corpusfit.text.context import Machine, absolute, command_words, named_model

_NAMED = 3
"""Sources of a selection that are named."""
_MUCH = 1 / 3
"""Share of the corpus from which a selection and random text are much the same."""


@dataclass(frozen=True, repr=False)
class Fitted(Finished):
    """A finished fit.

    Attributes:
        path: its folder.
        manifest: the content of `manifest.json`.
    """

    @property
    def sentence(self) -> str:
        """The verdict in words: what is shown, lost and not shown, and which model to keep."""
        parts = (self.manifest[name] for name in ("shown", "lost", "not_shown", "why", "measured"))
        return " ".join(filter(None, parts))

    @property
    def keep(self) -> str:
        """The model to use: a folder in `path`, or the base as it was named."""
        keep = str(self.manifest["keep"])
        if self.manifest["kept"] == "base":
            return keep
        return str(FitFolder(self.path).models / Path(keep).name)  # the folder may have been moved

    def rows(self) -> list[dict[str, Any]]:
        """One flat row for each measure and comparison; scores are in points."""
        rows = [
            {
                "measure": measure["name"],
                "unit": measure["unit"],
                "replicates": measure["replicates"],
                **{name: measure[name] for name in ("base", "random", "selection")},
                "compared_with": other,
                **measure[f"over_{other}"],
            }
            for measure in self.manifest["measures"]
            for other in ("random", "base")
        ] + [
            {
                "measure": f"word vectors of {gain['words']:,} words",
                "unit": POINTS,
                "replicates": REPLICATES,
                **{name: gain[name] for name in ("random", "selection")},
                "compared_with": "random",
                **gain["over_random"],
            }
            for gain in self.manifest.get("word_vectors", {}).get("gains", ())
        ]
        return [
            {
                name: 100 * value if row["unit"] == POINTS and isinstance(value, float) else value
                for name, value in row.items()
            }
            for row in rows
        ]


def fit(
    request: Request,
    out: Path,
    seconds: float,
    *,
    machine: Machine,
    overwrite: bool = False,
    fixed: tuple[Schedule, Costs, float | None] | None = None,
) -> Fitted:
    """Select, adapt on the selection and on random text, measure, and conclude."""
    # `fixed` is a schedule, its costs and a learning rate, in place of those that a time decides
    began = time.perf_counter()
    folder = FitFolder(out)
    resolved = resolve(request, folder)
    identity = resolved.identity()
    parts_of: Callable[..., FitParts] = FitParts
    if request.program is not None:
        parts_of = partial(OutsideParts, deadline=time.monotonic() + seconds)
        fixed = schedule_of(resolved), Costs(0, 0, 0, 0, 0, 0), None
    planned: tuple[Schedule, Costs, float | None] | None = fixed
    begun = folder.schedule.exists() and not (
        overwrite or folder.differs(identity, overwrite=False)
    )
    if planned is None and not begun:
        # before anything is written, as the time may be too short
        with machine.scratch() as scratch:
            parts = FitParts(resolved, FitFolder(scratch), machine)
            schedule = parts.measured(seconds)
        parts.require_time(schedule, seconds)
        planned = schedule, parts.costs, None
    with locked(folder.work, "fit", make=True):
        folder.begin(identity, overwrite=overwrite)
        parts = parts_of(resolved, folder, machine)
        # another command may have begun the fit while this one measured
        if planned is not None and (fixed is not None or not folder.schedule.exists()):
            schedule, parts.costs, parts.learning_rate = planned
            parts.store(schedule, seconds)
            parts.count("measure", time.perf_counter() - began)
        schedule = parts.scheduled(seconds)
        machine.progress.note(parts.described(schedule))
        with parts.showing():
            parts.fit_progress.plan(schedule.seconds(parts.costs))
            parts.select(schedule)
            selected = _selected_by(folder.selection)
            machine.progress.note(selected)
            if early := parts.early():
                machine.progress.note(early)
            if fixed is None:
                parts.at_most = seconds
            schedule = _replicated(parts, schedule)
            parts.by_amount()
            measures = parts.measures(schedule)
        facts = _facts(parts, schedule, measures)
        # the longest time that it was given: of a shorter one nothing is taken back
        given = max(seconds, read_object(folder.schedule)["seconds"])
        facts |= {"repeat": _repeated(request, given), "selected": selected}
        folder.finish(facts)
    return Fitted(out, facts)


def _replicated(parts: FitParts, schedule: Schedule) -> Schedule:
    """Train all replicates; returns the schedule, which in a time follows what they take."""
    seconds = parts.at_most
    progress = parts.machine.progress
    number = 0
    late = False
    while number < schedule.replicates:
        try:
            was_there = parts.replicate(schedule, number)
        except FewerStepsError as e:
            schedule = e.schedule
            parts.plan_left(schedule, number)
            continue
        number += 1
        if number in (1, FEWEST):
            progress.note(parts.so_far(number))
        if math.isinf(seconds) or was_there:
            continue
        # the time that a replicate took shows how many fit
        before = schedule
        schedule = parts.revised(schedule, seconds)
        if schedule != before:
            tuned = schedule.finetunings
            more = f", {tuned} of them with fine-tuning" if tuned else ""
            progress.note(f"By the measured times, {schedule.replicates} replicates fit{more}.")
        if (needed := schedule.seconds(parts.costs)) > seconds and not late:
            late = True
            progress.note(
                f"At this speed it takes about {format_duration(needed)}, as a verdict "
                f"needs {FEWEST} replicates."
            )
        parts.plan_left(schedule, number)
    return schedule


def _facts(parts: FitParts, schedule: Schedule, measures: Sequence[Measure]) -> dict[str, Any]:
    """What the manifest says of a fit, with the verdict of its measures."""
    task = parts.task
    plan = parts.plan
    named = {"general_text": "your general text"} if parts.request.general else {}
    verdict = conclude(task.name, measures, schedule, parts.costs, **named)
    kept = plan.model.name
    if verdict.keep != "base":
        kept = str(parts.folder.model(verdict.keep, plan.seed))
    return {
        "command": "fit",
        "objective": parts.objective,
        "versions": versions(),
        "plan": plan.as_dict(),
        "task": {
            "name": task.name,
            "kind": task.kind,
            **{split: len(getattr(task, split)) for split in ("train", "dev", "test")},
            "notes": task.notes,
        },
        "corpus": absolute(list(parts.request.corpus)),
        "schedule": dataclasses.asdict(schedule),
        "learning_rate": parts.learning_rate,
        "costs": dataclasses.asdict(parts.costs),
        "word_vectors": parts.vectors.facts() if parts.vectors is not None else {},
        "measures": [measure.as_dict() for measure in measures],
        "shown": verdict.shown,
        "lost": verdict.lost,
        "not_shown": verdict.not_shown,
        "more": verdict.more,
        "why": verdict.why,
        "measured": verdict.measured,
        "kept": verdict.keep,
        "keep": kept,
        "seconds": round(parts.spent(), 1),
        **parts.facts(),
    }


def estimate_fit(request: Request, seconds: float, *, machine: Machine) -> dict[str, Any]:
    """Measure a few steps, and say what the time would be used for."""
    resolved = resolve(request)
    if request.program is not None:
        schedule = schedule_of(resolved)
        with machine.scratch() as scratch:
            outside = OutsideParts(resolved, FitFolder(scratch), machine)
            words = outside.described(schedule).replace(str(scratch), "OUT")
        return {**dataclasses.asdict(schedule), "words": words}
    with machine.scratch() as scratch:
        parts = FitParts(resolved, FitFolder(scratch), machine)
        schedule = parts.measured(seconds)
        words = parts.described(schedule)
    needed = schedule.needed(parts.costs, parts.measuring)
    enough = schedule.fits(parts.costs, seconds - parts.measuring)
    if not enough:
        words += f"\nThis is the least; it needs a time of {format_duration(needed)}."
    return {
        **dataclasses.asdict(schedule),
        "words": words,
        "costs": dataclasses.asdict(parts.costs),
        "seconds": round(parts.measuring + schedule.seconds(parts.costs)),
        "needed_s": needed,
        "enough": enough,
    }


def _selected_by(folder: Path) -> str:
    """What a selection has, in a sentence."""
    manifest = read_object(folder / "manifest.json")
    selected = manifest["selected"]
    selected_tokens = selected["tokens"]
    if not selected_tokens:
        raise InputError(
            "The selection is empty: each text of `corpus` is longer than all text that can be "
            "trained on in the time. Give more `time`, or a larger corpus."
        )
    counts = {name: counts["tokens"] for name, counts in selected["by_source"].items()}
    sources = {name: tokens for name, tokens in counts.items() if tokens}
    most = sorted(sources, key=lambda name: (-sources[name], name))[:_NAMED]
    shares = [f"{name} {100 * sources[name] / selected_tokens:.0f} %" for name in most]
    if rest := selected_tokens - sum(sources[name] for name in most):
        shares.append(f"others {100 * rest / selected_tokens:.0f} %")
    named = f"; tokens by source: {', '.join(shares)}" if len(sources) > 1 else ""
    share = selected_tokens / max(1, selected["of_tokens"])  # copies count once
    shared = (
        f" That is {100 * share:.0f} % of the corpus without its copies, so random text is much "
        "the same text, and little can be shown. Take a larger corpus, or less `time`."
        if share > _MUCH
        else ""
    )
    return (
        f"The method {manifest['method']['name']} selected {selected['segments']:,} of "
        f"{manifest['counts']['segments']:,} segments{named}.{shared}"
    )


def _repeated(request: Request, seconds: float) -> list[str]:
    plan = request.plan
    plain = TaskPlan()
    options: dict[str, str | int] = {
        "model": named_model(plan.model.name),
        "time": f"{seconds:g}s" if math.isfinite(seconds) else "",
        "method": request.method if request.method != DEFAULT_METHOD else "",
        "corpus-field": request.corpus_field if request.corpus_field != "text" else "",
        "where": request.where,
        "keep": request.keep,
        "scores": request.scores,
        "objective": request.objective,
        "replay": f"{request.replay:g}" if request.replay else "",
        "seed": plan.seed or "",
    }
    if request.program is not None:
        options |= {"train-with": public_text(request.program.text), "seeds": request.seeds}
        options["tokens"] = request.tokens or ""
    for name in ("kind", "metric", "text_field", "label_field", "loss_on"):
        if (value := getattr(plan.task, name)) != getattr(plain, name):
            options[name.replace("_", "-")] = value
    inputs = {"task": absolute([request.task]), "corpus": absolute(list(request.corpus))}
    if request.general:
        inputs["general"] = absolute(list(request.general))
    return command_words("fit", inputs, options, [])
