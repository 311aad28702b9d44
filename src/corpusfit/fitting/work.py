"""The parts of a fit, each by the public function of its own command."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import math
import os
import platform
import time
from collections.abc import Collection, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import orjson

from corpusfit.core.artifacts import read_bytes, remove, write_bytes
from corpusfit.core.engine import Progress
from corpusfit.core.engine.pace import format_duration
from corpusfit.core.errors import InputError, bad_setting
from corpusfit.core.manifest import digest, read_kept, read_object, versions
from corpusfit.core.plan import ReadPlan, size_for
from corpusfit.embed.hardware import resolve_device
from corpusfit.evaluation.api import estimate_evaluation, evaluate
from corpusfit.evaluation.evaluating import Evaluated
from corpusfit.evaluation.learned import LearnedTaskType
from corpusfit.evaluation.plan import EvaluatePlan, metric_of
from corpusfit.evaluation.reading import read_task
from corpusfit.evaluation.resolving import BASE
from corpusfit.evaluation.rows import row_of
from corpusfit.evaluation.task import NOTABLE, nested_places
from corpusfit.evaluation.tasks import load
from corpusfit.evaluation.vector_score import KIND
from corpusfit.fitting.bar import FitProgress, PartProgress
from corpusfit.fitting.folder import FitFolder
from corpusfit.fitting.resolving import PLAIN, Resolved
from corpusfit.fitting.schedule import (
    FEWEST,
    LATEST,
    Costs,
    Measured,
    Schedule,
    with_fewer_steps,
    with_replicates,
)
from corpusfit.fitting.vectors import AMOUNTS, EARLY, REPLICATES, SHARES, VectorScore, best
from corpusfit.fitting.verdict import GENERAL, LOSS, POWER, Measure
from corpusfit.selection.api import estimate, select
from corpusfit.selection.fit import Sample
from corpusfit.selection.folder import SelectionFolder
from corpusfit.text.context import Machine, local_cache
from corpusfit.text.same_text import text_keys
from corpusfit.training.api import adapt, estimate_adaptation
from corpusfit.training.objectives import load as load_objective
from corpusfit.training.plan import ALL, TASK

_CHARACTERS_PER_TOKEN = 4.5
BATCH = {"cpu": (16, 128), "gpu": (64, 512)}
"""Sequences per step and tokens per sequence."""
BATCH_OF_CHATS = {"cpu": (4, 512), "gpu": (16, 2048)}
"""The same, as a conversation is never divided among sequences."""
SEQUENCES = 256
"""Most held-out sequences of the task."""
GENERAL_SEQUENCES = 128
"""Most held-out sequences of general text, and of the data."""
HELD_OUT = [f"mix.heldout={GENERAL_SEQUENCES}", f"mix.task_sequences={SEQUENCES}"]
MEASURED = {
    # the control is what its training gives, even a worse model
    "settings": [*HELD_OUT, "train.evaluations=2", "train.keep=last"]
}
GENERAL_TEXT = "general"
"""The name of general text among the held-out losses of a training."""
_CHANGED = 0.1
"""Share of the test texts that two models answer differently, about, before it is known."""
_HELD_OUT = 0.2
"""Share of plain texts that is held out where there is no test split."""
_GENERAL = 512
"""Most general texts that are held out; of a small corpus one in 50, and at least 8."""
_BUSY = 1.5
"""Load of each core, over the last minute, above which a machine is busy; a fit's own is 1."""
_LOWER = 1 / 3
_TRIES = 3
"""Factor of the learning rate after a training whose loss rose, and most trainings until one
falls."""


class FewerStepsError(Exception):
    """Ends the first training, whose steps take longer than was measured: fewer fit in the time."""

    def __init__(self, schedule: Schedule) -> None:
        super().__init__(schedule)
        self.schedule = schedule  # the one to begin again by


class FitParts:
    """The parts of a fit; each is done once, and its seconds are stored."""

    def __init__(self, fit: Resolved, folder: FitFolder, machine: Machine) -> None:
        self.fit = fit
        self.request = fit.request
        self.plan = fit.plan
        self.task = fit.task
        self.objective = fit.objective
        self.folder = folder
        self.chats = bool(fit.plan.task.loss_on)
        self.target, self.heldout = _write_texts(fit, folder.texts)
        self.machine = machine
        self.fit_progress = FitProgress(machine.progress)
        self.type = load(fit.task.kind)
        self._learned = isinstance(self.type, LearnedTaskType)
        self._probed = isinstance(self.type, LearnedTaskType) and bool(self.type.probes)
        self.learning_rate: float | None = None
        self.costs = self._planned = Costs(0, 0, 0, 0, 0, 0)
        self.measuring = 0.0  # seconds in which the costs were measured
        self.at_most = math.inf  # seconds that all of it may take
        self.vectors: VectorScore | None = None
        if fit.task.kind == KIND:
            metric = metric_of(fit.plan.task, KIND)
            self.vectors = VectorScore(fit.task, metric, fit.plan.seed, folder.vectors)
        self._said: set[str] = set()
        self._seconds = read_object(folder.clock) if folder.clock.exists() else {}

    @property
    def _training(self) -> dict[str, Any]:
        general = self.general
        share = self.request.replay
        return {
            "model": self.plan.model.name,
            "objective": self.objective,
            "task": self.heldout,
            # of general text that is mixed in, the training holds a part out
            "guard": [str(self.heldout), *(general if not share else ())],
            "replay": general,
            "replay_share": share if general else None,
            "learning_rate": self.learning_rate,
            "text_field": self.request.corpus_field,
            "loss_on": self.plan.task.loss_on or ALL,
            **MEASURED,
        }

    @property
    def general(self) -> list[str]:
        """General text: that of the user, or what `select` left of the corpus, if any."""
        if self.request.general:
            return list(self.request.general)
        return [str(self.folder.general)] if self.folder.general.exists() else []

    @property
    def _reading(self) -> dict[str, Any]:
        """Arguments of every selection: what is read, and that chats stay whole."""
        fields = dict.fromkeys(("text_field", "target_field"), self.request.corpus_field)
        fields |= {"where": self.request.where, "scores": self.request.scores}
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
        return self.task.kind != PLAIN or load_objective(self.objective).causal

    @property
    def trained(self) -> int:
        """How many replicates are trained."""
        return sum(name.startswith("adapt-random-") for name in self._seconds)

    def scheduled(self, seconds: float) -> Schedule:
        """The stored schedule, with what more time adds."""
        stored = read_object(self.folder.schedule)
        self.costs = self._planned = Costs(**stored["costs"])
        self.learning_rate = stored["learning_rate"]
        schedule = Schedule(**stored["schedule"])
        more = self.trained and seconds > stored["seconds"]
        return self.revised(schedule, seconds) if more else schedule

    def measured(self, seconds: float) -> Schedule:
        """A schedule by measured costs, which the cache keeps for the next time."""
        began = time.perf_counter()
        load = _load()
        path = local_cache(self.machine.cache_folder()) / "costs" / f"{self._costs_key()}.json"
        kept = (
            None if self.machine.verify else read_kept(path, lambda found: bool(_measured(found)))
        )
        found = _measured(kept) if kept else None
        # those of a busy machine say nothing of a quiet one
        if found is None or (found.busy and not load):
            found = self._measure_costs(busy=bool(load))
            write_bytes(path, json.dumps(dataclasses.asdict(found)).encode())
        if load:
            self.machine.progress.warn(
                f"Other programs use this machine ({load}), so all takes longer than alone."
            )
        self.measuring = time.perf_counter() - began
        schedule, self.costs = found.schedule(max(1.0, seconds - self.measuring))
        return schedule

    def _costs_key(self) -> str:
        """Equal for fits on this machine that cost the same, whatever their time."""
        with dataclasses.replace(self.machine, progress=Progress()).running() as run:
            request = self.request
            read = ReadPlan(request.corpus_field, where=request.where, scores=request.scores)
            sources = run.find(self.request.corpus, read, "corpus")
            corpus = [source.fingerprint for source in sources]
        device = resolve_device("auto", "train")
        where = [platform.node(), device, os.cpu_count(), self.machine.engine, self.machine.workers]
        return digest([self.fit.identity(), versions(), corpus, where])

    def _measure_costs(self, *, busy: bool) -> Measured:
        """Measure the costs, on a few texts and steps."""
        sizes = BATCH_OF_CHATS if self.chats else BATCH
        batch, length = size_for(resolve_device("auto", "train"), sizes)
        progress = self.machine.progress
        quiet = dataclasses.replace(
            self.machine, progress=PartProgress(FitProgress(Progress()), 0.0, self._said)
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
            probe = 0.0
            finetune = 0.0
            if self._probed:
                probe = self._evaluation_seconds(quiet, frozen=True)
            if self._answers and self._learned:
                finetune = self._evaluation_seconds(quiet)
            elif self._answers:
                probe = self._evaluation_seconds(quiet)
            vectors = (0.0, 0.0)
            if self.vectors is not None:
                vectors = self.vectors.seconds(self.task.train.texts())
            progress.advance(1)
        costs = Costs(
            select=projected["seconds"],
            random=projected["seconds"] / 3,
            step=training["step_s"],
            around=training["around_s"],
            probe=probe,
            finetune=finetune,
        )
        tokens = 1e6 * projected["text_mb"] / _CHARACTERS_PER_TOKEN
        return Measured(costs, tokens, batch, training["length"], vectors, busy)

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
                f"at least {format_duration(needed)} for this task, corpus and model: {listed}, "
                "and a reserve",
                format_duration(seconds),
                f"Or name {less}. These times are kept; `verify` measures them again, which helps "
                "if the machine was busy.",
            )

    def _evaluation_seconds(self, machine: Machine, **options: Any) -> float:
        """Seconds of one evaluation, of several that run beside each other."""
        model = self.plan.model.name
        facts = estimate_evaluation(
            model=model, base=model, seeds=1, machine=machine, **options, **self._evaluation
        )
        return float(facts["seconds"]) / 2

    def revised(self, schedule: Schedule, seconds: float) -> Schedule:
        """The schedule by what the replicates took: more or fewer, and all that are done."""
        took = {n: s for n, s in self._seconds.items() if n.startswith("adapt-")}
        random_text = [s for name, s in self._seconds.items() if name.startswith("random-")]
        # the first may have been repeated at another rate, which takes its time from the others
        lost = 0.0
        if self.learning_rate:
            lost = took["adapt-selection-0"] - min(took.values())
            took["adapt-selection-0"] -= lost
        usual = float(np.mean(list(took.values())))
        planned = self._planned
        # what is not yet measured is as much slower, beside other programs
        slower = max(1.0, usual / (planned.around + schedule.max_steps * planned.step))
        tuned = {n.split("-")[1]: s for n, s in self._seconds.items() if n.startswith("tuned-")}
        finetune = slower * planned.finetune
        self.costs = dataclasses.replace(
            self.costs,
            probe=slower * planned.probe,
            finetune=max((s / (3 * int(n)) for n, s in tuned.items()), default=finetune),
            select=self._seconds["select"] + lost,
            random=float(np.mean(random_text)),
            around=max(1.0, usual - schedule.max_steps * self.costs.step),
        )
        seconds = max(seconds, read_object(self.folder.schedule)["seconds"])
        left = seconds - self._seconds.get("measure", 0.0)
        done = max(FEWEST, self.trained)
        finetuned = max(map(int, tuned), default=0)
        least = dataclasses.replace(schedule, replicates=done, finetunings=finetuned)
        schedule = with_replicates(least, self.costs, left, LATEST)
        self.store(schedule, seconds)
        return schedule

    def store(self, schedule: Schedule, seconds: float) -> None:
        """Store the schedule, so that a resumed fit keeps it."""
        stored = {
            "seconds": seconds,
            "schedule": dataclasses.asdict(schedule),
            "costs": dataclasses.asdict(self.costs),
            "learning_rate": self.learning_rate,
        }
        write_bytes(self.folder.schedule, json.dumps(stored).encode())

    def described(self, schedule: Schedule) -> str:
        """What is read and done, in a few lines."""
        task = self.task
        if task.kind == PLAIN:
            files = (self.target, self.heldout)
            texts, held = (read_bytes(path).count(b"\n") for path in files)
            said = f"{texts:,} texts to select by and {held:,} held-out ones. No held-out text is"
        else:
            said = f"{len(task.train):,} training, {len(task.dev):,} dev and {len(task.test):,} "
            said += "test examples. No dev or test text is"
        lines = [
            f"Task {task.name} ({task.kind.replace('_', ' ')}): {said} used to select or to adapt."
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
                f"about {100 * least:.1f} points is rarely shown (if one answer in ten "
                "changes)."
            )
        known = set(text_keys(task.train.texts()).tolist())
        copies = sum(key in known for key in text_keys(task.test.texts()).tolist())
        if copies and copies >= NOTABLE * len(task.test):
            lines.append(
                f"{copies:,} of the test texts are training texts, too, so scores are too high: "
                "`corpusfit split --near` makes a task without such copies."
            )
        if self.fit.reason:
            lines.append(self.fit.reason)
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
        part = PartProgress(self.fit_progress, expected, self._said, shares)
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
        self,
        out: Path,
        method: str,
        seed: int,
        tokens: int | None,
        machine: Machine,
        keep: str = "",
    ) -> None:
        select(
            str(self.target),
            list(self.request.corpus),
            out=out,
            method=method,
            tokens=tokens,
            seed=seed,
            keep=keep or None,
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
                self.request.keep,
            )
            if not (self.request.general or self.chats or self.folder.general.exists()):
                self._write_general()

    def _write_general(self) -> None:
        """Write random text of the corpus: to be mixed in, or a part of it to be held out."""
        folder = SelectionFolder(self.folder.selection)
        texts = Sample(folder.fit, "background").read_texts()
        if not self.request.replay:
            # what is held out is left out of both trainings, so of a small corpus it is little
            units = read_object(folder.path / "manifest.json")["counts"]["units"]
            most = min(_GENERAL, max(_GENERAL // 64, units // 50))
            texts = [texts[i] for i in nested_places(len(texts), most, self.plan.seed)]
        rows = (orjson.dumps({self.request.corpus_field: text}) for text in texts)
        write_bytes(self.folder.general, b"".join(row + b"\n" for row in rows))

    @property
    def early_seconds(self) -> float:
        """The planned seconds of the first score of word vectors."""
        return self.costs.vectors / (1 + sum(SHARES))

    def early(self) -> str:
        """What word vectors show before any model is trained; empty if they cannot be asked."""
        if self.vectors is None:
            return ""
        if self.vectors.known(EARLY):
            return self.vectors.sentence(EARLY)
        # random text that is there already, in the same cut, divided among the replicates
        texts = Sample(SelectionFolder(self.folder.selection).fit, "background").read_texts()
        order = np.random.default_rng(self.plan.seed).permutation(len(texts)).tolist()
        parts = [[texts[i] for i in order[n::REPLICATES]] for n in range(REPLICATES)]
        with self._part("vectors-early", self.early_seconds) as machine:
            self.vectors.measure(EARLY, best(self.folder.selection), parts, machine.progress)
        return self.vectors.sentence(EARLY)

    def by_amount(self) -> None:
        """Score word vectors at several amounts, beside the random text of the trainings."""
        if self.vectors is None or self.vectors.known(AMOUNTS):
            return
        folders = (self.folder.random / str(self.plan.seed + n) for n in range(REPLICATES))
        with self._part("vectors-amounts", self.costs.vectors - self.early_seconds) as machine:
            randoms = [best(folder) for folder in folders]
            self.vectors.measure(AMOUNTS, best(self.folder.selection), randoms, machine.progress)

    def so_far(self, replicates: int) -> str:
        """What the first replicates say of the loss."""
        said = []
        for name, text in (("selection", "the selection"), ("random", "random text")):
            pairs = [self._losses_of(name, number, TASK) for number in range(replicates)]
            change = np.mean([after - before for before, after, _ in pairs])
            said.append(f"{change:+.3f} nats per token after {text}")
        n = f"{replicates} replicates" if replicates > 1 else "one replicate"
        return f"The loss on the task's text after {n}: {said[0]}, {said[1]}."

    def _select_random(self, number: int, tokens: int) -> Path:
        """Draw the random text of a replicate; returns its folder."""
        random_text = self.folder.random / str(self.plan.seed + number)
        # other text than what `--method random` and fits with other seeds select
        chance = int(digest(["random text", self.plan.seed, number])[:7], 16)
        with self._part(f"random-{number}", self.costs.random) as machine:
            self._select(random_text, "random", chance, tokens, machine)
        return random_text

    def replicate(self, schedule: Schedule, number: int) -> bool:
        """Draw random text, train on it and on the selection; returns whether both were there.

        Raises:
            FewerStepsError: the first training is too slow for the time.
        """
        seed = self.plan.seed + number
        random_text = self._select_random(number, schedule.tokens)
        for name, data in (("selection", self.folder.selection), ("random", random_text)):
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
        began = time.perf_counter()

        def check(step: float) -> None:
            self._require_time_for(schedule, step, time.perf_counter() - began)

        callbacks = []
        if again and math.isfinite(self.at_most):
            from corpusfit.fitting.pace import StepTimer  # imports much

            callbacks = [StepTimer(check)]
        for attempt in range(_TRIES):
            try:
                model = adapt(
                    data=str(data),
                    out=out,
                    max_steps=schedule.max_steps,
                    batch=schedule.batch,
                    length=schedule.length,
                    seed=seed,
                    callbacks=callbacks,
                    machine=machine,
                    **self._training,
                )
            except FewerStepsError:
                remove(out)
                raise
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
            if isinstance(machine.progress, PartProgress):
                machine.progress.begin_again()
            remove(out)
            self.store(schedule, read_object(self.folder.schedule)["seconds"])

    def _require_time_for(self, schedule: Schedule, step: float, took: float) -> None:
        """Raise `FewerStepsError` if the trainings take too long with steps of so many seconds."""
        planned = self.costs
        # what is not yet measured is as much slower, beside other programs
        slower = max(1.0, step / planned.step)
        later = ("around", "probe", "finetune", "vectors")
        costs = {name: slower * getattr(planned, name) for name in later} | {"step": step}
        left = self.at_most - self.spent() - took
        fewer = with_fewer_steps(schedule, dataclasses.replace(planned, select=0.0, **costs), left)
        if fewer == schedule:
            return
        self.costs = dataclasses.replace(planned, **costs)
        self.store(fewer, read_object(self.folder.schedule)["seconds"])
        # what was begun has measured the time
        self._seconds["measure"] = round(self._seconds.get("measure", 0.0) + took, 3)
        self.machine.progress.note(
            f"A step takes {format_duration(step)}; when it was measured, it took "
            f"{format_duration(planned.step)}. So each training has {fewer.max_steps:,} steps, not "
            f"{schedule.max_steps:,}."
        )
        raise FewerStepsError(fewer)

    def plan_left(self, schedule: Schedule, replicates: int) -> None:
        """Show the time that is left after so many replicates."""
        costs = self.costs
        trained = costs.replicate(schedule.max_steps) - 2 * costs.probe
        early = costs.select + self.early_seconds
        self.fit_progress.plan(schedule.seconds(costs) - early - replicates * trained)

    def measures(self, schedule: Schedule) -> list[Measure]:
        """Every measure, from the cheapest to the one that counts most."""
        measures = [self._losses(schedule, LOSS, TASK)]
        if GENERAL_TEXT in self._measured_texts():
            measures.append(self._losses(schedule, GENERAL, GENERAL_TEXT))
        as_it_is = self._answers and not self._learned
        if self._probed or as_it_is:
            name = "score" if as_it_is else "probe"
            replicates = schedule.replicates
            expected = schedule.measuring(self.costs)
            models = 2 * replicates
            shares = models / (models + 1), 1 / (models + 1)
            with self._part(f"{name}-{replicates}", expected, shares) as machine:
                folder = self.folder.score if as_it_is else self.folder.probe
                run = partial(self._evaluated, folder, machine, frozen=not as_it_is)
                measures.append(self._scored(name, run, replicates))
        if (tuned := schedule.finetunings) and self._learned:
            expected = 3 * tuned * self.costs.finetune
            with self._part(f"tuned-{tuned}", expected, (2 / 3, 1 / 3)) as machine:
                run = partial(self._evaluated, self.folder.score, machine)
                measures.append(self._scored("fine-tuned", run, tuned))
        return measures

    def _losses(self, schedule: Schedule, measure: str, of: str) -> Measure:
        """The loss on held-out text of the task, or on general text, by each training."""
        # the seed of a replicate chooses the sequences that it measures, for both of its trainings
        before: list[float] = []
        after: dict[str, list[float]] = {"selection": [], "random": []}
        measured = 0
        for name, values in after.items():
            for number in range(schedule.replicates):
                first, last, measured = self._losses_of(name, number, of)
                values.append(last)
                if name == "selection":
                    before.append(first)
        # the decoder of tsdae is new, so its loss falls whatever is read
        trained = not load_objective(self.objective).embeds
        return Measure.of_losses(before, after, measured, name=measure, of_base=trained)

    def _measured_texts(self) -> Collection[str]:
        """The kinds of text whose losses are those of the same text for all models."""
        if not self.general:
            return (TASK,)
        out = self.folder.model("selection", self.plan.seed)
        kinds: dict[str, int] = read_object(out / "manifest.json")["heldout"]
        return kinds

    def _losses_of(self, name: str, number: int, of: str) -> tuple[float, float, int]:
        """The losses before and after a training on some text, and on how many sequences."""
        manifest = read_object(self.folder.model(name, self.plan.seed + number) / "manifest.json")
        losses = manifest["losses"]
        return losses["before"][of], losses["after"][of], manifest["heldout"][of]

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


def _write_texts(fit: Resolved, folder: Path) -> tuple[Path, Path]:
    """Write the texts to select by, and those that are held out; returns both files."""
    target = fit.task.train.texts()
    heldout = [*fit.task.dev.texts(), *fit.task.test.texts()]
    if not target:  # plain text without splits
        order = np.random.default_rng(fit.plan.seed).permutation(len(heldout)).tolist()
        most = max(1, round(_HELD_OUT * len(heldout)))
        target = [heldout[i] for i in order[most:]]
        heldout = [heldout[i] for i in order[:most]]
    # splits often share texts; one that is held out is not selected by
    keys = set(text_keys(heldout).tolist())
    target = [t for t, k in zip(target, text_keys(target).tolist(), strict=True) if k not in keys]
    if not target:
        raise InputError(
            "`task` must have texts to select by that differ from the held-out ones. Add "
            "texts, or remove copies with `corpusfit split`."
        )
    paths = folder / "target.jsonl", folder / "heldout.jsonl"
    for path, texts in zip(paths, (target, heldout), strict=True):
        rows = [row_of(text, fit.plan.task, fit.request.corpus_field) for text in texts]
        write_bytes(path, b"".join(orjson.dumps(row) + b"\n" for row in rows))
    return paths


def _measured(found: Any) -> Measured:
    """What was measured, as the cache keeps it."""
    costs = Costs(**found["costs"])
    return Measured(**found | {"costs": costs, "vectors": tuple(found["vectors"])})


def _load() -> str:
    """How busy other programs keep the machine; empty if they do not, or nobody says."""
    cores = os.cpu_count() or 1
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0
    return f"load {load:.1f} on {cores} cores" if load > _BUSY * cores else ""
