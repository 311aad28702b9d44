"""The command `fit`: selects, adapts, measures, and says whether the selection helps.

What: every step is the public function of its own command, in a folder inside `out`.
Why: an adaptation is worth its cost only if its model is better than the base, and a selection only
if it is better than as much random text; both are measured over several trainings.
Trade-off: time decides how long and how often is trained, so the schedule that was decided is
stored, and a resumed fit keeps it; with more time, further replicates follow.
"""

from __future__ import annotations

import contextlib
import dataclasses
import gc
import json
import math
import shlex
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import orjson

from corpusfit.core.artifacts import remove, write_bytes
from corpusfit.core.credentials import public_text
from corpusfit.core.engine import Progress
from corpusfit.core.engine.pace import format_duration
from corpusfit.core.engine.progress import WarningCollector
from corpusfit.core.errors import (
    ChangedInputError,
    InputError,
    ModelError,
    bad_setting,
    importing,
    require_one_process,
)
from corpusfit.core.escaping import one_line
from corpusfit.core.manifest import Finished, OutFolder, digest, locked, read_object, versions
from corpusfit.core.plan import DEFAULT_FRACTION, DEFAULT_METHOD, ReadPlan, size_for
from corpusfit.embed.folders import find, require_extra
from corpusfit.embed.hardware import resolve_device
from corpusfit.evaluation.api import estimate_evaluation, evaluate
from corpusfit.evaluation.decontamination.heldout import held_out
from corpusfit.evaluation.evaluating import BASE, Evaluated
from corpusfit.evaluation.formats.conll import read_tagged_text
from corpusfit.evaluation.formats.rows import read_rows, row_of
from corpusfit.evaluation.plan import EvaluatePlan, TaskPlan, metric_of
from corpusfit.evaluation.reading import find_splits, read_task
from corpusfit.evaluation.task import NOTABLE, Task, task_digest
from corpusfit.evaluation.tasks import load
from corpusfit.fitting.program import TRAIN_WITH, Program, Text, require_model
from corpusfit.fitting.program import run as run_program
from corpusfit.fitting.schedule import (
    FEWEST,
    Costs,
    Schedule,
    first_schedule,
    with_fewer,
    with_replicates,
)
from corpusfit.fitting.verdict import POWER, Measure, conclude
from corpusfit.selection.api import estimate, select
from corpusfit.selection.result import Selection
from corpusfit.text.context import Machine, absolute, command_words, named_model
from corpusfit.text.contract import format_of
from corpusfit.text.fields import fields_in
from corpusfit.text.same_text import text_keys
from corpusfit.training import adapting
from corpusfit.training.api import ADAPT, adapt, build_plan, estimate_adaptation
from corpusfit.training.models import MODEL, fingerprint
from corpusfit.training.phases import ROSE
from corpusfit.training.plan import ALL, TASK, TSDAE
from corpusfit.training.trainer import TrainerCallback

PLAIN = "language_modeling"
_CHARACTERS_PER_TOKEN = 4.5
_BATCH = {"cpu": (16, 128), "gpu": (64, 512)}
"""Sequences per step and tokens per sequence."""
_BATCH_OF_CHATS = {"cpu": (4, 512), "gpu": (16, 2048)}
"""The same, as a conversation is never divided among sequences."""
_SEQUENCES = 256
"""Most held-out sequences of the task."""
_MEASURED = {
    "settings": [
        *("mix.heldout=64", f"mix.task_sequences={_SEQUENCES}", "train.evaluations=2"),
        "train.keep=last",  # the control is what its training gives, even a worse model
    ]
}
_ANY_TOKENS = 1e15
"""Tokens of a corpus that do not limit a schedule."""
_CHANGED = 0.1
"""Share of the test texts that two models answer differently, about, before it is known."""
_NAMED = 3
"""Sources of a selection that are named."""
_MUCH = 1 / 3
"""Share of the corpus from which a selection and random text are much the same."""
_HELD_OUT = 0.2
"""Share of plain texts that is held out where there is no test split."""
_LOWER, _TRIES = 1 / 3, 3
"""Factor of the learning rate after a training whose loss rose, and most trainings until one
falls."""


@dataclass(frozen=True)
class Request:
    """What is asked for."""

    plan: EvaluatePlan  # the model, the task and the seed
    task: str
    corpus: tuple[str, ...]
    method: str
    corpus_field: str
    where: str = ""  # the rows of the corpus to use; empty for all
    objective: str = ""  # of the training; empty for that of the model
    program: Program | None = None  # of others, which trains in place of `adapt`
    seeds: int = FEWEST  # replicates by a program
    tokens: int = 0  # to select for a program; 0 for the usual share of the corpus


class FitFolder(OutFolder):
    """The folder of a fit: one folder for each step's public function."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.texts = path / "task"
        self.selection = path / "selection"
        self.random = path / "random"
        self.models = path / "models"
        self.probe = path / "probe"
        self.score = path / "score"
        self.schedule = self.work / "schedule.json"
        self.clock = self.work / "seconds.json"
        self.data = path / "data"
        self.logs = path / "logs"
        self.trained = self.work / "trained.json"

    def model(self, name: str, seed: int | str) -> Path:
        """The model after `selection` or `random` text, by the seed of its replicate."""
        return self.models / f"{name}-{seed}"

    def begin(self, identity: Mapping[str, Any], *, overwrite: bool) -> None:
        """Begin or resume; `overwrite` replaces the run, also where only corpus files changed."""
        super().begin(identity, overwrite=overwrite)  # refuses a folder of another command
        if overwrite:
            self._clear()
            self._write_identity(identity)

    def _has_work(self) -> bool:
        return self.schedule.exists()

    def _clear(self) -> None:
        super()._clear()
        remove(self.texts, self.selection, self.random, self.models, self.probe, self.score)
        remove(self.schedule, self.clock, self.data, self.logs, self.trained)

    def _cure(self, differing: list[str]) -> str:
        if any(each.startswith("train_with") for each in differing):
            again = "Trainings by a program go on only with `train_with`, which is never stored to"
            return f"{again} be run. {super()._cure(differing)}"
        return super()._cure(differing)


@dataclass(frozen=True, repr=False)
class Fitted(Finished):
    """A finished fit.

    Attributes:
        path: its folder.
        manifest: the content of `manifest.json`.
    """

    @property
    def sentence(self) -> str:
        """The verdict in words."""
        return str(self.manifest["sentence"])

    @property
    def keep(self) -> str:
        """The model to use: a folder in `path`, or the base as it was named."""
        keep = str(self.manifest["keep"])
        if self.manifest["kept"] == "base":
            return keep
        return str(FitFolder(self.path).models / Path(keep).name)  # the folder may have been moved

    def rows(self) -> list[dict[str, Any]]:
        """One flat row for each measure and comparison."""
        return [
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
        ]

    def to_pandas(self) -> Any:
        """The rows as a `pandas.DataFrame`."""
        with importing("to_pandas", "hub", "Or pandas alone: pip install pandas"):
            import pandas as pd
        return pd.DataFrame(self.rows())


class _Whole:
    """One bar for a fit: the share of the time that has passed, by the work that is left."""

    def __init__(self, shown: Progress) -> None:
        self.shown = shown
        self.left = 1.0  # planned seconds of what is not done, with all of the present part
        self._began = time.monotonic()
        self._done, self._skipped = 0.0, 0.0  # shares that are shown

    def plan(self, seconds: float) -> None:
        """Set the seconds of what is still to do."""
        self.left = max(seconds, 1.0)

    def move(self, left: float) -> None:
        """Show so many seconds as left; bars keep the largest share if that is more than before."""
        took = time.monotonic() - self._began
        share = (1 - self._skipped) * took / (took + max(left, 1.0))
        self.shown.advance(share - self._done)
        self._done = share

    def end(self, seconds: float, *, skipped: bool) -> None:
        """Count a part as done, by now or by an earlier command."""
        if skipped:
            share = (1 - self._skipped - self._done) * min(1.0, seconds / self.left)
            self._skipped += share
            self.shown.skip(share)
        self.plan(self.left - seconds)


class _Part(Progress):
    """The progress of one part, as a share of the whole.

    Only the longest stages of each command count, each for its share of the part.
    """

    _STAGES = ("adapt", "probe", "fine-tune", "score", "measure")
    _ENOUGH = 0.2
    """Share of a part from which the time that it still takes follows from its own speed alone."""

    def __init__(
        self, whole: _Whole, expected: float, said: set[str], shares: tuple[float, ...] = (1.0,)
    ) -> None:
        self._whole, self._expected, self._said = whole, expected, said
        self._shares = shares
        self.begin_again()

    def begin_again(self) -> None:
        """Count what was done of the part as still to do."""
        self._began = time.monotonic()
        self._coming = list(self._shares)
        self._total, self._share, self._done = 0.0, 0.0, 0.0

    def begin(self, stage: str, total: float, unit: str = "units") -> None:
        self._total = total if stage in self._STAGES and self._coming else 0.0
        if self._total:
            self._share = self._coming.pop(0)

    def advance(self, done: float, units: int = 0) -> None:
        if self._total:
            self._done = min(1.0, self._done + self._share * done / self._total)
        took, part = time.monotonic() - self._began, max(self._done, 1e-9)
        planned = max(self._expected - took, took / 10)
        trust = min(1.0, part / self._ENOUGH) ** 2
        left = (1 - trust) * planned + trust * took * (1 - part) / part
        self._whole.move(self._whole.left - self._expected + left)

    def complete(self, *, was_there: bool) -> None:
        """Count the part as done, by now or by an earlier command."""
        self._whole.end(self._expected, skipped=was_there and not self._done)

    def warn(self, message: str) -> None:
        if message.startswith(ROSE):
            return  # the table has every loss, and the rate is ours to lower
        if message not in self._said:  # every replicate would say the same
            self._said.add(message)
            self._whole.shown.warn(message)


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
    require_extra("Fitting a model", "train")
    require_one_process("fit")
    began = time.perf_counter()
    task, plan = _read(request)
    identity = _identity(request, task)
    folder = FitFolder(out)
    folder.claim()
    work_of: Callable[..., _Work] = _Work
    if request.program is not None:
        deadline = time.monotonic() + seconds
        work_of = partial(_OutsideWork, program=request.program, deadline=deadline)
        fixed = _outside_schedule(request, plan, task), Costs(0, 0, 0, 0, 0, 0), None
    planned: tuple[Schedule, Costs, float | None] | None = fixed
    begun = folder.schedule.exists() and not (
        overwrite or folder.differs(identity, overwrite=False)
    )
    if planned is None and not begun:
        # before anything is written, as the time may be too short
        with machine.scratch() as scratch:
            work = _Work(request, plan, task, FitFolder(scratch), machine)
            schedule = work.measured(seconds)
        work.require_time(schedule, seconds)
        planned = schedule, work.costs, None
    with locked(folder.work, "fit", make=True):
        folder.begin(identity, overwrite=overwrite)
        work = work_of(request, plan, task, folder, machine)
        # another command may have begun the fit while this one measured
        if planned is not None and (fixed is not None or not folder.schedule.exists()):
            schedule, work.costs, work.learning_rate = planned
            work.store(schedule, seconds, decided=fixed is not None)
            work.count("measure", time.perf_counter() - began)
        schedule, decided = work.scheduled(seconds)
        progress = machine.progress
        progress.note(work.described(schedule))
        with work.showing():
            work.whole.plan(schedule.seconds(work.costs))
            work.select(schedule)
            if fixed is None and not decided:
                schedule = work.shortened(schedule)
                work.whole.plan(schedule.seconds(work.costs) - work.costs.select)
            selected = _selected_by(folder.selection)
            progress.note(selected)
            number, late = 0, False
            while number < schedule.replicates:
                was_there = work.replicate(schedule, number)
                number += 1
                if fixed is not None or (was_there and decided):
                    continue
                # what it took shows how many fit; after the first there may also be more
                before, schedule = schedule, work.revised(schedule, seconds)
                decided = True
                if schedule != before:
                    tuned = schedule.finetunings
                    more = f", {tuned} of them with fine-tuning" if tuned else ""
                    progress.note(f"By what these took: {schedule.replicates} replicates{more}.")
                if (needed := schedule.seconds(work.costs)) > seconds and not late:
                    late = True
                    progress.note(
                        f"At this speed it takes about {format_duration(needed)}, as a verdict "
                        f"needs {FEWEST} replicates."
                    )
                trained = work.costs.replicate(schedule.max_steps) - 2 * work.costs.probe
                work.whole.plan(needed - work.costs.select - number * trained)
            measures = work.measures(schedule)
        verdict = conclude(task.name, measures, schedule, work.costs)
        kept = {
            "selection": str(folder.model("selection", plan.seed)),
            "random": str(folder.model("random", plan.seed)),
            "base": plan.model.name,
        }
        facts = {
            "command": "fit",
            "repeat": _repeated(request, seconds),
            "objective": work.objective,
            "versions": versions(),
            "plan": plan.as_dict(),
            "task": {
                "name": task.name,
                "kind": task.kind,
                **{split: len(getattr(task, split)) for split in ("train", "dev", "test")},
                "notes": task.notes,
            },
            "corpus": absolute(list(request.corpus)),
            "selected": selected,
            "schedule": dataclasses.asdict(schedule),
            "learning_rate": work.learning_rate,
            "costs": dataclasses.asdict(work.costs),
            "measures": [measure.as_dict() for measure in measures],
            "sentence": verdict.sentence,
            "sentences": verdict.sentences,
            "more": verdict.more,
            "kept": verdict.keep,
            "keep": kept[verdict.keep],
            "seconds": round(work.spent(), 1),
            **work.facts(),
        }
        folder.finish(facts)
    return Fitted(out, facts)


def estimate_fit(request: Request, seconds: float, *, machine: Machine) -> dict[str, Any]:
    """Measure a few steps, and say what the time would be used for."""
    require_extra("Fitting a model", "train")
    task, plan = _read(request)
    if request.program is not None:
        schedule = _outside_schedule(request, plan, task)
        with machine.scratch() as scratch:
            outside = _OutsideWork(
                request, plan, task, FitFolder(scratch), machine, program=request.program
            )
            words = outside.described(schedule).replace(str(scratch), "OUT")
        return {**dataclasses.asdict(schedule), "words": words}
    with machine.scratch() as scratch:
        work = _Work(request, plan, task, FitFolder(scratch), machine)
        schedule = work.measured(seconds)
        words = work.described(schedule)
    needed = schedule.needed(work.costs, work.measuring)
    if not schedule.fits(work.costs, seconds - work.measuring):
        words += f"\nThis is the least; it needs a time of {format_duration(needed)}."
    return {
        **dataclasses.asdict(schedule),
        "words": words,
        "costs": dataclasses.asdict(work.costs),
        "seconds": round(work.measuring + schedule.seconds(work.costs)),
        "needed_s": needed,
    }


def _read(request: Request) -> tuple[Task, EvaluatePlan]:
    """The task, and the plan with its kind: rows without any label are plain text."""
    plan, place = request.plan, request.task
    if plan.task.kind == "auto":
        files = find_splits(place, "auto")
        train = files.places.get("train", [])
        named = plan.task.label_field != TaskPlan().label_field  # then it must be there
        every = [path for paths in files.places.values() for path in paths]
        if files.form == "rows" and not named and not read_rows(every, plan.task, "").values():
            plan = plan.with_value("task.kind", PLAIN)
        elif files.form == "conll" and all(map(format_of, train)):  # a .txt file may be both
            plain = read_tagged_text(train, "train") is None
            if plain:
                plan = plan.with_value("task.kind", PLAIN)
        if plan.task.kind == PLAIN and list(files.places) == ["train"] and len(train) == 1:
            (place,) = train  # plain texts without splits are divided here
    task = read_task(place, plan.task, seed=plan.seed)
    task_type = load(task.kind)
    if task_type.parallel or (task_type.group and task.kind != PLAIN):
        cure = "For example `task.kind=classification`."
        allowed = "a task that a model is fine-tuned for, or plain text"
        raise bad_setting("`task.kind`", allowed, task.kind, cure)
    return task, plan.with_value("task.kind", task.kind)


def _write_texts(task: Task, folder: Path, plan: EvaluatePlan, field: str) -> tuple[Path, Path]:
    """Write the texts to select by, and those that are held out; returns both files."""
    target = task.train.texts()
    held = [*task.dev.texts(), *task.test.texts()]
    if not target:  # plain text without splits
        order = np.random.default_rng(plan.seed).permutation(len(held)).tolist()
        most = max(1, round(_HELD_OUT * len(held)))
        target, held = [held[i] for i in order[most:]], [held[i] for i in order[:most]]
    # splits often share texts; one that is held out is not selected by
    keys = set(text_keys(held).tolist())
    target = [t for t, k in zip(target, text_keys(target).tolist(), strict=True) if k not in keys]
    if not target:
        raise InputError(
            "`task` must have texts to select by that are not the same as held-out ones. Add "
            "texts, or remove copies with `corpusfit split`."
        )
    paths = folder / "target.jsonl", folder / "heldout.jsonl"
    for path, texts in zip(paths, (target, held), strict=True):
        rows = [row_of(text, plan.task, field) for text in texts]
        write_bytes(path, b"".join(orjson.dumps(row) + b"\n" for row in rows))
    return paths


def _selected_by(folder: Path) -> str:
    """What a selection has, in a sentence."""
    manifest = read_object(folder / "manifest.json")
    selected = manifest["selected"]
    whole = selected["tokens"]
    if not whole:
        raise InputError(
            "The selection is empty: each text of `corpus` is longer than all that is trained on. "
            "Give more `time`, or a larger corpus."
        )
    counts = {name: counts["tokens"] for name, counts in selected["by_source"].items()}
    sources = {name: tokens for name, tokens in counts.items() if tokens}
    most = sorted(sources, key=lambda name: (-sources[name], name))[:_NAMED]
    shares = [f"{name} {100 * sources[name] / whole:.0f} %" for name in most]
    if rest := whole - sum(sources[name] for name in most):
        shares.append(f"others {100 * rest / whole:.0f} %")
    named = f"; tokens by source: {', '.join(shares)}" if len(sources) > 1 else ""
    share = whole / max(1, selected["of_tokens"])  # copies count once
    shared = (
        f" That is {100 * share:.0f} % of the corpus without its copies, so random text is much "
        "the same text, and little can be shown. Take a larger corpus, or less `time`."
        if share > _MUCH
        else ""
    )
    return (
        f"The method {manifest['method']['name']} selected {selected['segments']:,} of "
        f"{manifest['counts']['segments']:,} texts{named}.{shared}"
    )


def _identity(request: Request, task: Task) -> dict[str, Any]:
    """What must be equal to resume; each step's own folder refuses other texts of the corpus."""
    settings = request.plan.as_dict()
    return {
        "command": "fit",
        "task": {task.name: task_digest(task)},
        "settings": {"task": settings["task"], "seed": settings["seed"]},
        "base": fingerprint(find(request.plan.model.name, setting=MODEL)),
        "corpus": dict.fromkeys(absolute(list(request.corpus)), ""),
        "method": request.method,
        "corpus_field": request.corpus_field,
        "where": request.where,
        "objective": request.objective,
        **({"train_with": "a program", "tokens": request.tokens} if request.program else {}),
        "versions": {"corpusfit": versions()["corpusfit"]},
    }


def _repeated(request: Request, seconds: float) -> list[str]:
    plan, plain = request.plan, TaskPlan()
    options: dict[str, str | int] = {
        "model": named_model(plan.model.name),
        "time": f"{seconds:g}s" if math.isfinite(seconds) else "",
        "method": request.method if request.method != DEFAULT_METHOD else "",
        "corpus-field": request.corpus_field if request.corpus_field != "text" else "",
        "where": request.where,
        "objective": request.objective,
        "seed": plan.seed or "",
    }
    if request.program is not None:
        options |= {"train-with": public_text(request.program.text), "seeds": request.seeds}
        options["tokens"] = request.tokens or ""
    for name in ("kind", "metric", "text_field", "label_field", "loss_on"):
        if (value := getattr(plan.task, name)) != getattr(plain, name):
            options[name.replace("_", "-")] = value
    inputs = {"task": absolute([request.task]), "corpus": absolute(list(request.corpus))}
    return command_words("fit", inputs, options, [])


def _objective(model: Path) -> str:
    """The objective that a model was trained with, by its folder."""
    if any((model / name).exists() for name in ("modules.json", "1_Pooling")):
        return "tsdae"  # of sentence-transformers
    names = read_object(model / "config.json").get("architectures") or ()
    causal = any(n.endswith(("CausalLM", "LMHeadModel")) and "With" not in n for n in names)
    return "causal" if causal else "mlm"


class _Work:
    """The parts of a fit; each is done once, and its seconds are stored."""

    def __init__(
        self,
        request: Request,
        plan: EvaluatePlan,
        task: Task,
        folder: FitFolder,
        machine: Machine,
    ) -> None:
        self.request, self.plan, self.task, self.folder = request, plan, task, folder
        self.chats = bool(plan.task.loss_on)
        self.target, self.heldout = _write_texts(task, folder.texts, plan, request.corpus_field)
        self.machine, self.whole = machine, _Whole(machine.progress)
        self.type = load(task.kind)
        self.objective = request.objective or _objective(find(plan.model.name, setting=MODEL))
        self.learning_rate: float | None = None
        self.costs = self._planned = Costs(0, 0, 0, 0, 0, 0)
        self.measuring = 0.0  # seconds in which the costs were measured
        self._said: set[str] = set()
        self._seconds = read_object(folder.clock) if folder.clock.exists() else {}

    @property
    def _training(self) -> dict[str, Any]:
        return {
            "model": self.plan.model.name,
            "objective": self.objective,
            "task": self.heldout,
            "guard": self.heldout,
            "learning_rate": self.learning_rate,
            "text_field": self.request.corpus_field,
            "loss_on": self.plan.task.loss_on or ALL,
            **_MEASURED,
        }

    @property
    def _reading(self) -> dict[str, Any]:
        """Arguments of every selection: what is read, and that chats stay whole."""
        fields = dict.fromkeys(("text_field", "target_field"), self.request.corpus_field)
        fields["where"] = self.request.where
        return {**fields, "unit": "document"} if self.chats else fields

    @property
    def _evaluation(self) -> dict[str, Any]:
        """Arguments of every evaluation: the task as it was read, or the held-out plain texts."""
        plain = self.task.kind == PLAIN
        where = str(self.heldout) if plain else self.request.task
        overrides = (self._plain if plain else self.plan).overrides()
        settings = [o for o in overrides if o.startswith("task.")]
        return {"task": where, "settings": settings, "seed": self.plan.seed}

    @property
    def _plain(self) -> EvaluatePlan:
        """The plan to measure the held-out plain texts or conversations by."""
        plan = self.plan if self.chats else EvaluatePlan().with_value("task.kind", PLAIN)
        return plan.with_value("task.text_field", self.request.corpus_field)

    @property
    def _answers(self) -> bool:
        """Whether models are fine-tuned, or answer as they are, for a score of their own."""
        return self.task.kind != PLAIN or self.objective == "causal"

    def scheduled(self, seconds: float) -> tuple[Schedule, bool]:
        """The stored schedule, with what more time adds, and whether its replicates are decided."""
        stored = read_object(self.folder.schedule)
        self.costs = self._planned = Costs(**stored["costs"])
        self.learning_rate = stored["learning_rate"]
        schedule = Schedule(**stored["schedule"])
        if stored["decided"] and seconds > stored["seconds"]:
            return self.revised(schedule, seconds, more=True), True
        return schedule, stored["decided"]

    def measured(self, seconds: float) -> Schedule:
        """A schedule by measured costs."""
        began = time.perf_counter()
        sizes = _BATCH_OF_CHATS if self.chats else _BATCH
        batch, length = size_for(resolve_device("auto", "train"), sizes)
        progress = self.machine.progress
        quiet = dataclasses.replace(
            self.machine, progress=_Part(_Whole(Progress()), 0.0, self._said)
        )
        with progress.showing("measure times", 3):
            projected = estimate(
                str(self.target),
                list(self.request.corpus),
                method=self.request.method,
                machine=quiet,
                **self._reading,
            )
            progress.advance(1)
            training = estimate_adaptation(
                data=list(self.request.corpus),
                batch=batch,
                length=length,
                machine=quiet,
                **self._training,
            )
            progress.advance(1)
            probe, finetune = 0.0, 0.0
            if self.type.probes:
                probe = self._evaluation_seconds(quiet, frozen=True)
            if self._answers and self.type.learns:
                finetune = self._evaluation_seconds(quiet)
            elif self._answers:
                probe = self._evaluation_seconds(quiet)
            progress.advance(1)
        step = training["step_s"]
        self.costs = Costs(
            select=projected["seconds"],
            random=projected["seconds"] / 3,
            step=step,
            around=training["around_s"],
            probe=probe,
            finetune=finetune,
        )
        tokens = 1e6 * projected["text_mb"] / _CHARACTERS_PER_TOKEN
        length = training["length"]
        self.measuring = time.perf_counter() - began
        left = max(1.0, seconds - self.measuring)
        return first_schedule(self.costs, left, tokens, batch=batch, length=length)

    def require_time(self, schedule: Schedule, seconds: float) -> None:
        """Raise an error if a schedule, then the shortest one, does not fit in the time."""
        if not schedule.fits(self.costs, seconds - self.measuring):
            needed = schedule.needed(self.costs, self.measuring)
            parts = [("measure these times", self.measuring), *schedule.parts(self.costs)]
            listed = ", ".join(f"{words} ({format_duration(s)})" for words, s in parts)
            longest = max(parts, key=lambda part: part[1])[0]
            less = "a part of the corpus" if longest.startswith("select") else "a smaller model"
            raise bad_setting(
                "`time`",
                f"at least {format_duration(needed)} for this task, corpus and model: {listed}",
                format_duration(seconds),
                f"Or name {less}. Times are measured: beside other programs they are longer.",
            )

    def _evaluation_seconds(self, machine: Machine, **options: Any) -> float:
        """Seconds of one evaluation, of several that run beside each other."""
        model = self.plan.model.name
        facts = estimate_evaluation(
            model=model, base=model, seeds=1, machine=machine, **options, **self._evaluation
        )
        return float(facts["seconds"]) / 2

    def shortened(self, schedule: Schedule) -> Schedule:
        """The schedule by what selecting took, before a training decides on its steps."""
        self.costs = dataclasses.replace(self.costs, select=self._seconds["select"])
        seconds = read_object(self.folder.schedule)["seconds"]
        left = max(1.0, seconds - self._seconds.get("measure", 0.0))
        shape = {"batch": schedule.batch, "length": schedule.length}
        now = first_schedule(self.costs, left, _ANY_TOKENS, **shape)
        if now.max_steps < schedule.max_steps:
            schedule = dataclasses.replace(now, tokens=schedule.tokens)
            self.store(schedule, seconds, decided=False)
        return schedule

    def revised(self, schedule: Schedule, seconds: float, *, more: bool = False) -> Schedule:
        """The schedule by what the replicates took; once decided it grows only with `more` time."""
        took = {n: s for n, s in self._seconds.items() if n.startswith("adapt-")}
        drawn = [s for name, s in self._seconds.items() if name.startswith("random-")]
        # the first may have been repeated at another rate, which takes its time from the others
        lost = 0.0
        if self.learning_rate:
            lost = took["adapt-selection-0"] - min(took.values())
            took["adapt-selection-0"] -= lost
        usual, planned = float(np.mean(list(took.values()))), self._planned
        # what is not yet measured is as much slower, beside other programs
        slower = max(1.0, usual / (planned.around + schedule.max_steps * planned.step))
        tuned = {n.split("-")[1]: s for n, s in self._seconds.items() if n.startswith("tuned-")}
        finetune = slower * planned.finetune
        self.costs = dataclasses.replace(
            self.costs,
            probe=slower * planned.probe,
            finetune=max((s / (3 * int(n)) for n, s in tuned.items()), default=finetune),
            select=self._seconds["select"] + lost,
            random=float(np.mean(drawn)),
            around=max(1.0, usual - schedule.max_steps * self.costs.step),
        )
        stored = read_object(self.folder.schedule)
        seconds = max(seconds, stored["seconds"])
        left = seconds - self._seconds.get("measure", 0.0)
        done = sum(name.startswith("adapt-random-") for name in self._seconds)
        if not stored["decided"]:
            least = dataclasses.replace(schedule, replicates=max(FEWEST, done), finetunings=0)
            schedule = with_replicates(least, self.costs, left)
        elif more:
            schedule = with_replicates(schedule, self.costs, left)
        else:
            schedule = with_fewer(schedule, self.costs, left, done, max(map(int, tuned), default=0))
        self.store(schedule, seconds, decided=True)
        return schedule

    def store(self, schedule: Schedule, seconds: float, *, decided: bool) -> None:
        """Store the schedule, so that a resumed fit keeps it."""
        stored = {
            "seconds": seconds,
            "schedule": dataclasses.asdict(schedule),
            "costs": dataclasses.asdict(self.costs),
            "learning_rate": self.learning_rate,
            "decided": decided,
        }
        write_bytes(self.folder.schedule, json.dumps(stored).encode())

    def described(self, schedule: Schedule) -> str:
        """What is read and done, in a few lines."""
        task = self.task
        lines = [
            f"Task {task.name} ({task.kind.replace('_', ' ')}): {len(task.train):,} training, "
            f"{len(task.dev):,} dev and {len(task.test):,} test examples. No dev or test text is "
            "used to select or to adapt.",
        ]
        if task.kind == "classification":
            metric = metric_of(self.plan.task, task.kind)
            examples: float = len(task.test)
            if metric == "macro_f1":  # each class counts the same, as a mean over its own texts
                counts = np.unique(task.test.flat, return_counts=True)[1]
                examples = len(counts) ** 2 / float(np.sum(1 / counts))
            least = POWER * math.sqrt(_CHANGED / examples)
            lines.append(
                f"With {len(task.test):,} test texts a gain in {metric.replace('_', ' ')} below "
                f"about {100 * least:.1f} points mostly remains unseen (if one answer in ten "
                "changes)."
            )
        known = set(text_keys(task.train.texts()).tolist())
        copies = sum(key in known for key in text_keys(task.test.texts()).tolist())
        if copies and copies >= NOTABLE * len(task.test):
            lines.append(
                f"{copies:,} of the test texts are training texts, too, so scores are too high: "
                "`corpusfit split --near` makes a task without such copies."
            )
        if self.request.plan.task.kind == "auto" and task.kind == PLAIN:
            lines.append("Nothing in it has a label, so the loss on held-out texts is compared.")
        return "\n".join([*lines, *self._planned_work(schedule)])

    def _planned_work(self, schedule: Schedule) -> list[str]:
        """What is done, a part on a line, with its time."""
        lines = []
        parts = schedule.parts(self.costs)
        if (measuring := self._seconds.get("measure", self.measuring)) >= 1:
            parts.insert(0, ("measure these times", measuring))
        width = max(len(words) for words, _ in parts)
        lines += [f"  {words:{width}}  {format_duration(s):>8}" for words, s in parts]
        lines.append(f"  {'all':{width}}  {format_duration(sum(s for _, s in parts)):>8}")
        left_out = [f"{2 * FEWEST} replicates"] if schedule.replicates < 2 * FEWEST else []
        left_out += ["fine-tuning"] if self.costs.finetune and not schedule.finetunings else []
        if left_out:
            lines.append(f"The time is too short for {' and '.join(left_out)}.")
        if schedule.replicates == FEWEST:
            lines.append(
                f"A verdict needs {FEWEST} replicates: on a machine that becomes slower they take "
                "longer."
            )
        return lines

    def spent(self) -> float:
        """Seconds of all parts so far."""
        return float(sum(self._seconds.values()))

    @contextlib.contextmanager
    def _part(
        self, name: str, expected: float, shares: tuple[float, ...] = (1.0,)
    ) -> Iterator[Machine]:
        """One part: its machine shows progress within the whole, and its seconds are stored.

        Args:
            name: of the part.
            expected: its seconds.
            shares: of its stages.
        """
        part = _Part(self.whole, expected, self._said, shares)
        began = time.perf_counter()
        yield dataclasses.replace(self.machine, progress=part)
        part.complete(was_there=name in self._seconds)
        # a part that was there when it was asked for keeps the seconds of its first time
        self.count(name, time.perf_counter() - began)

    @contextlib.contextmanager
    def showing(self) -> Iterator[None]:
        """Show one bar for all parts."""
        with self.machine.progress.showing("select, adapt and measure", 1.0):
            yield

    def facts(self) -> dict[str, Any]:
        """More for the manifest."""
        return {}

    def count(self, name: str, seconds: float) -> None:
        """Store the seconds of a part, the first time."""
        self._seconds.setdefault(name, round(seconds, 3))
        write_bytes(self.folder.clock, json.dumps(self._seconds).encode())

    def _select(
        self, out: Path, method: str, seed: int, tokens: int | None, machine: Machine
    ) -> None:
        select(
            str(self.target),
            list(self.request.corpus),
            out=out,
            method=method,
            tokens=tokens,
            seed=seed,
            machine=machine,
            **self._reading,
        )

    def select(self, schedule: Schedule) -> None:
        """Select by the target's texts."""
        with self._part("select", self.costs.select) as machine:
            self._select(
                self.folder.selection,
                self.request.method,
                self.plan.seed,
                schedule.tokens or None,
                machine,
            )

    def _draw(self, number: int, tokens: int) -> Path:
        """Draw the random text of a replicate; returns its folder."""
        drawn = self.folder.random / str(self.plan.seed + number)
        # other text than `--method random` and fits with other seeds draw
        chance = int(digest(["random text", self.plan.seed, number])[:7], 16)
        with self._part(f"random-{number}", self.costs.random) as machine:
            self._select(drawn, "random", chance, tokens, machine)
        return drawn

    def replicate(self, schedule: Schedule, number: int) -> bool:
        """Draw random text, train on it and on the selection; returns whether both were there."""
        seed = self.plan.seed + number
        drawn = self._draw(number, schedule.tokens)
        for name, data in (("selection", self.folder.selection), ("random", drawn)):
            expected = self.costs.around + schedule.max_steps * self.costs.step
            with self._part(f"adapt-{name}-{number}", expected) as machine:
                again = number == 0 and name == "selection"
                done = f"adapt-{name}-{number}" in self._seconds
                out = self.folder.model(name, seed)
                if not done or not (out / "manifest.json").exists():
                    self._train(schedule, out, data, seed, machine, again=again and not done)
        return done

    def _train(
        self,
        schedule: Schedule,
        out: Path,
        data: Path,
        seed: int,
        machine: Machine,
        *,
        again: bool,
    ) -> None:
        """Train a model; perhaps again at lower rates while its loss on the task rises."""
        for attempt in range(_TRIES):
            model = adapt(
                data=str(data),
                out=out,
                max_steps=schedule.max_steps,
                batch=schedule.batch,
                length=schedule.length,
                seed=seed,
                machine=machine,
                **self._training,
            )
            losses = model.manifest["losses"]
            fell = losses["after"]["task"] <= losses["before"]["task"]
            if fell or not again or attempt == _TRIES - 1:
                return
            # all later trainings take the rate with which this one's loss falls
            self.learning_rate = float(
                f"{model.manifest['training']['learning_rate'] * _LOWER:.1g}"
            )
            machine.progress.warn(
                f"The loss on the task's text rose: training again with a learning rate of "
                f"{self.learning_rate:g}."
            )
            if isinstance(machine.progress, _Part):
                machine.progress.begin_again()
            remove(out)
            stored = read_object(self.folder.schedule)
            self.store(schedule, stored["seconds"], decided=stored["decided"])

    def measures(self, schedule: Schedule) -> list[Measure]:
        """Every measure, from the cheapest to the one that counts most."""
        measures = [self._losses(schedule)]
        as_it_is = self._answers and not self.type.learns
        if self.type.probes or as_it_is:
            name, replicates = "score" if as_it_is else "probe", schedule.replicates
            expected, models = schedule.measuring(self.costs), 2 * replicates
            shares = models / (models + 1), 1 / (models + 1)
            with self._part(f"{name}-{replicates}", expected, shares) as machine:
                folder = self.folder.score if as_it_is else self.folder.probe
                run = partial(self._evaluated, folder, machine, frozen=not as_it_is)
                measures.append(self._scored(name, run, replicates))
        if (tuned := schedule.finetunings) and self.type.learns:
            expected = 3 * tuned * self.costs.finetune
            with self._part(f"tuned-{tuned}", expected, (2 / 3, 1 / 3)) as machine:
                run = partial(self._evaluated, self.folder.score, machine)
                measures.append(self._scored("fine-tuned", run, tuned))
        return measures

    def _losses(self, schedule: Schedule) -> Measure:
        """The loss on held-out text of the task, before and after each training."""
        # the seed of a replicate draws the sequences that it measures, for both of its trainings
        before: list[float] = []
        after: dict[str, list[float]] = {"selection": [], "random": []}
        measured = 0
        for name, values in after.items():
            for number in range(schedule.replicates):
                first, last, measured = self._losses_of(name, number)
                values.append(last)
                if name == "selection":
                    before.append(first)
        # the decoder of tsdae is new, so its loss falls whatever is read
        trained = self.objective != TSDAE
        return Measure.of_losses(before, after, measured, of_base=trained)

    def _losses_of(self, name: str, number: int) -> tuple[float, float, int]:
        """The losses before and after a training, and the sequences they are measured on."""
        manifest = read_object(self.folder.model(name, self.plan.seed + number) / "manifest.json")
        losses = manifest["losses"]
        return losses["before"]["task"], losses["after"]["task"], manifest["heldout"]["task"]

    def _evaluated(
        self, out: Path, machine: Machine, base: str, seeds: int, *, frozen: bool = False
    ) -> Evaluated:
        return evaluate(
            model=str(self.folder.model("selection", "{seed}")),
            base=base,
            out=out,
            seeds=seeds,
            frozen=frozen or None,
            machine=machine,
            **self._evaluation,
        )

    def _scored(self, name: str, run: Any, replicates: int) -> Measure:
        """A score of the models after the selection, after random text, and of the base."""
        # both comparisons are in one folder, which keeps the answers of every model
        random = run(str(self.folder.model("random", "{seed}")), replicates)
        base = run(self.plan.model.name, replicates)
        metric = metric_of(self.plan.task, self.task.kind)
        task = self.task
        if self.task.kind == PLAIN:
            task = read_task(str(self.heldout), self._plain.task, seed=self.plan.seed)
        outcomes = {
            "selection": random.outcomes(),
            "random": random.outcomes(BASE),
            "base": base.outcomes(BASE),
        }
        return Measure.of_outcomes(name, self.type, metric, task, outcomes, self.plan.seed)


_MORE = 1.25
"""Random text to draw for a program, per word piece of the selection: words have fewer pieces
there, mostly, and both sides are cut to the same words."""
_EQUAL = 0.99
"""Share of the selection's words from which random text counts as much text."""


def _outside_schedule(request: Request, plan: EvaluatePlan, task: Task) -> Schedule:
    """What is done with models that a program trains: nothing of it depends on a time."""
    objective = request.objective or _objective(find(plan.model.name, setting=MODEL))
    if request.program is not None and objective == TSDAE:
        allowed = "left out for a sentence encoder: its loss depends on how it is trained"
        raise bad_setting(TRAIN_WITH, allowed, request.program.text)
    task_type = load(task.kind)
    seeds = request.seeds
    tuned = task_type.learns and (seeds >= 2 * FEWEST or not task_type.probes)
    return Schedule(0, 0, _length(plan), request.tokens, seeds, seeds if tuned else 0)


def _length(plan: EvaluatePlan) -> int:
    """Tokens of a sequence on which a loss is measured."""
    sizes = _BATCH_OF_CHATS if plan.task.loss_on else _BATCH
    return size_for(resolve_device("auto", "train"), sizes)[1]


def _free_gpu() -> None:
    """Give the memory of measured models back: a program may train on the same GPU."""
    import torch

    gc.collect()
    torch.cuda.empty_cache()


class _Stages(WarningCollector):
    """Shows the bars of the commands that a fit runs, and each warning once, but no notes."""

    def __init__(self, shown: Progress) -> None:
        super().__init__(shown)
        self.begin, self.advance, self.skip = shown.begin, shown.advance, shown.skip  # type: ignore[method-assign]
        self.end, self.stop = shown.end, shown.stop  # type: ignore[method-assign]


class _MeasuredError(Exception):
    """Raised to end a training before its first step, when its losses are measured."""


class _LossOfTask(TrainerCallback):
    """Keeps the loss on the task's text with which a training begins."""

    loss = math.nan

    def record(self, record: Mapping[str, Any]) -> None:
        """Keep the loss, and end the training."""
        self.loss = record["heldout"][TASK]
        raise _MeasuredError


class _OutsideWork(_Work):
    """The parts of a fit whose models a program of others trains."""

    def __init__(
        self,
        request: Request,
        plan: EvaluatePlan,
        task: Task,
        folder: FitFolder,
        machine: Machine,
        *,
        program: Program,
        deadline: float = math.inf,
    ) -> None:
        super().__init__(request, plan, task, folder, machine)
        self.program, self._deadline = program, deadline
        self._stages = _Stages(machine.progress)
        stored = read_object(folder.trained) if folder.trained.exists() else {}
        command = public_text(self.program.text)
        if stored.get("models") and stored["command"] != command:
            raise ChangedInputError(
                f"`out={folder.path}` holds trainings by another command of {TRAIN_WITH}: "
                f"{stored['command']!r}. Give that one, choose another `out`, or pass `overwrite` "
                "to replace the run."
            )
        self._stored = {"words": {}, "models": {}, "base": {}, **stored, "command": command}

    @contextlib.contextmanager
    def showing(self) -> Iterator[None]:
        """Show nothing for all: how long the program takes is not known."""
        yield

    @contextlib.contextmanager
    def _part(
        self, name: str, expected: float, shares: tuple[float, ...] = (1.0,)
    ) -> Iterator[Machine]:
        began = time.perf_counter()
        yield dataclasses.replace(self.machine, progress=self._stages)
        self.count(name, time.perf_counter() - began)

    def scheduled(self, seconds: float) -> tuple[Schedule, bool]:
        """The schedule, which a time does not change."""
        return Schedule(**read_object(self.folder.schedule)["schedule"]), True

    def store(self, schedule: Schedule, seconds: float, *, decided: bool) -> None:
        """Store the schedule."""
        super().store(schedule, 0.0, decided=True)

    def facts(self) -> dict[str, Any]:
        """What was run, and what came of it."""
        return {"train_with": self._stored}

    def _planned_work(self, schedule: Schedule) -> list[str]:
        amount = f"{schedule.tokens:,} word pieces"
        if not schedule.tokens:
            amount = f"{DEFAULT_FRACTION:.0%} of the corpus"
        n = schedule.replicates
        tuned = f", and fine-tune {3 * schedule.finetunings}" if schedule.finetunings else ""
        first = self._arguments("selection", self.plan.seed)
        return [
            f"  select {amount}",
            f"  draw random text of as many words, {n} times",
            f"  train {2 * n} models with the program, half of them on random text",
            f"  measure these and the base{tuned}",
            f"The first training: {one_line(public_text(shlex.join(first)))}",
            "How long the program takes is not known before it has trained once.",
        ]

    def _data(self, name: str) -> Path:
        return (self.folder.data / f"{name}.jsonl").absolute()

    def _arguments(self, name: str, seed: int) -> list[str]:
        """The command of a training."""
        return self.program.arguments(
            model=find(self.plan.model.name, setting=MODEL).absolute(),
            data=self._data("selection" if name == "selection" else f"{name}-{seed}"),
            out=self.folder.model(name, seed).absolute(),
            seed=seed,
        )

    def replicate(self, schedule: Schedule, number: int) -> bool:
        """Draw random text, and have models trained on it and on the selection."""
        seed = self.plan.seed + number
        selected = read_object(self.folder.selection / "manifest.json")["selected"]["tokens"]
        drawn = self._draw(number, round(_MORE * selected))
        words = self._write("selection", self.folder.selection, sys.maxsize)
        others = self._write(f"random-{seed}", drawn, words)
        if others < _EQUAL * words:
            self._stages.warn(
                f"The corpus has only {others:,} words of random text, and {words:,} are selected: "
                "the sides are not equal. Select less with `tokens`, or take a larger corpus."
            )
        if str(seed) not in self._stored["base"]:
            self._stored["base"][str(seed)] = self._loss(self.plan.model.name, seed)
            self._keep()
        there = [self._trained(name, seed, schedule) for name in ("selection", "random")]
        return all(there)

    def _write(self, name: str, source: Path, most: int) -> int:
        """Write the text for a program, and return its words."""
        path = self._data(name)
        words = self._stored["words"]
        if name not in words or not path.exists():
            selection = Selection(source, read_object(source / "manifest.json"))
            read = ReadPlan(text_field=self.request.corpus_field)
            held = held_out([str(self.heldout)], read, self.folder.work, Progress(), setting="task")
            text = Text.of(selection.__iter__, [t for texts in held.values() for t in texts])
            fields = fields_in(self.request.corpus_field) if self.chats else []
            words[name] = text.write(path, fields, most, self.plan.seed)
            self._keep()
        if not words[name]:
            raise InputError(
                f"Each text in {source} contains a held-out text of `task`, so none is left to "
                "train on. Name a larger corpus."
            )
        return int(words[name])

    def _trained(self, name: str, seed: int, schedule: Schedule) -> bool:
        """Have a model trained and measured; returns whether it was there."""
        out = self.folder.model(name, seed).absolute()
        models = self._stored["models"]
        known = models.get(out.name)
        if known and out.exists():
            if fingerprint(out) != known["digest"]:
                raise ChangedInputError(
                    f"{out} has changed since it was trained. Put it back, or delete it to have it "
                    "trained again."
                )
            self._measure(out, seed)
            return True
        log = (self.folder.logs / f"{out.name}.log").absolute()
        progress = self.machine.progress
        progress.note(f"The output of training {out.name} goes to {log}.")
        took = [model["seconds"] for model in models.values()]
        began = time.monotonic()
        run_program(
            self.program,
            self._arguments(name, seed),
            out,
            log,
            progress,
            expected=took[0] if took else 0.0,
            limit=self._deadline - began,
        )
        seconds = time.monotonic() - began
        require_model(out, find(self.plan.model.name, setting=MODEL), log)
        models[out.name] = {"digest": fingerprint(out), "seconds": round(seconds, 1)}
        self._keep()  # before it is measured, which may be stopped
        self._measure(out, seed)
        if not took:
            rest = 2 * schedule.replicates - 1
            progress.note(
                f"The first training took {format_duration(seconds)}; at its pace the other {rest} "
                f"take {format_duration(rest * seconds)}."
            )
        return False

    def _measure(self, out: Path, seed: int) -> None:
        """Measure the loss of a model, once; one that cannot be opened is not trained."""
        model = self._stored["models"][out.name]
        if "loss" in model:
            return
        try:
            model["loss"] = self._loss(str(out), seed)
        except ModelError:
            del self._stored["models"][out.name]
            raise
        finally:
            self._keep()

    def _keep(self) -> None:
        write_bytes(self.folder.trained, json.dumps(self._stored).encode())

    def _loss(self, model: str, seed: int) -> float:
        """The loss of a model on held-out text of the task, as a training measures it."""
        options = {
            "model": model,
            "objective": self.objective,
            "length": _length(self.plan),
            "text_field": self.request.corpus_field,
            "loss_on": self.plan.task.loss_on or ALL,
            "seed": seed,
        }
        # an adapter that changes nothing yet: then no memory is needed to train all weights
        settings = [*_MEASURED["settings"], "adapter.kind=lora"]
        plan = build_plan(ADAPT, None, settings, options)
        measured = _LossOfTask()
        quiet = dataclasses.replace(self.machine, progress=Progress())
        with (
            self.machine.progress.showing("measure the loss", 0),
            self.machine.scratch() as scratch,
            contextlib.suppress(_MeasuredError),
        ):
            adapting.adapt(
                plan,
                [str(self.target)],
                scratch / "measured",
                task=[str(self.heldout)],
                machine=quiet,
                measuring=measured,
            )
        _free_gpu()
        return measured.loss

    def _losses_of(self, name: str, number: int) -> tuple[float, float, int]:
        seed = self.plan.seed + number
        after = self._stored["models"][f"{name}-{seed}"]["loss"]
        read = ReadPlan(text_field=self.request.corpus_field)
        held = held_out([str(self.heldout)], read, self.folder.work, Progress(), setting="task")
        different = len({*text_keys([t for texts in held.values() for t in texts]).tolist()})
        return self._stored["base"][str(seed)], after, min(_SEQUENCES, different)
