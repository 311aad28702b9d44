"""The command `tune`: what to select for a model and a task, found within a budget."""

from __future__ import annotations

import dataclasses
import time
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import orjson

from corpusfit import text as corpus
from corpusfit.core.artifacts import is_local, write_bytes
from corpusfit.core.engine import Progress
from corpusfit.core.errors import InputError, bad_setting, require_one_process
from corpusfit.core.manifest import digest, locked, source_as_dict, source_identity, versions
from corpusfit.core.plan import ReadPlan
from corpusfit.core.types import Source, text_array
from corpusfit.embed.folders import find, require_extra
from corpusfit.embed.hardware import resolve
from corpusfit.evaluation.decontamination.finder import ContaminationFinder, HeldoutIndex
from corpusfit.evaluation.decontamination.heldout import held_out
from corpusfit.evaluation.splitting import Groups
from corpusfit.selection.commands import select
from corpusfit.selection.dry_run import estimate
from corpusfit.selection.folder import SelectionFolder
from corpusfit.selection.result import Selection
from corpusfit.text import cures
from corpusfit.text.context import HERE, Machine, absolute, command_words, named_model
from corpusfit.text.pairs import sampled, with_side
from corpusfit.text.reading import Reasons, read_shard
from corpusfit.text.same_text import folded, form_of, text_keys
from corpusfit.training.adapting import Adapted, adapt, estimate_adaptation, open_base
from corpusfit.training.models import MODEL, fingerprint
from corpusfit.tuning.folder import Tuned, TuneFolder
from corpusfit.tuning.plan import TunePlan
from corpusfit.tuning.schedule import RANDOM, Rung, grid, halving, seconds_of, steps_within
from corpusfit.tuning.search import Search, Trial

MIN_TEXTS = 8
"""Fewest different texts of a target."""


@dataclass(frozen=True)
class Parts:
    """The texts of a target, divided."""

    fit: list[str]  # texts to select by during the search
    heldout: list[str]  # texts to measure the loss on, with no near-duplicate in `fit`
    clean: list[str]  # all texts that hold no guarded text, for the winner's selection
    guarded: int  # number of unused texts, which hold one

    @property
    def near(self) -> int:
        """Number of texts that are left out of `fit` as near-duplicates of a held-out one."""
        return len(self.clean) - len(self.fit) - len(self.heldout)


def divide(texts: Sequence[str], guarded: Iterable[str], plan: TunePlan) -> Parts:
    """Divide a target at random, so that the loss is measured on text that nothing was fitted on.

    Copies (the same text) and near-duplicates (0.8 of a text's 5-grams within another) of a
    held-out text are not selected by.
    """
    usable = list(dict.fromkeys(text for text in texts if form_of(folded(text))))
    holders = _found(usable, HeldoutIndex.of_texts(guarded))
    clean = [text for i, text in enumerate(usable) if i not in holders]
    groups = Groups.of_keys(text_keys(clean), np.ones(len(clean), np.bool_), plan.seed)
    wanted = max(1, min(round(plan.search.heldout * len(clean)), plan.mix.heldout))
    held = set(range(int(np.searchsorted(np.cumsum(groups.sizes), wanted)) + 1))
    near = _near(clean, groups)
    out = held.union(*(near[group] for group in held))
    group_of = groups.of.tolist()
    heldout = [text for text, group in zip(clean, group_of, strict=True) if group in held]
    fit = [text for text, group in zip(clean, group_of, strict=True) if group not in out]
    if len(groups.sizes) < MIN_TEXTS or not fit:
        without = f" that hold no text of `guard` ({len(holders):,} do)" if holders else ""
        raise InputError(
            f"`target` must have at least {MIN_TEXTS} different texts{without} and no "
            f"near-duplicates of each other, some to select by and some to measure the loss on; it "
            f"has {len(groups.sizes):,}, {len(fit):,} of them to select by. Add texts to `target`."
        )
    return Parts(fit, heldout, clean, len(holders))


def _found(texts: Sequence[str], index: HeldoutIndex) -> dict[int, list[int]]:
    """By position of a text, the numbers of the indexed texts in it."""
    numbers: dict[int, list[int]] = {}
    matches = ContaminationFinder(index).find(text_array(list(texts)))
    for text, number in zip(matches.text.tolist(), matches.watched.tolist(), strict=True):
        numbers.setdefault(text, []).append(number)
    return numbers


def _near(texts: Sequence[str], groups: Groups) -> dict[int, set[int]]:
    """By group, the other groups with a near-duplicate of one of its texts."""
    index = HeldoutIndex.of_texts(texts)
    groups_of: dict[int, set[int]] = defaultdict(set)
    for number, group in zip(index.numbers(texts).tolist(), groups.of.tolist(), strict=True):
        groups_of[number].add(group)
    near: dict[int, set[int]] = defaultdict(set)
    for holder, numbers in _found(texts, index).items():
        for group in {g for number in numbers for g in groups_of[number]}:
            if group != groups.of[holder]:
                near[group].add(int(groups.of[holder]))
                near[int(groups.of[holder])].add(group)
    return near


def read_texts(sources: list[Source], read: ReadPlan, progress: Progress) -> list[str]:
    """The texts of the target, in order, with a warning on rows that have none."""
    texts: list[str] = []
    rejected, losses = Reasons(), cures.Losses()
    for shard in corpus.shards(sources, read):
        documents, tally = read_shard(shard, read, tuple(s.name for s in sources))
        texts += documents.texts.to_pylist()
        rejected.add(tally.rejects)
        losses.add(sources[shard.source].name, tally.documents, tally.reasons())
    if rejected.counts:
        unused = f"{rejected.counts.total():,} rows of the target were not used: {rejected}."
        progress.warn(f"{unused} {losses.cure(sources, read)}".rstrip())
    return texts


def write_texts(path: Path, texts: Sequence[str], fields: Sequence[str]) -> str:
    """Write texts as JSON lines, each under every field; returns the path as an input."""
    rows = (orjson.dumps(dict.fromkeys(fields, text)) for text in texts)
    write_bytes(path, b"".join(row + b"\n" for row in rows))
    return str(path)


@dataclass(frozen=True)
class TuneInputs:
    """The inputs of a tuning, as the user named them."""

    target: Sequence[str]  # the task's texts
    corpus: Sequence[str]  # texts to select from
    replay: Sequence[str] = ()  # general text to mix into every adaptation
    guard: Sequence[str] = ()  # held-out texts of the task, in the form of `held_out`
    guard_field: str = ""  # text field of the guard files


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
    require_extra("Adapting a model", "train")
    _require_usable(inputs, out)
    folder = TuneFolder(out)
    folder.claim()
    with locked(folder.work, "tune", make=True):
        # every trial would fail with a model that cannot be adapted, after the corpus is scored
        open_base(plan.adaptation(), resolve(plan.train, "train"), machine.progress.warn)
        sources = _read(plan, inputs, folder, machine)
        texts = (sampled(sources.corpus, plan.read), sampled(sources.target, plan.target_read))
        read = with_side(plan.read, plan.embed.embedder, machine.progress.note, *texts)
        plan = dataclasses.replace(plan, read=read)
        folder.begin(sources.identity(plan), overwrite=overwrite)
        if folder.finished() is None:
            folder.finish(_search(plan, inputs, sources, folder, machine, began))
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
    require_one_process("tune")


def _read(plan: TunePlan, inputs: TuneInputs, folder: TuneFolder, machine: Machine) -> _Found:
    read = plan.target_read
    read = dataclasses.replace(read, text_field=inputs.guard_field or read.text_field)
    with machine.running(folder.work) as context:
        named = {role: getattr(inputs, role) for role in _ROLES}
        sources = {
            role: context.find(names, plan.read, role) for role, names in named.items() if names
        }
    guarded = held_out(inputs.guard, read, folder.work, machine.progress, setting="guard")
    base = fingerprint(find(plan.model.name, setting=MODEL))
    return _Found(sources["target"], sources["corpus"], sources.get("replay", []), guarded, base)


_ROLES = ("target", "corpus", "replay")


def _search(
    plan: TunePlan,
    inputs: TuneInputs,
    sources: _Found,
    folder: TuneFolder,
    machine: Machine,
    began: float,
) -> dict[str, Any]:
    """Search for the best setting and select by it; returns the manifest."""
    guarded = [text for texts in sources.guarded.values() for text in texts]
    parts = divide(read_texts(sources.target, plan.target_read, machine.progress), guarded, plan)
    _note_parts(parts, machine)
    # the fields that select and adapt read
    fields = {plan.read.text_field, plan.target_read.text_field}
    # the held-out texts are guarded, too, so that no trial trains on a copy of one
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
    # the winner selects by the whole target, because nothing is measured any more
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
        **{role: [source_as_dict(source) for source in getattr(sources, role)] for role in _ROLES},
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
        "conclusions": conclude(trials, rungs, plan.search.margin),
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


def conclude(trials: Sequence[Trial], rungs: Sequence[Rung], margin: float) -> list[str]:
    """The conclusions of a search, in sentences."""
    winner, base = trials[0], trials[0].losses[0][1]
    conclusions = [
        f"Winner: {winner.setting.label}; held-out loss on the target {base:.3f} → "
        f"{winner.loss:.3f} nats per token after {winner.done:,} steps (lower is better)."
    ]
    level = [
        trial.setting
        for trial in trials[1:]
        if trial.rung == len(rungs)
        and not (trial.stopped or trial.error)  # one that was stopped has the loss of fewer steps
        and trial.loss <= winner.loss + margin
    ]
    if level:
        labels = ", ".join(setting.label for setting in level)
        conclusions.append(f"No difference shown, within {margin:g}: {labels}.")
    chance = next(t for t in trials if t.setting.method == RANDOM)
    rival = next((t for t in trials if t.rung == chance.rung and t.setting == winner.setting), None)
    at = rival.at(chance.done) if rival is not None and not chance.error else None
    if at is not None and rival is not chance:
        conclusions.append(
            f"At {chance.done:,} steps the loss is {at:.3f} with {winner.setting.label}, and "
            f"{chance.loss:.3f} with random text."
        )
    if all(setting.method == RANDOM for setting in (winner.setting, *level)):
        conclusions.append("Random text was best: no method tried helps this model at this budget.")
    if winner.loss >= base:
        conclusions.append("No setting lowered the loss of the model before adaptation.")
    return conclusions


def _train(plan: TunePlan, inputs: TuneInputs, folder: TuneFolder, machine: Machine) -> Adapted:
    """Adapt the model on the winner's selection, then on the target if it has a second phase."""
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


_AROUND = 10.0
"""Assumed seconds of a trial outside of its training: selecting, tokenising, opening the model."""
_MEASURED = 1.2
"""Assumed cost of a step with its share of the measurements, in steps."""
_UNNAMED = "moore_lewis"
"""Method whose time is that of each method without `search.methods`."""


def estimate_tuning(plan: TunePlan, inputs: TuneInputs, *, machine: Machine) -> dict[str, Any]:
    """Measure a few steps on the first MiB of the corpus, and project."""
    plan = plan.check()
    search = plan.search
    methods = search.method_names() or [_UNNAMED] * search.keep
    scored = [
        estimate(plan.selection(name), inputs.target, inputs.corpus, machine=machine)
        for name in dict.fromkeys(methods)
    ]
    of_method = dict(zip(dict.fromkeys(methods), scored, strict=True))
    ranked = 0 if search.methods else 1
    scoring = sum(of_method[m]["seconds"] for m in methods) + (2 + ranked) * scored[0]["seconds"]
    trained = estimate_adaptation(plan.adaptation(search.least), inputs.corpus, machine=machine)
    numbered = [f"{name}{i}" for i, name in enumerate(methods)]
    settings = len(grid(search, numbered))
    step = trained["step_s"] * _MEASURED
    budget = search.steps
    if budget is None:
        budget = steps_within(search, settings, elapsed=scoring, step=step, around=_AROUND)
    rungs = halving(settings, budget, eta=search.eta, least=search.least)
    return {
        "rungs": [dataclasses.asdict(rung) for rung in rungs],
        "settings": settings,
        "steps": sum(rung.trials * rung.steps for rung in rungs),
        "step_s": trained["step_s"],
        "scoring_s": scoring,
        "seconds": round(scoring + seconds_of(rungs, step, _AROUND)),
        "memory_mb": max(trained["memory_mb"], *(s["memory_mb"] for s in scored)),
        "disk_mb": trained["disk_mb"] + sum(s["disk_mb"] for s in scored),
    }
