"""The command `tune`: what to select for a model and a task, found within a budget."""

from __future__ import annotations

import dataclasses
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from corpusfit.core.artifacts import is_local
from corpusfit.core.errors import UsageError, bad_setting
from corpusfit.core.manifest import digest, locked, source_as_dict, source_identity, versions
from corpusfit.core.types import Source
from corpusfit.embed.folders import find, require_extras
from corpusfit.embed.hardware import resolve
from corpusfit.evaluation.decontamination.heldout import held_out
from corpusfit.selection.commands import select
from corpusfit.selection.folder import SelectionFolder
from corpusfit.selection.result import Selection
from corpusfit.text.context import HERE, Machine, absolute, command_words, named_model
from corpusfit.text.pairs import sampled, with_side
from corpusfit.training.adapting import Adapted, adapt, open_base
from corpusfit.training.models import MODEL, fingerprint
from corpusfit.tuning.folder import TuneFolder
from corpusfit.tuning.grid import RANDOM
from corpusfit.tuning.plan import TunePlan
from corpusfit.tuning.result import Tuned
from corpusfit.tuning.schedule import Rung
from corpusfit.tuning.search import Search
from corpusfit.tuning.target import Parts, divide, read_texts, write_texts
from corpusfit.tuning.trial import Trial


@dataclass(frozen=True)
class TuneInputs:
    """The inputs of a tuning, as the user named them.

    Attributes:
        target: the task's texts.
        corpus: texts to select from.
        replay: general text to mix into every adaptation.
        guard: held-out texts of the task, in the form of `held_out`.
        guard_field: text field of the guard files.
    """

    target: Sequence[str]
    corpus: Sequence[str]
    replay: Sequence[str] = ()
    guard: Sequence[str] = ()
    guard_field: str = ""


def tune(
    plan: TunePlan,
    inputs: TuneInputs,
    out: Path,
    *,
    train: bool = False,
    machine: Machine = HERE,
    overwrite: bool = False,
) -> Tuned:
    """Find what to select for a model, by successive halving over short adaptations.

    A part of the target is held out; methods are fitted on the rest, and every trial adapts the
    model on one selection and measures the loss on the held-out part. The winner is selected again
    by the whole target. Every finished step is kept, so a killed search resumes.

    Reference: Jamieson and Talwalkar (2016); Golovin et al. (2017), section 3.2.1.
    """
    began = time.perf_counter()
    plan = plan.check()
    require_extras("Adapting a model", "train", plan.model.name)
    _require_usable(inputs, out)
    folder = TuneFolder(out)
    folder.claim()
    with locked(folder.work, "tune", make=True):
        # every trial would fail with a model that cannot be adapted, after the corpus is scored
        open_base(plan.adaptation(), resolve(plan.train, "train"), machine.progress.warn)
        found = _read(plan, inputs, folder, machine)
        texts = (sampled(found.corpus, plan.read), sampled(found.target, plan.target_read))
        read = with_side(plan.read, plan.embed.embedder, machine.progress.note, *texts)
        plan = dataclasses.replace(plan, read=read)
        folder.begin(found.identity(plan), overwrite=overwrite)
        if folder.finished() is None:
            folder.finish(_search(plan, inputs, found, folder, machine, began))
        folder.free()
        model = _train(plan, inputs, folder, machine) if train else None
    selection = SelectionFolder(folder.selection).finished()
    return Tuned(out, folder.finished() or {}, Selection(folder.selection, selection or {}), model)


@dataclass(frozen=True)
class _Found:
    target: list[Source]
    corpus: list[Source]
    replay: list[Source]
    guarded: dict[str, list[str]]
    base: str

    def identity(self, plan: TunePlan) -> dict[str, Any]:
        return {
            "command": "tune",
            **plan.decisive(),
            "target": source_identity(self.target),
            "corpus": source_identity(self.corpus),
            "replay": source_identity(self.replay),
            "guard": digest(self.guarded) if self.guarded else "",
            "base": self.base,
            "versions": {"corpusfit": versions()["corpusfit"]},
        }


def _require_usable(inputs: TuneInputs, out: Path) -> None:
    """Raise `UsageError` for inputs, folders and processes that a search cannot use."""
    for role in _ROLES:
        if "-" in getattr(inputs, role):
            cure = "Write it to a file first."
            allowed = "files: each method reads them again, and standard input ends"
            raise bad_setting(f"`{role}`", allowed, "-", cure)
    if not is_local(out):
        raise bad_setting("`out`", "a folder of this machine", str(out))
    if int(os.environ.get("WORLD_SIZE", "1")) > 1:
        raise UsageError(
            "tune runs its trials in one process. Start it without `accelerate launch`, and adapt "
            "on its selection with several processes afterwards."
        )


def _read(plan: TunePlan, inputs: TuneInputs, folder: TuneFolder, machine: Machine) -> _Found:
    read = plan.target_read
    read = dataclasses.replace(read, text_field=inputs.guard_field or read.text_field)
    with machine.running(folder.work) as context:
        asked = {role: getattr(inputs, role) for role in _ROLES}
        found = {role: context.find(own, plan.read, role) for role, own in asked.items() if own}
    guarded = held_out(inputs.guard, read, folder.work, machine.progress, setting="guard")
    base = fingerprint(find(plan.model.name, setting=MODEL))
    return _Found(found["target"], found["corpus"], found.get("replay", []), guarded, base)


_ROLES = ("target", "corpus", "replay")


def _search(
    plan: TunePlan,
    inputs: TuneInputs,
    found: _Found,
    folder: TuneFolder,
    machine: Machine,
    began: float,
) -> dict[str, Any]:
    """Search, select by the winner; the manifest."""
    guarded = [text for texts in found.guarded.values() for text in texts]
    parts = divide(read_texts(found.target, plan.target_read, machine.progress), guarded, plan)
    _note_parts(parts, machine)
    fields = {plan.read.text_field, plan.target_read.text_field}  # select and adapt read them
    fit, heldout, guard, clean = (
        write_texts(folder.texts / f"{name}.jsonl", texts, sorted(fields))
        for name, texts in (
            ("fit", parts.fit),
            ("heldout", parts.heldout),
            ("guard", [*guarded, *parts.heldout]),
            ("target", parts.clean),
        )
    )
    search = Search(plan, folder, inputs.corpus, inputs.replay, fit, heldout, guard, machine, began)
    rungs, trials = search.run()
    winner = trials[0]
    machine.progress.note(f"Selecting by the winner, {winner.setting.label}, on the whole target.")
    select(
        plan.selection(winner.setting.method, winner.setting.fraction, winner.setting.weights),
        [clean] if parts.guarded else inputs.target,
        inputs.corpus,
        folder.selection,
        machine=machine,
        overwrite=True,
    )
    options = {"guard-field": inputs.guard_field}
    named = {role: absolute(getattr(inputs, role)) for role in (*_ROLES, "guard")}
    settings = plan.with_value("model.name", named_model(plan.model.name)).overrides()
    return {
        "command": "tune",
        "corpusfit": versions()["corpusfit"],
        "versions": versions(),
        "plan": plan.as_dict(),
        "repeat": command_words("tune", named, options, settings),
        "given": named,
        **{role: [source_as_dict(source) for source in getattr(found, role)] for role in _ROLES},
        "counts": {
            "target": len(parts.clean) + parts.guarded,
            "guarded": parts.guarded,
            "fit": len(parts.fit),
            "heldout": len(parts.heldout),
            "near": parts.near,
        },
        "base": trials[0].losses[0][1],
        "bits": search.bits,
        "rungs": [dataclasses.asdict(rung) for rung in rungs],
        "trials": [dataclasses.asdict(trial) for trial in trials],
        "winner": dataclasses.asdict(winner),
        "conclusions": concluded(trials, rungs, plan.search.margin),
        "warnings": search.quiet.warnings,
        "steps": sum(trial.done for trial in trials),
        "seconds": round(time.perf_counter() - began, 1),
    }


def _note_parts(parts: Parts, machine: Machine) -> None:
    """Show how the target is divided."""
    near = f", {parts.near:,} near-duplicates of these left out" if parts.near else ""
    machine.progress.note(
        f"Target: {len(parts.fit):,} texts to select by, {len(parts.heldout):,} to measure the "
        f"loss on{near}."
    )
    if parts.guarded:
        machine.progress.warn(
            f"{parts.guarded:,} texts of the target contain a text of `guard` and are not used."
        )


def concluded(trials: Sequence[Trial], rungs: Sequence[Rung], margin: float) -> list[str]:
    """What the search shows, in sentences."""
    winner, base = trials[0], trials[0].losses[0][1]
    found = [
        f"Winner: {winner.setting.label}; held-out loss on the target {base:.3f} → "
        f"{winner.loss:.3f} nats per token after {winner.done:,} steps (lower is better)."
    ]
    level = [
        trial.setting.label
        for trial in trials[1:]
        if trial.rung == len(rungs) and trial.loss <= winner.loss + margin
    ]
    if level:
        found.append(f"No difference shown, within {margin:g}: {', '.join(level)}.")
    chance = next(t for t in trials if t.setting.method == RANDOM)
    rival = next((t for t in trials if t.rung == chance.rung and t.setting == winner.setting), None)
    at = rival.at(chance.done) if rival is not None and not chance.error else None
    if at is not None and rival is not chance:
        found.append(
            f"At {chance.done:,} steps the loss is {at:.3f} with {winner.setting.label}, and "
            f"{chance.loss:.3f} with random text."
        )
    if winner.setting.method == RANDOM:
        found.append("Random text was best: no method tried helps this model at this budget.")
    if winner.loss >= base:
        found.append("No setting lowered the loss of the model before adaptation.")
    return found


def _train(plan: TunePlan, inputs: TuneInputs, folder: TuneFolder, machine: Machine) -> Adapted:
    """Adapt the model on the winner's selection, then on the target if the winner does."""
    then_task = (folder.finished() or {})["winner"]["setting"]["then_task"]
    return adapt(
        plan.adaptation(then_task=then_task),
        [str(folder.selection)],
        folder.model,
        task=[str(folder.texts / "target.jsonl")],
        replay=inputs.replay,
        guard=inputs.guard,
        guard_field=inputs.guard_field or plan.fit.target_field,
        machine=machine,
    )
