"""The trials of a tuning: short adaptations on selections, rung by rung."""

from __future__ import annotations

import dataclasses
import json
import math
import shutil
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from corpusfit.core.artifacts import remove, write_bytes
from corpusfit.core.engine import Progress, WarningCollector
from corpusfit.core.errors import InputError, TrainingError
from corpusfit.core.plan import size_for
from corpusfit.embed.hardware import resolve
from corpusfit.scoring import registry
from corpusfit.scoring.contract import CorpusMethod, Method
from corpusfit.selection.commands import choose, rank, select
from corpusfit.selection.folder import copy_scores
from corpusfit.selection.ranking import NotComparableError
from corpusfit.text.context import Machine
from corpusfit.training.adapting import adapt
from corpusfit.training.folder import AdaptFolder
from corpusfit.training.plan import TASK
from corpusfit.training.presets import BATCH
from corpusfit.training.trainer import TrainerCallback
from corpusfit.tuning.folder import TuneFolder
from corpusfit.tuning.plan import CONTENDERS, TunePlan
from corpusfit.tuning.schedule import (
    RANDOM,
    Rung,
    Setting,
    grid,
    halving,
    is_behind,
    steps_within,
    too_short,
)


@dataclass(frozen=True)
class Trial:
    """The record of a trial."""

    setting: Setting  # what was selected
    rung: int  # number of the rung, from 1
    steps: int  # steps planned
    # (step, loss on held-out text of the target in nats per token), increasing
    losses: tuple[tuple[int, float], ...]
    tokens: int  # tokens trained on, padding included
    seconds: float  # seconds of selecting, tokenising and training
    training: float  # seconds of its training alone, with the measurements
    stopped: bool = False  # whether it stopped early, behind as many trials as pass on
    error: str = ""  # why it has no loss after training; empty if it has one

    @property
    def loss(self) -> float:
        """The last loss; infinite if the trial failed."""
        return float("inf") if self.error or not self.losses else self.losses[-1][1]

    @property
    def done(self) -> int:
        """Steps trained."""
        return self.losses[-1][0] if self.losses else 0

    def at(self, step: int) -> float | None:
        """The loss after a step; None if it was not measured."""
        return dict(self.losses).get(step)

    def write(self, path: Path) -> None:
        """Write the record."""
        write_bytes(path, json.dumps(dataclasses.asdict(self), indent=1).encode())

    @classmethod
    def read(cls, path: Path) -> Trial:
        """The record that `write` wrote."""
        stored = json.loads(path.read_text("utf-8"))
        losses = tuple((int(step), float(loss)) for step, loss in stored["losses"])
        return cls(**{**stored, "setting": Setting(**stored["setting"]), "losses": losses})


def order(trials: Sequence[Trial]) -> list[Trial]:
    """The trials of a rung, lowest loss first; then those that stopped early, then failed ones.

    Ties keep their order.
    """
    return sorted(trials, key=lambda t: (bool(t.error), t.stopped, t.loss))


class EarlyStopError(Exception):
    """Raised to end a training that is behind."""


class TrialCallback(TrainerCallback):
    """Keeps a trial's losses, moves the bar of all trials, and stops a trial that is behind.

    Args:
        rung: the trial's rung.
        before: the rung's earlier trials.
        margin: difference that counts, in nats per token.
        progress: shows the steps of all trials.
        quiet: shows warnings.
    """

    def __init__(
        self,
        rung: Rung,
        before: Sequence[Trial],
        margin: float,
        progress: Progress,
        quiet: Progress,
    ) -> None:
        self._rung, self._before, self._margin = rung, before, margin
        self._progress, self._quiet = progress, quiet
        self.losses: list[tuple[int, float]] = []
        self._tokens, self._counted, self.moved, self._before_phase = 0, 0, 0, 0
        self._began = self._ended = time.perf_counter()

    @property
    def seconds(self) -> float:
        """Seconds from the first measurement to the last."""
        return self._ended - self._began

    @property
    def tokens(self) -> int:
        """Tokens of all steps, those of an earlier command by the mean of this one's."""
        return round(self._tokens * self.moved / max(1, self._counted))

    def step(self, steps: int, tokens: int) -> None:
        """Count a step."""
        self._tokens += tokens
        self._counted += steps
        self.moved += steps
        self._progress.advance(steps, tokens)

    def resume(self, step: int, history: Sequence[Mapping[str, Any]]) -> None:
        """Restore earlier measurements."""
        for record in history:
            self._keep(record)
        self.moved += step
        self._progress.skip(step)

    def record(self, record: Mapping[str, Any]) -> None:
        """Record a loss, and stop the trial if it is behind."""
        if not self._keep(record):
            return
        step, loss = self.losses[-1]
        self._ended = time.perf_counter()
        if len(self.losses) == 1:
            self._began = self._ended
        if self._rung.steps <= 2 * step < 2 * self._rung.steps:
            others = [
                other_loss for trial in self._before if (other_loss := trial.at(step)) is not None
            ]
            if is_behind(loss, others, self._rung.passed, self._margin):
                raise EarlyStopError

    def _keep(self, record: Mapping[str, Any]) -> bool:
        """Keep the loss of a record, by steps of both phases; whether it has a new one."""
        if "heldout" not in record:
            return False
        # the second phase begins with the loss with which the first one ended
        if record["step"] == 0 and self.losses:
            self._before_phase = self.losses[-1][0]
            return False
        self.losses.append((self._before_phase + record["step"], record["heldout"][TASK]))
        return True

    def warn(self, message: str) -> None:
        """Pass a warning on."""
        self._quiet.warn(message)


@dataclass
class Search:
    """Run context of a search."""

    plan: TunePlan
    folder: TuneFolder  # the tuning's folder
    corpus: Sequence[str]  # inputs to select from
    replay: Sequence[str]  # general text to mix into every trial
    fit: str  # file of the target's texts to select by
    heldout: str  # file of the target's texts to measure the loss on
    guard: str  # file of the texts that no trial trains on: held-out and guarded ones
    machine: Machine  # where it runs
    began: float  # when the command began, by `time.perf_counter`
    quiet: WarningCollector = field(init=False)
    batch: int = field(init=False)
    bits: dict[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Make the progress of the steps within trials, and find the default batch."""
        self.quiet = WarningCollector(self.machine.progress)
        self.batch = size_for(resolve(self.plan.train, "train").device, BATCH)

    def run(self) -> tuple[list[Rung], list[Trial]]:
        """Run or resume the search; the rungs, and all trials, those of the last rung first."""
        search = self.plan.search
        settings = grid(search, self._methods())
        budget = search.steps
        if budget is None:
            self._score(settings)
            budget = self._steps_in_time(settings)
        rungs = halving(len(settings), budget, eta=search.eta, least=search.least)
        left = settings[: rungs[0].trials]
        self._announce(rungs, len(settings))
        self._score(left)
        left = [*left[1:], left[0]]  # the baseline last, as others may stop early
        trials: list[Trial] = []
        total = sum(rung.trials * rung.steps for rung in rungs)
        with self.machine.progress.showing("tune", total, "tokens"):
            for number, rung in enumerate(rungs, 1):
                finished = self._rung(number, rung, left)
                trials = [*finished, *trials]
                left = [trial.setting for trial in finished[: rung.passed]]
                keys = {setting.selection.key for setting in left}
                remove(*(p for p in self.folder.selections.glob("*") if p.name not in keys))
        return rungs, trials

    def _methods(self) -> list[str]:
        """The methods to try, those without held-out bits first, then by them."""
        named = self.plan.search.method_names()
        ranked = [name for name in named or CONTENDERS if _is_ranked(name)]
        if not ranked:
            return named
        if not self.folder.ranking.exists():
            try:
                ranking = rank(
                    self.plan.selection(ranked[0]),
                    [self.fit],
                    self.corpus,
                    ranked,
                    named=bool(named),
                    machine=self.machine,
                )
            except NotComparableError as e:
                if not named:
                    raise
                self.machine.progress.warn(str(e))
                return named
            rows = [{"method": each.method, "bits": each.bits} for each in ranking]
            write_bytes(self.folder.ranking, json.dumps(rows).encode())
        rows = json.loads(self.folder.ranking.read_bytes())
        self.bits = {row["method"]: row["bits"] for row in rows}
        if named:
            return sorted(named, key=lambda name: self.bits.get(name, 0.0))
        usable = [method for method in self.bits if method != RANDOM]
        return sorted(usable, key=self.bits.__getitem__)[: self.plan.search.keep]

    def _score(self, settings: Sequence[Setting]) -> None:
        """Score the corpus by every method of some settings."""
        methods = list(dict.fromkeys(setting.method for setting in settings))
        for number, method in enumerate(methods, 1):
            note = f"Scoring the corpus by {method} ({number} of {len(methods)})."
            out = self.folder.scores / method.replace(":", "-")
            if not (out / "manifest.json").exists():
                self.machine.progress.note(note)
            plan = self.plan.selection(method)
            select(
                plan,
                [self.fit],
                self.corpus,
                out,
                machine=self.machine,
                overwrite=True,
                selecting=False,
            )
            elapsed = time.perf_counter() - self.began
            if elapsed > (self.plan.search.seconds or math.inf):
                scoring = elapsed / number * len(methods)
                raise too_short(self.plan.search, 2 * scoring, scoring)

    def _steps_in_time(self, settings: Sequence[Setting]) -> int:
        """The budget in steps for a budget in time, by the speed of a first trial, stored."""
        if not self.folder.schedule.exists():
            search = self.plan.search
            first = self._train(settings[0], 0, Rung(1, search.least, 1), [])
            steps = steps_within(
                search,
                len(settings),
                elapsed=time.perf_counter() - self.began,
                step=first.training / search.least,
                around=first.seconds - first.training,
            )
            write_bytes(self.folder.schedule, json.dumps({"steps": steps}).encode())
        return int(json.loads(self.folder.schedule.read_bytes())["steps"])

    def _announce(self, rungs: Sequence[Rung], settings: int) -> None:
        """Show the rungs, and how many settings the budget leaves out."""
        listed = ", then ".join(f"{rung.trials} of {rung.steps:,} steps" for rung in rungs)
        total = sum(rung.trials * rung.steps for rung in rungs)
        self.machine.progress.note(f"Trials: {listed}; {total:,} training steps in all.")
        if rungs[0].trials < settings:
            self.machine.progress.warn(
                f"The budget is enough for {rungs[0].trials} of {settings} settings; the last "
                "methods, fractions and weights are left out. Raise `search.budget` to try all."
            )

    def _rung(self, number: int, rung: Rung, settings: Sequence[Setting]) -> list[Trial]:
        """All trials of a rung, best first; runs those that are not finished."""
        trials: list[Trial] = []
        progress = self.machine.progress
        for setting in settings:
            path = self.folder.trials / f"{number}-{setting.key}.json"
            if path.exists():
                trials.append(Trial.read(path))
                progress.skip(rung.steps)
                continue
            trial = self._train(setting, number, rung, trials)
            trial.write(path)
            trials.append(trial)
            progress.note(f"Rung {number}, {len(trials)} of {rung.trials}: {described(trial)}")
        if all(trial.error for trial in trials):
            raise TrainingError(f"Every trial of rung {number} failed: {trials[0].error}")
        return order(trials)

    def _train(self, setting: Setting, number: int, rung: Rung, before: Sequence[Trial]) -> Trial:
        """Select for and train a trial; an error is recorded as its result."""
        began = time.perf_counter()
        callback = TrialCallback(
            rung, before, self.plan.search.margin, self.machine.progress, self.quiet
        )
        folder = self.folder.training / f"{number}-{setting.key}"
        stopped, error = False, ""
        try:
            self._adapt(setting, rung.steps, folder, callback)
        except EarlyStopError:
            stopped = True
        except (TrainingError, InputError) as e:
            error = str(e)
            self.quiet.warn(f"The trial {setting.label} failed: {error}")
        # only the record of a trial is kept: models and checkpoints are large
        remove(folder)
        self.machine.progress.skip(rung.steps - callback.moved)
        return Trial(
            setting,
            number,
            rung.steps,
            tuple(callback.losses),
            callback.tokens,
            round(time.perf_counter() - began, 3),
            round(callback.seconds, 3),
            stopped,
            error,
        )

    def _adapt(self, setting: Setting, steps: int, folder: Path, callback: TrialCallback) -> None:
        """Train a trial; its selection is searched for guarded texts only once."""
        machine = dataclasses.replace(self.machine, progress=self.quiet)
        selection = self._selection(setting, machine)
        # reuse the search for guarded texts of an earlier trial on the same selection
        cached = selection / ".corpusfit" / "guarded.safetensors"
        guard = AdaptFolder(folder).guard
        if cached.exists() and not guard.exists():
            guard.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(cached, guard)
        plan = self.plan.adaptation(
            steps, then_task=setting.then_task, batch=self.plan.train.batch or self.batch
        )
        if plan.train.keep == "auto":  # trials are compared by where they end
            plan = plan.with_value("train.keep", "last")
        try:
            adapt(
                plan,
                [str(selection)],
                folder,
                task=[self.heldout],
                replay=self.replay,
                guard=[self.guard],
                machine=dataclasses.replace(machine, cache=self.folder.token_cache),
                trial=callback,
                then=[self.fit] if setting.then_task else (),
            )
        finally:
            if guard.exists() and not cached.exists():
                guard.rename(cached)

    def _selection(self, setting: Setting, machine: Machine) -> Path:
        folder = self.folder.selections / setting.selection.key
        if not (folder / "manifest.json").exists():
            plan = self.plan.selection(setting.method, setting.fraction, setting.weights)
            copy_scores(self.folder.scores / setting.method.replace(":", "-"), folder)
            choose(folder, plan.choose, machine=machine)
        return folder


def _is_ranked(name: str) -> bool:
    """Whether held-out bits are measured for a method: it scores texts, and trains no network."""
    method = registry.load(name)
    return issubclass(method, Method | CorpusMethod) and method.exact


def described(trial: Trial) -> str:
    """A trial's result in words."""
    if trial.error:
        return f"{trial.setting.label} failed."
    change = trial.loss - trial.losses[0][1]
    end = ", stopped early" * trial.stopped
    return (
        f"{trial.setting.label}: held-out loss {trial.loss:.3f} ({change:+.3f}) after "
        f"{trial.done:,} steps{end} ({trial.seconds:,.0f} s)."
    )
