"""Trains the phases of an adaptation: on the data, then perhaps on the task's own texts."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from corpusfit.core.artifacts import write_bytes
from corpusfit.core.engine import Progress
from corpusfit.core.errors import ChangedInputError
from corpusfit.core.room import warn_without_room
from corpusfit.embed.contract import file_digest
from corpusfit.embed.hardware import Hardware
from corpusfit.embed.sentence_folders import write_pooling
from corpusfit.training.adapters import Base, save_adapter
from corpusfit.training.folder import AdaptFolder
from corpusfit.training.models import open_model, save_model
from corpusfit.training.plan import EMBEDDINGS, TASK, ModelPlan
from corpusfit.training.progress import TrainingProgress
from corpusfit.training.schedule import evaluations, minimised
from corpusfit.training.trainer import TrainerCallback, train
from corpusfit.training.training_setup import Ready, assemble_training, model_bytes

_OF_A_PHASE = ("training", "words", "chunks", "rows", "tokens", "heldout", "losses", "weights")


@dataclass(frozen=True)
class PhaseRunner:
    """Trains phases, each in a folder that resumes.

    Attributes:
        hardware: resolved device and precision.
        accelerator: Accelerate's `Accelerator`.
        progress: shows progress.
        track: experiment tracker, or "".
        trial: callback of a training that only measures the loss on the task's texts and writes no
            model, if it is one.
    """

    hardware: Hardware
    accelerator: Any
    progress: Progress
    track: str
    trial: TrainerCallback | None = None

    def run(self, ready: Ready, folder: AdaptFolder) -> dict[str, Any]:
        """Train all phases; returns the facts for the manifest.

        The second phase trains the model that the first leaves in `folder.first`, so it is what
        `adapt --data task` makes of that model, and a run that was killed in it resumes in it.
        """
        if ready.then is None:
            return self._phase(ready, folder, [])
        main, inner = self.accelerator.is_main_process, AdaptFolder(folder.first)
        before = inner.finished()
        resumed = before is not None
        if before is None:
            before = self._phase(ready, inner, [])
            if main:
                inner.finish(before)
            self.accelerator.wait_for_everyone()
            self.accelerator.free_memory()
        ready.opened.model.to("meta")  # frees its memory
        opened = open_model(
            ModelPlan(str(inner.path)),
            ready.plan.objective.name,
            attention=self.hardware.attention,
            seed=ready.plan.seed,
            on_warn=self.progress.warn,
        )
        lines = (inner.path / "losses.jsonl").read_text("utf-8").splitlines()
        earlier = [{"phase": "data", **json.loads(line)} for line in lines]
        if self.trial is not None and resumed:
            self.trial.resume(earlier[-1]["step"], earlier)
        after = self._phase(dataclasses.replace(ready.then, opened=opened), folder, earlier)
        return _both(ready, before, after)

    def _phase(
        self, ready: Ready, folder: AdaptFolder, earlier: list[dict[str, Any]]
    ) -> dict[str, Any]:
        """Train a phase and write its model, and the losses after those of an earlier phase."""
        done = earlier[-1]["step"] if earlier else 0
        if self.trial is not None:
            ready = ready.measured_on_task()
        training, facts = assemble_training(
            ready, folder, self.hardware, self.accelerator, self.progress, done
        )
        if self.trial is None:
            needed = model_bytes(facts, training.plan.checkpoints)
            warn_without_room(folder, needed, self.progress)
        main = self.accelerator.is_main_process
        _check_settled(folder, facts, main=main)
        if self.track and not self.accelerator.trackers:
            self.accelerator.init_trackers("corpusfit", config=_flat(facts))
        steps, measurement = training.plan.steps or 0, training.measurement
        work = steps + measurement * (1 + len(evaluations(training.plan)))
        with self.progress.showing("adapt", work, "tokens"):
            shown = TrainingProgress(self.progress, steps, measurement)
            history = train(training, self.trial or shown)
        facts["losses"] = _summary(history, training.plan.keep)
        if worse := _worse(facts["losses"]):
            self.progress.warn(worse)
        if earlier:
            history = [{"phase": TASK, **r, "step": done + r["step"]} for r in history]
        if main and (self.trial is None or ready.then is not None):  # a second phase needs it
            _save(ready, folder, [*earlier, *history])
            files = sorted(folder.path.glob("*.safetensors"))
            facts["weights"] = {file.name: file_digest(file) for file in files}
        return facts


def _both(ready: Ready, before: dict[str, Any], after: dict[str, Any]) -> dict[str, Any]:
    """The facts of both phases: those of the first, the model of the second, and each phase."""
    phases = [
        {"phase": name, **{key: facts.get(key) for key in _OF_A_PHASE}}
        for name, facts in (("data", before), (TASK, after))
    ]
    return {
        **before,
        "plan": ready.plan.as_dict(),
        "base": {"name": ready.opened.name, "fingerprint": ready.opened.fingerprint},
        "words": f"{before['words']} Then, on the task's text: {after['words']}",
        "losses": {"before": before["losses"]["before"], "after": after["losses"]["after"]},
        "weights": after.get("weights"),
        "phases": phases,
    }


def _check_settled(folder: AdaptFolder, facts: Mapping[str, Any], *, main: bool) -> None:
    """Store the resolved settings; raise `ChangedInputError` if a resumed training had others."""
    now = {name: facts[name] for name in ("precision", "device", "packed", "processes")}
    now |= {name: facts["training"][name] for name in ("steps", "batch", "length", "rate")}
    if folder.checkpoints.is_dir() and folder.settled.exists():
        before = json.loads(folder.settled.read_text("utf-8"))
        changed = [f"{n} was {before.get(n)}, is {v}" for n, v in now.items() if before.get(n) != v]
        if changed:
            raise ChangedInputError(
                f"{folder.path} holds a training with other settings: {'; '.join(changed)}. Resume "
                "on the machine where it began, or set these settings; or choose another `out`, "
                "or pass `overwrite`."
            )
    if main:
        write_bytes(folder.settled, json.dumps(now).encode())


def _summary(history: list[dict[str, Any]], keep: str) -> dict[str, Any]:
    """Held-out losses before and after, of the kept weights; empty without held-out text."""
    measured = [r for r in history if "heldout" in r] or [{"heldout": {}}]
    after = min(measured, key=minimised) if keep == "best" else measured[-1]
    return {"before": measured[0]["heldout"], "after": after["heldout"]}


def _worse(losses: Mapping[str, Mapping[str, float]]) -> str:
    """A warning if the model fits the task, or without a task the data, less well than before."""
    name = TASK if TASK in losses["after"] else "data"
    before, after = (losses[when].get(name, 0.0) for when in ("before", "after"))
    if after <= before:
        return ""
    return (
        f"The held-out loss on {name} rose from {before:.3f} to {after:.3f}: the model fits it "
        "less well than before. Set a lower `train.rate`, or on a small selection fewer "
        "`train.steps`."
    )


def _save(ready: Ready, folder: AdaptFolder, history: list[dict[str, Any]]) -> None:
    opened, plan = ready.opened, ready.plan
    lines = "".join(json.dumps(record) + "\n" for record in history)
    write_bytes(folder.path / "losses.jsonl", lines.encode())
    if plan.adapter.kind:
        base = Base(opened.name, opened.fingerprint)
        save_adapter(opened.model, opened.tokenizer, plan.adapter, base, folder.path)
        return
    model = opened.model
    if plan.objective.name in EMBEDDINGS:
        write_pooling(folder.path, model.pooling, int(model.config.hidden_size))
        model = model.encoder
    save_model(model, opened.tokenizer, folder.path)


def _flat(facts: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Plain values by path, for trackers."""
    found: dict[str, Any] = {}
    for key, value in facts.items():
        if isinstance(value, Mapping):
            found |= _flat(value, f"{prefix}{key}.")
        elif isinstance(value, int | float | str | bool):
            found[f"{prefix}{key}"] = value
    return found
