"""The parts of a fit whose models a program of others trains."""

from __future__ import annotations

import contextlib
import dataclasses
import gc
import json
import math
import shlex
import sys
import time
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

from corpusfit.core.artifacts import write_bytes
from corpusfit.core.credentials import public_text
from corpusfit.core.engine import Progress
from corpusfit.core.engine.pace import format_duration
from corpusfit.core.engine.progress import WarningCollector
from corpusfit.core.errors import ChangedInputError, InputError, ModelError
from corpusfit.core.escaping import one_line
from corpusfit.core.manifest import read_object
from corpusfit.core.plan import DEFAULT_FRACTION, ReadPlan, size_for
from corpusfit.embed.hardware import resolve_device
from corpusfit.evaluation.learned import LearnedTaskType
from corpusfit.evaluation.plan import EvaluatePlan
from corpusfit.evaluation.tasks import load
from corpusfit.fitting.folder import FitFolder
from corpusfit.fitting.program import TRAIN_WITH, Text, require_model
from corpusfit.fitting.program import run as run_program
from corpusfit.fitting.resolving import Resolved
from corpusfit.fitting.schedule import FEWEST, Schedule
from corpusfit.fitting.work import (
    BATCH,
    BATCH_OF_CHATS,
    GENERAL_SEQUENCES,
    GENERAL_TEXT,
    HELD_OUT,
    SEQUENCES,
    FitParts,
)
from corpusfit.labeled.heldout import held_out
from corpusfit.selection.result import Selection
from corpusfit.text.context import Machine
from corpusfit.text.fields import fields_in
from corpusfit.text.same_text import text_keys
from corpusfit.training.api import adapt
from corpusfit.training.models import fingerprint
from corpusfit.training.plan import ALL, TASK

_MORE = 1.25
"""Random text to select for a program, per word piece of the selection: words have fewer pieces
there, mostly, and both sides are cut to the same words."""
_EQUAL = 0.99
"""Share of the selection's words from which random text counts as much text."""


def schedule_of(fit: Resolved) -> Schedule:
    """What is done with models that a program trains: nothing of it depends on a time."""
    task_type = load(fit.task.kind)
    seeds = fit.request.seeds
    tuned = isinstance(task_type, LearnedTaskType) and (seeds >= 2 * FEWEST or not task_type.probes)
    return Schedule(0, 0, _length(fit.plan), fit.request.tokens, seeds, seeds if tuned else 0)


def _length(plan: EvaluatePlan) -> int:
    """Tokens of a sequence on which a loss is measured."""
    sizes = BATCH_OF_CHATS if plan.task.loss_on else BATCH
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
        self.begin = shown.begin  # type: ignore[method-assign]
        self.advance = shown.advance  # type: ignore[method-assign]
        self.skip = shown.skip  # type: ignore[method-assign]
        self.end = shown.end  # type: ignore[method-assign]
        self.stop = shown.stop  # type: ignore[method-assign]


class _MeasuredError(Exception):
    """Ends a training before its first step, with the losses on the task's and general text."""

    def __init__(self, losses: dict[str, float]) -> None:
        super().__init__(losses)
        self.losses = losses


class OutsideParts(FitParts):
    """The parts of a fit whose models a program of others trains."""

    def __init__(
        self,
        fit: Resolved,
        folder: FitFolder,
        machine: Machine,
        *,
        deadline: float = math.inf,
    ) -> None:
        super().__init__(fit, folder, machine)
        assert fit.request.program is not None  # noqa: S101
        self.program = fit.request.program
        self._deadline = deadline
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

    def scheduled(self, seconds: float) -> Schedule:
        """The schedule, which a time does not change."""
        return Schedule(**read_object(self.folder.schedule)["schedule"])

    def store(self, schedule: Schedule, seconds: float) -> None:
        """Store the schedule."""
        super().store(schedule, 0.0)

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
            f"  select random text of as many words, {n} times",
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
            model=self.fit.model.absolute(),
            data=self._data("selection" if name == "selection" else f"{name}-{seed}"),
            out=self.folder.model(name, seed).absolute(),
            seed=seed,
        )

    def replicate(self, schedule: Schedule, number: int) -> bool:
        """Draw random text, and have models trained on it and on the selection."""
        seed = self.plan.seed + number
        selected = read_object(self.folder.selection / "manifest.json")["selected"]["tokens"]
        random_text = self._select_random(number, round(_MORE * selected))
        words = self._write("selection", self.folder.selection, sys.maxsize)
        others = self._write(f"random-{seed}", random_text, words)
        if others < _EQUAL * words:
            self._stages.warn(
                f"The corpus has only {others:,} words of random text, and {words:,} are selected: "
                "the comparison is unequal. Select less with `tokens`, or take a larger corpus."
            )
        if str(seed) not in self._stored["base"]:
            self._stored["base"][str(seed)] = self._losses_of_model(self.plan.model.name, seed)
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
            heldout_texts = held_out([str(self.heldout)], read, Progress(), setting="task")
            text = Text.of(
                selection.__iter__, [t for texts in heldout_texts.values() for t in texts]
            )
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
        require_model(out, self.fit.model, log)
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
        """Measure the losses of a model, once; one that cannot be opened is not trained."""
        model = self._stored["models"][out.name]
        if "losses" in model:
            return
        try:
            model["losses"] = self._losses_of_model(str(out), seed)
        except ModelError:
            del self._stored["models"][out.name]
            raise
        finally:
            self._keep()

    def _keep(self) -> None:
        write_bytes(self.folder.trained, json.dumps(self._stored).encode())

    def _losses_of_model(self, model: str, seed: int) -> dict[str, float]:
        """The losses of a model on held-out text of the task and on general text."""
        from transformers import TrainerCallback

        class Measured(TrainerCallback):  # type: ignore[misc]
            def on_evaluate(self, *_: Any, metrics: Mapping[str, float], **__: Any) -> None:
                kinds = (TASK, GENERAL_TEXT)
                found = {kind: metrics.get(f"eval_{kind}_loss") for kind in kinds}
                raise _MeasuredError({k: loss for k, loss in found.items() if loss is not None})

        # with an adapter, which changes nothing yet, no memory is needed to train all weights
        settings = [*HELD_OUT, "adapter.kind=lora"]
        settings.append(f"objective.loss_on={self.plan.task.loss_on or ALL}")
        losses: dict[str, float] = {}
        with (
            self.machine.progress.showing("measure the loss", 0),
            self.machine.scratch() as scratch,
        ):
            try:
                adapt(
                    model=model,
                    data=[str(self.target)],
                    task=[str(self.heldout)],
                    replay=self.general,
                    replay_share=0.0 if self.general else None,
                    out=scratch / "measured",
                    objective=self.objective,
                    length=_length(self.plan),
                    text_field=self.request.corpus_field,
                    seed=seed,
                    settings=settings,
                    callbacks=[Measured()],
                    machine=dataclasses.replace(self.machine, progress=Progress()),
                )
            except _MeasuredError as measured:
                losses = measured.losses
        _free_gpu()
        return losses

    def _measured_texts(self) -> Collection[str]:
        losses: dict[str, float] = self._stored["base"][str(self.plan.seed)]
        return losses

    def _losses_of(self, name: str, number: int, of: str) -> tuple[float, float, int]:
        seed = self.plan.seed + number
        before = self._stored["base"][str(seed)][of]
        after = self._stored["models"][f"{name}-{seed}"]["losses"][of]
        read = ReadPlan(text_field=self.request.corpus_field)
        measured = [str(self.heldout)] if of == TASK else self.general
        most = SEQUENCES if of == TASK else GENERAL_SEQUENCES
        heldout_texts = held_out(measured, read, Progress(), setting="task")
        different = len(
            {*text_keys([t for texts in heldout_texts.values() for t in texts]).tolist()}
        )
        return before, after, min(most, different)
