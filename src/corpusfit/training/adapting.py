"""The command `adapt`: continued pre-training of a model on a selection or other text."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from corpusfit.core.artifacts import remove, user_path, write_bytes
from corpusfit.core.engine import Progress
from corpusfit.core.errors import bad_setting
from corpusfit.core.manifest import Finished, digest, locked, source_identity, versions
from corpusfit.embed.folders import require_extra
from corpusfit.embed.hardware import Hardware
from corpusfit.embed.hardware import resolve as resolve_hardware
from corpusfit.labeled.heldout import held_out, held_out_of_task, training_splits
from corpusfit.selection.publishing import SELECTED, write_model_card
from corpusfit.text.context import (
    HERE,
    Machine,
    Run,
    absolute,
    command_words,
    local_cache,
    named_model,
)
from corpusfit.text.same_text import FORM
from corpusfit.training import adapters
from corpusfit.training.adapter import require_adaptable
from corpusfit.training.chats import Chats
from corpusfit.training.contract import Objective
from corpusfit.training.data import require_suitable, sharpness, training_text
from corpusfit.training.defaults import length_of
from corpusfit.training.folder import AdaptFolder
from corpusfit.training.guard import find_contaminated
from corpusfit.training.inputs import (
    CHATS,
    PAIRS,
    TEXTS,
    TrainingInputs,
    as_objective_reads,
    find_training_inputs,
    require_own_text,
    require_task,
    sample_texts,
)
from corpusfit.training.memory import require_memory
from corpusfit.training.models import (
    LoadedModel,
    add_words,
    find_new_words,
    new_model,
    open_model,
    recomputable,
    token_tables,
)
from corpusfit.training.objectives import objective
from corpusfit.training.phases import ROLES, PhaseRunner, TrainingSetup
from corpusfit.training.plan import TASK, AdaptPlan
from corpusfit.training.schedule import naming_memory_errors, no_room_error
from corpusfit.training.sharding import launched_sharded, naming_lost_processes
from corpusfit.training.special_tokens import backend_tokenizer
from corpusfit.training.tokenising import Tokenising
from corpusfit.training.trainer import opened_callbacks, require_batch, start_accelerator


class Adapted(Finished):
    """A finished adaptation: a model for `AutoModel.from_pretrained`, or an adapter."""

    def history(self) -> list[dict[str, Any]]:
        """Training and held-out losses by step: the records of `losses.jsonl`."""
        lines = (self.path / "losses.jsonl").read_text("utf-8").splitlines()
        return [json.loads(line) for line in lines]


@dataclass(frozen=True)
class Request:
    """What a training is asked for: its plan, and the names of its texts."""

    plan: AdaptPlan
    data: Sequence[str]
    task: Sequence[str] = ()
    replay: Sequence[str] = ()
    guard: Sequence[str] = ()
    guard_field: str = ""

    def require_outside(self, out: Path) -> None:
        """Raise `UsageError` if the folder of the results has an input: `overwrite` deletes it."""
        texts = (*self.data, *self.task, *self.replay, *self.guard)
        for name in filter(None, [self.plan.model.name, *texts]):
            path = user_path(name)
            if path.exists() and path.resolve().is_relative_to(out.resolve()):
                allowed = "a folder that does not contain the model or the texts"
                raise bad_setting("`out`", allowed, str(out), "Choose another folder.")

    def command(self) -> Any:
        """The command that repeats the training, for its manifest."""
        # on task text alone, the command sets every setting, also those of `TAPT`
        on_task = list(self.data) == [TASK]
        texts = {
            "data": list(self.data) if on_task else absolute(self.data),
            "task": absolute(self.task),
            "replay": absolute(self.replay),
            "guard": absolute(self.guard),
        }
        named = self.plan.with_value("model.name", named_model(self.plan.model.name))
        settings = named.overrides(all_of_them=on_task)
        return command_words("adapt", texts, {"guard-field": self.guard_field}, settings)


@dataclass(frozen=True, eq=False)
class Resolved:
    """What is decided of a training before its texts are read."""

    plan: AdaptPlan
    hardware: Hardware
    texts: TrainingInputs  # found, and in the form that the objective reads
    base: LoadedModel | None  # None to start from an untrained model, which is made of the texts
    # held-out texts by split, which no text that is trained on may contain: those of `guard`, and
    # dev and test of the task of a second phase
    guarded: Mapping[str, Sequence[str]]

    def identity(self, opened: LoadedModel) -> dict[str, Any]:
        """What must be equal to resume a training; a model is identified by its content."""
        plan = self.plan
        texts = self.texts
        trains = texts.on_task or plan.then_task.on or plan.train.keep != "last"
        decides = trains or not texts.own_task  # else the task's texts are only measured on
        return {
            "command": "adapt",
            **plan.decisive(),
            **{role: source_identity(getattr(texts, role)) for role in ROLES},
            **({} if decides else {"task": {}}),
            "lambda": list(sharpness(plan, texts)),
            "base": opened.fingerprint,
            "versions": {"corpusfit": versions()["corpusfit"]},
            **({"guard": digest(self.guarded), "same_text": FORM} if self.guarded else {}),
            **({"chats": 1} if texts.form == CHATS else {}),
            **plan.objective.kind.identity(opened.model),
        }


@naming_lost_processes()
def adapt(
    plan: AdaptPlan,
    data: Sequence[str],
    out: Path,
    *,
    task: Sequence[str] = (),
    replay: Sequence[str] = (),
    guard: Sequence[str] = (),
    guard_field: str = "",
    track: str = "",
    machine: Machine = HERE,
    overwrite: bool = False,
    callbacks: Sequence[Any] = (),
) -> Adapted:
    """Continue a model's pre-training."""
    # With several processes, the first one prepares the text, and each needs the text on its
    # machine or on shared storage.
    # Reference: TADPOLE, Algorithm 1, stage 2; mDAPT, section 3.3; Gururangan et al. (2020),
    # section 5, for both phases.
    began = time.perf_counter()
    request = Request(as_launched(plan), data, task, replay, guard, guard_field)
    require_extra("Adapting a model", "train")
    callbacks = opened_callbacks(callbacks)
    hardware = hardware_for(request.plan)
    folder = AdaptFolder(out)
    request.require_outside(folder.path)
    folder.claim()
    accelerator = start_accelerator(hardware.device, track)
    require_batch(request.plan.train.batch, accelerator.num_processes)
    main = accelerator.is_main_process
    if not main:
        machine = dataclasses.replace(machine, progress=Progress())
    alone = locked(folder.work, "adapt", make=True)
    with alone if main else contextlib.nullcontext():
        # the other processes find the files of the first
        with accelerator.main_process_first(), machine.running(folder.work) as run:
            weights = main or not request.plan.train.shard
            resolved = resolve(request, hardware, run, weights=weights)
            opened = with_vocabulary(resolved, run.progress)
            folder.begin(resolved.identity(opened), overwrite=overwrite)
            done = folder.finished()
            if done is not None:
                folder.free()  # a kill may have come between `finish` and `free`
                return Adapted(out, done)
            setup = prepare(resolved, opened, folder, run)
        runner = PhaseRunner(setup, accelerator, machine.progress, track, out, callbacks)
        try:
            with naming_memory_errors(no_room_error(hardware.device)):
                facts = runner.run(folder)
            if selection := resolved.texts.selection:
                facts["selection"] = {name: selection.get(name) for name in SELECTED}
            facts["repeat"] = request.command()
            if main:
                facts["seconds"] = round(time.perf_counter() - began, 1)
                write_model_card(out, facts)
                folder.finish(facts)
                folder.free()
            accelerator.wait_for_everyone()
        finally:
            # this ends the process group, too, so no process may wait after it
            accelerator.end_training()
        return Adapted(out, folder.finished() or facts)


def as_launched(plan: AdaptPlan) -> AdaptPlan:
    """A plan, checked, with `train.shard` if `accelerate launch` was asked for FSDP."""
    return (plan.with_value("train.shard", True) if launched_sharded() else plan).check()


def hardware_for(plan: AdaptPlan) -> Hardware:
    """The device and the precision of a training."""
    found = resolve_hardware(plan.train, "train")
    # a scaler of losses sees the gradients of one part alone
    divided = plan.train.shard and found.precision == "fp16"
    return found._replace(precision="fp32") if divided else found


def resolve(request: Request, hardware: Hardware, run: Run, *, weights: bool = True) -> Resolved:
    """Find the texts and open the model, and check both against every setting.

    Args:
        request: what is asked for; its plan is checked.
        hardware: device and precision.
        run: the running command.
        weights: whether to read the model's weights; see `open_model`.

    Raises:
        CorpusfitError: the training cannot be as it is asked for.
    """
    plan = request.plan
    task = request.task
    heldout: Sequence[str] = ()
    if plan.then_task.on:
        task, heldout = training_splits(request.data, task, run.progress)
    require_own_text(request.data, task)
    # a wrong model must fail before a large corpus is read for hours
    base = None
    if not plan.model.init:
        base = open_base(plan, hardware, run.progress.warn, weights=weights)
    found = find_training_inputs(request.data, task, request.replay, plan.read, run)
    if plan.then_task.on:
        require_task(found)
    read = dataclasses.replace(plan.read, text_field=request.guard_field or plan.read.text_field)
    guarded = held_out(request.guard, read, run.progress, setting="guard")
    guarded |= held_out_of_task(heldout, plan.read, run.progress)
    require_suitable(plan, found)
    texts = as_objective_reads(plan, found, base, run.progress)
    return Resolved(plan, hardware, texts, base, guarded)


def open_base(
    plan: AdaptPlan, hardware: Hardware, on_warn: Callable[[str], None], *, weights: bool = True
) -> LoadedModel:
    """Open the model that a plan names, and check it against every setting, before any text."""
    kind = plan.objective.kind
    opened = open_model(
        plan.model,
        plan.objective.name,
        attention=hardware.attention,
        seed=plan.seed,
        on_warn=on_warn,
        check=partial(require_memory, plan, hardware) if kind.language_model else None,
        weights=weights,
        as_stored=bool(plan.adapter.kind and adapters.load(plan.adapter.kind).narrow)
        and hardware.precision != "fp32"
        and not plan.train.shard,  # divided weights stay in one format
    )
    length = length_of(plan, opened.max_length, hardware.device)
    text_length(length, objective(plan.objective, opened.special, length))
    if plan.adapter.kind:
        require_adaptable(opened.model, plan.adapter)
    if plan.model.add_tokens:
        token_tables(opened.model, opened.name)
    if plan.train.checkpointing == "on" and not recomputable(opened.model):
        cure = f"{type(opened.model).__name__} has no layers that can be computed again."
        raise bad_setting("`train.checkpointing`", "auto or off for this model", "on", cure)
    tokenizer = opened.tokenizer
    ends = (tokenizer.bos_token_id, tokenizer.eos_token_id)
    if kind.causal and not opened.special.prefix and ends == (None, None):
        on_warn(
            f"The tokenizer of {opened.name} has no token that begins or ends a text, so texts are "
            "not ended in training, and `corpusfit evaluate` cannot measure their likelihood. Set "
            "its bos_token or eos_token."
        )
    return opened


def text_length(length: int, trained_with: Objective) -> int:
    """Tokens of a text in a sequence, without the special ones."""
    if length <= trained_with.overhead():
        cure = f"{trained_with.overhead()} of the tokens are special ones of this model."
        raise bad_setting("`train.length`", f"{trained_with.overhead() + 1} or more", length, cure)
    return length - trained_with.overhead()


def with_vocabulary(resolved: Resolved, progress: Progress) -> LoadedModel:
    """The model to train: an untrained one, or the base with the words that join its vocabulary."""
    plan = resolved.plan
    base = resolved.base
    texts = resolved.texts
    if base is not None and not plan.model.add_tokens:
        return base
    # of pairs, texts of both columns
    reads = texts.read.sides() if texts.form == PAIRS else (texts.read,)
    columns = (dataclasses.replace(texts, read=read) for read in reads)
    heldout = list(itertools.chain.from_iterable(resolved.guarded.values()))
    characters = plan.model.tokenizer_characters
    samples = (sample_texts(some, plan.seed, heldout, characters) for some in columns)
    sample = itertools.chain.from_iterable(samples)
    if base is None:
        return new_model(
            plan.model.init,
            plan.objective.name,
            sample,
            vocabulary=plan.model.vocabulary,
            dropout=plan.model.dropout,
            attention=resolved.hardware.attention,
            seed=plan.seed,
        )
    new = find_new_words(sample, base, plan.model.add_tokens)
    examples = f", such as {', '.join(new.words[:3])}" if new.words else ""
    progress.note(
        f"{len(new.words):,} words join the vocabulary{examples}; the data's words take "
        f"{new.shorter:.1%} fewer tokens."
    )
    return add_words(base, new, plan.objective.name)


def prepare(
    resolved: Resolved, opened: LoadedModel, folder: AdaptFolder, run: Run
) -> TrainingSetup:
    """Read the texts: leave out what holds a held-out text, tokenise the rest, and cut it."""
    plan = resolved.plan
    texts = resolved.texts
    length = length_of(plan, opened.max_length, resolved.hardware.device)
    special = opened.special
    if texts.form == CHATS:
        # conversations have all special tokens already, and other texts are given them
        special = dataclasses.replace(special, prefix=(), suffix=())
    trained_with = objective(plan.objective, special, length)
    longest = text_length(length, trained_with)
    tokenising = _tokenising(resolved, opened, longest, folder, run)
    dropped = np.empty(0, np.uint64)
    counts = dict[str, Any]()
    if resolved.guarded:
        dropped, counts = find_contaminated(
            resolved.guarded,
            texts,
            plan.read,
            folder.guard,
            run,
            replayed=plan.mix.replay_share > 0,
            then_task=plan.then_task.on,
            pairs=texts.form == PAIRS,
        )
    text = training_text(plan, texts, tokenising, folder, dropped)
    text.figures.update({"guard": counts} if resolved.guarded else {})
    return TrainingSetup(plan, resolved.hardware, texts, opened, trained_with, length, text)


def _tokenising(
    resolved: Resolved, opened: LoadedModel, longest: int, folder: AdaptFolder, run: Run
) -> Tokenising:
    """How texts become token ids, at most `longest` of one; writes the tokenizer for workers."""
    plan = resolved.plan
    form = resolved.texts.form
    chats = None
    if form == TEXTS:
        tokenizer = folder.tokenizer
        backend = backend_tokenizer(opened.tokenizer, opened.name)
        write_bytes(tokenizer, backend.to_str().encode())
    else:
        tokenizer = folder.pair_tokenizer
        remove(tokenizer)
        opened.tokenizer.save_pretrained(tokenizer)
    if form == CHATS:
        chats = Chats(plan.objective.loss_on, longest, opened.special.prefix)
    return Tokenising(
        resolved.texts.read,
        tokenizer,
        local_cache(run.cache) / "tokens",
        # only a causal model has to learn where texts end
        opened.special.end if plan.objective.kind.causal else None,
        run,
        plan.objective.name if form == PAIRS else "",
        longest,
        chats,
    )
