"""The command `adapt`: continued pre-training of a model on a selection or other text."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import json
import statistics
import time
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import orjson

from corpusfit import text as corpus
from corpusfit.core.artifacts import remove, user_path, write_bytes
from corpusfit.core.engine import Progress
from corpusfit.core.errors import bad_setting
from corpusfit.core.manifest import Finished, digest, locked, source_identity, versions
from corpusfit.core.plan import PAIR, ReadPlan
from corpusfit.core.types import Document, Source
from corpusfit.embed.folders import require_extra
from corpusfit.embed.hardware import Hardware, resolve
from corpusfit.evaluation.decontamination.heldout import held_out, held_out_of_task, training_splits
from corpusfit.evaluation.decontamination.report import find_contaminated
from corpusfit.selection.publishing import SELECTED, write_model_card
from corpusfit.text.context import HERE, Machine, absolute, command_words, named_model, peak
from corpusfit.text.same_text import FORM
from corpusfit.training import adapters
from corpusfit.training.adapter import require_adaptable
from corpusfit.training.chats import Chats
from corpusfit.training.contract import Objective
from corpusfit.training.data import require_suitable, sharpness, training_text
from corpusfit.training.defaults import (
    Size,
    length_of,
    resolve_training,
    task_phase,
)
from corpusfit.training.folder import AdaptFolder
from corpusfit.training.inputs import (
    TrainingInputs,
    find_training_inputs,
    holds_conversations,
    require_own_text,
    require_pairs,
    require_task,
    rows_read,
    sample_texts,
    with_conversations,
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
from corpusfit.training.phases import ROLES, PhaseRunner, Ready, model_bytes
from corpusfit.training.plan import (
    ALL,
    TASK,
    AdaptPlan,
    MixPlan,
    ThenTaskPlan,
    WeightsPlan,
)
from corpusfit.training.schedule import naming_memory_errors, no_room_error
from corpusfit.training.sharding import launched_sharded, naming_lost_processes
from corpusfit.training.special_tokens import backend_tokenizer
from corpusfit.training.trainer import (
    opened_callbacks,
    require_batch,
    start_accelerator,
)


class Adapted(Finished):
    """A finished adaptation: a model for `AutoModel.from_pretrained`, or an adapter."""

    def history(self) -> list[dict[str, Any]]:
        """Training and held-out losses by step: the records of `losses.jsonl`."""
        lines = (self.path / "losses.jsonl").read_text("utf-8").splitlines()
        return [json.loads(line) for line in lines]


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
    if launched_sharded():
        plan = plan.with_value("train.shard", True)
    plan = plan.check()
    require_extra("Adapting a model", "train")
    callbacks = opened_callbacks(callbacks)
    hardware = resolve(plan.train, "train")
    if plan.train.shard and hardware.precision == "fp16":  # a scaler sees the gradients of one part
        hardware = hardware._replace(precision="fp32")
    folder = AdaptFolder(out)
    folder.claim()
    accelerator = start_accelerator(hardware.device, track)
    if plan.train.batch is not None:
        require_batch(plan.train.batch, accelerator.num_processes)
    if not accelerator.is_main_process:
        machine = dataclasses.replace(machine, progress=Progress())
    alone = locked(folder.work, "adapt", make=True)
    with alone if accelerator.is_main_process else contextlib.nullcontext():
        with accelerator.main_process_first():  # the other processes find the files
            inputs = (data, task, replay, guard)
            ready = _prepare(
                plan,
                inputs,
                folder,
                hardware,
                machine,
                guard_field=guard_field,
                overwrite=overwrite,
                weights=accelerator.is_main_process or not plan.train.shard,
            )
        if not isinstance(ready, Ready):
            return Adapted(out, ready)
        runner = PhaseRunner(hardware, accelerator, machine.progress, track, out, callbacks)
        try:
            with naming_memory_errors(no_room_error(hardware.device)):
                facts = runner.run(ready, folder)
            # on task text alone, the command sets every setting, also those of `TAPT`
            on_task = list(data) == [TASK]
            texts = {"task": absolute(task), "replay": absolute(replay), "guard": absolute(guard)}
            texts = {"data": list(data) if on_task else absolute(data), **texts}
            repeatable = plan.with_value("model.name", named_model(plan.model.name))
            settings = repeatable.overrides(all_of_them=on_task)
            if ready.texts.selection:
                facts["selection"] = {k: ready.texts.selection.get(k) for k in SELECTED}
            facts["repeat"] = command_words("adapt", texts, {"guard-field": guard_field}, settings)
            if accelerator.is_main_process:
                facts["seconds"] = round(time.perf_counter() - began, 1)
                write_model_card(out, facts)
                folder.finish(facts)
                folder.free()
            accelerator.wait_for_everyone()
        finally:
            # this ends the process group, too, so no process may wait after it
            accelerator.end_training()
        return Adapted(out, folder.finished() or facts)


def _prepare(
    plan: AdaptPlan,
    inputs: tuple[Sequence[str], ...],
    folder: AdaptFolder,
    hardware: Hardware,
    machine: Machine,
    *,
    guard_field: str,
    overwrite: bool,
    weights: bool,
) -> Ready | dict[str, Any]:
    """The model and the text, or the manifest of a finished training."""
    for name in filter(None, [plan.model.name, *itertools.chain(*inputs)]):
        path = user_path(name)  # `overwrite` would delete it
        if path.exists() and path.resolve().is_relative_to(folder.path.resolve()):
            allowed = "a folder that does not contain the model or the texts"
            raise bad_setting("`out`", allowed, str(folder.path), "Choose another folder.")
    data, task, replay, guard = inputs
    heldout: Sequence[str] = ()
    if plan.then_task.on:
        task, heldout = training_splits(data, task, machine.progress)
    require_own_text(data, task)
    # a wrong model must fail before a large corpus is read for hours
    warn = machine.progress.warn
    base = None if plan.model.init else open_base(plan, hardware, warn, weights=weights)
    with machine.running(folder.work) as context:
        texts = find_training_inputs(data, task, replay, plan.read, context)
        if plan.then_task.on:
            require_task(texts)
        # held-out texts: those of `guard`, and dev and test of the task of a second phase
        read = dataclasses.replace(plan.read, text_field=guard_field or plan.read.text_field)
        guarded = held_out(guard, read, machine.progress, setting="guard")
        guarded |= held_out_of_task(heldout, plan.read, machine.progress)
        kind = plan.objective.kind
        pairs = kind.columns == 2
        if pairs:
            texts = require_pairs(texts, machine.progress)
        require_suitable(plan, texts)
        texts, chats = with_conversations(plan, texts, base, machine.progress)
        heldout_texts = itertools.chain(*guarded.values())
        opened = _opened(plan, base, texts, heldout_texts, hardware, machine.progress)
        identity = _identity(plan, texts, opened) | (
            {"guard": digest(guarded), "same_text": FORM} if guarded else {}
        )
        identity |= {"chats": 1} if chats else {}
        identity |= kind.identity(opened.model)
        folder.begin(identity, overwrite=overwrite)
        done = folder.finished()
        if done is not None:
            folder.free()  # a kill may have come between `finish` and `free`
            return done
        length = length_of(plan, opened.max_length, hardware.device)
        # conversations have all special tokens already, and other texts are given them
        special = opened.special
        if chats:
            special = dataclasses.replace(special, prefix=(), suffix=())
        trained_with = objective(plan.objective, special, length)
        if pairs or chats:
            remove(folder.pair_tokenizer)
            opened.tokenizer.save_pretrained(folder.pair_tokenizer)
        else:
            backend = backend_tokenizer(opened.tokenizer, opened.name)
            write_bytes(folder.tokenizer, backend.to_str().encode())
        # only a causal model has to learn where texts end
        end = opened.special.end if kind.causal else None
        longest = text_length(length, trained_with)
        dropped = np.empty(0, np.uint64)
        counts = dict[str, Any]()
        if guarded:
            dropped, counts = find_contaminated(
                guarded,
                texts,
                plan.read,
                folder.guard,
                context,
                then_task=plan.then_task.on,
                pairs=pairs,
            )
        form = Chats(plan.objective.loss_on, longest, opened.special.prefix) if chats else None
        text = training_text(
            plan,
            texts,
            folder,
            longest,
            end,
            context,
            dropped=dropped,
            chats=form,
        )
        text.figures.update({"guard": counts} if guarded else {})
    ready = Ready(plan, texts, opened, trained_with, text, length, texts.on_task)
    if text.then is None:
        return ready
    own_plan = task_phase(plan, length)
    phase = dataclasses.replace(ready, plan=own_plan, text=text.then, on_task=True)
    return dataclasses.replace(ready, then=phase)


def _identity(plan: AdaptPlan, texts: TrainingInputs, opened: LoadedModel) -> dict[str, Any]:
    """What must be equal to resume a training; a model is identified by its content."""
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
    }


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


def _opened(
    plan: AdaptPlan,
    base: LoadedModel | None,
    texts: TrainingInputs,
    guarded: Iterable[str],
    hardware: Hardware,
    progress: Progress,
) -> LoadedModel:
    """The untrained model, or the base with the words that join its vocabulary."""
    held = list(guarded)
    characters = plan.model.tokenizer_characters
    if base is None:
        # of pairs, texts of both columns
        reads = texts.read.sides() if plan.objective.kind.columns == 2 else (texts.read,)
        each = (dataclasses.replace(texts, read=read) for read in reads)
        samples = (sample_texts(some, plan.seed, held, characters) for some in each)
        return new_model(
            plan.model.init,
            plan.objective.name,
            itertools.chain.from_iterable(samples),
            vocabulary=plan.model.vocabulary,
            dropout=plan.model.dropout,
            attention=hardware.attention,
            seed=plan.seed,
        )
    if not plan.model.add_tokens:
        return base
    sample = sample_texts(texts, plan.seed, held, characters)
    new = find_new_words(sample, base, plan.model.add_tokens)
    examples = f", such as {', '.join(new.words[:3])}" if new.words else ""
    progress.note(
        f"{len(new.words):,} words join the vocabulary{examples}; the data's words take "
        f"{new.shorter:.1%} fewer tokens."
    )
    return add_words(base, new, plan.objective.name)


_STEPS = 5
_SAMPLED = 1 << 20


class _StepClock(Progress):
    """Records when a training begins, when each of its steps ends, and when all is measured."""

    def __init__(self) -> None:
        self._ends: list[float] = []
        self._training = False
        self._began = self._ended = 0.0

    def begin(self, stage: str, total: float, unit: str = "units") -> None:
        """Time the training alone."""
        self._training = stage == "adapt"
        self._began = time.perf_counter()

    def advance(self, done: float, units: int = 0) -> None:
        """Note the end of a training step."""
        if self._training:
            self._ends.append(time.perf_counter())

    def end(self) -> None:
        """Note the end of the training."""
        if self._training:
            self._ended = time.perf_counter()
            self._training = False

    def step(self) -> float:
        """Median seconds per step, the first step excluded."""
        pairs = zip(self._ends, self._ends[1:], strict=False)
        return statistics.median(after - before for before, after in pairs)

    @property
    def trained(self) -> float:
        """Seconds of all steps and measurements."""
        return self._ended - self._began

    @property
    def measurement(self) -> float:
        """Seconds of the measurement after the last step."""
        return self._ended - self._ends[-1]


def estimate_adaptation(
    plan: AdaptPlan,
    data: Sequence[str],
    *,
    task: Sequence[str] = (),
    replay: Sequence[str] = (),
    guard: Sequence[str] = (),
    guard_field: str = "",
    machine: Machine,
) -> dict[str, Any]:
    """Train a few steps on the first MiB of the data in a temporary folder, and project."""
    # Takes what `adapt` takes. The model is loaded, and downloaded if needed. Memory that
    # grows after the first steps and the time in which `guard` reads all of the data are not
    # measured. A second phase is measured with the base model.
    plan = plan.check()
    if plan.then_task.on:
        task, _ = training_splits(data, task, machine.progress)
    with TemporaryDirectory(prefix="corpusfit-") as scratch:
        work = Path(scratch)
        with machine.running(work) as context:
            texts = find_training_inputs(data, task, replay, plan.read, context)
            if plan.then_task.on:
                require_task(texts)
        chats = False
        if plan.objective.kind.causal:
            own_read = rows_read(texts)
            chats = holds_conversations(texts.data or texts.task, own_read)
            chats = chats or plan.objective.loss_on != ALL
            texts = dataclasses.replace(texts, read=own_read) if chats else texts

        # imports are slow, and a command that trains several times has them once
        if not plan.model.init:
            hardware = resolve(plan.train, "train")
            open_base(plan, hardware, machine.progress.warn, weights=False)

        # measure each phase as a training of its own
        phase = partial(
            _projected,
            texts=texts,
            work=work,
            guard=guard,
            guard_field=guard_field or plan.read.text_field,
            machine=machine,
            chats=chats,
        )
        one = dataclasses.replace(plan, then_task=ThenTaskPlan())
        first = phase(one, on_task=texts.on_task)
        if not plan.then_task.on:
            return first
        second = phase(task_phase(plan, first["length"]), on_task=True)
    summed = ("max_steps", "seconds", "around_s", "disk_mb")
    both = {name: first[name] + second[name] for name in summed}
    both["step_s"] = both["seconds"] / both["max_steps"]
    both["memory_mb"] = max(first["memory_mb"], second["memory_mb"])
    estimates = (first["memory_gb"], second["memory_gb"])
    both["memory_gb"] = max(estimates, key=lambda gb: gb.get("total", 0.0))
    summary = f"{first['words']} Then, on the task's text: {second['words']}"
    return {**first, **both, "words": summary, "phases": [first, second]}


def _projected(
    plan: AdaptPlan,
    *,
    on_task: bool,
    texts: TrainingInputs,
    work: Path,
    guard: Sequence[str],
    guard_field: str,
    machine: Machine,
    chats: bool,
) -> dict[str, Any]:
    """Project one phase from a few measured steps, on the data or on the task's texts."""
    work = work / ("on task" if on_task else "on data")
    pairs = plan.objective.kind.columns == 2
    sources, read = (texts.task, texts.task_read) if on_task else (texts.data, texts.read)
    sample, share = _sample(sources, read, work, pairs=pairs, chats=chats)
    data = [sample]
    task = []
    task_share = 1.0
    if on_task:
        data = [TASK]
        task = [sample]
    elif texts.task and not (chats or pairs):
        name, task_share = _sample(
            texts.task, texts.task_read, work / TASK, pairs=False, chats=False
        )
        task = [name]
    short = dataclasses.replace(
        plan.train, max_steps=_STEPS, epochs=None, evaluations=1, keep="last"
    )
    sample_read = ReadPlan(text_field=read.text_field) if chats else ReadPlan()
    small = dataclasses.replace(
        plan, read=sample_read, weights=WeightsPlan(), mix=MixPlan(heldout=8), train=short
    )
    clock = _StepClock()
    quiet = dataclasses.replace(machine, cache=work / "cache", progress=clock)
    began = time.perf_counter()
    manifest = adapt(
        small,
        data,
        work / "model",
        task=task,
        guard=guard,
        guard_field=guard_field,
        machine=quiet,
    ).manifest
    around = time.perf_counter() - began - clock.trained
    counts = manifest["counts"][TASK if on_task else "data"]
    trained = counts["tokens"] - counts.get("first_tokens", 0)
    sampled = (trained, manifest["rows"], manifest["chunks"])
    # extrapolate the sample by its share of the stored bytes
    tokens, rows, chunks = (round(n / share) for n in sampled)
    parameters = manifest["parameters"]
    length = manifest["training"]["length"]
    size = Size(tokens, rows, chunks, parameters, length, manifest["device"])
    train, summary = resolve_training(plan, size, on_task=on_task)
    steps = train.max_steps or 0
    step_s = clock.step()
    # Each text gives at most one held-out sequence; of the data one in twenty gives one.
    sequences = min(plan.mix.heldout, counts["texts"] / share / 20)
    if texts.task and not on_task:
        most = plan.mix.task_sequences or plan.mix.heldout
        known = manifest["counts"][TASK]["texts"] / task_share if task else most
        sequences += min(most, known)
    if held := sum(manifest["heldout"].values()):
        measurements = 1 + min(train.evaluations, max(1, steps))
        around += measurements * sequences * clock.measurement / held
    return {
        "sources": len(sources),
        "stored_mb": sum(s.size for s in sources) / 1e6,
        "tokens": tokens,
        "parameters": parameters,
        "trained": manifest["trained"],
        "length": length,
        "max_steps": steps,
        "words": summary,
        "step_s": step_s,
        "seconds": steps * step_s,
        "around_s": around,
        "memory_mb": peak(),
        "memory_gb": {name: size / 1e9 for name, size in manifest["memory"].items()},
        "disk_mb": (2 * tokens + model_bytes(manifest, train.checkpoints)) / 1e6,
    }


def _sample(
    sources: list[Source], read: ReadPlan, work: Path, *, pairs: bool, chats: bool
) -> tuple[str, float]:
    """Write the first texts of the data; returns the file, and its share of the stored bytes."""
    plans = read.sides() if pairs else (read,)
    rows: list[dict[str, Any]] = []
    seen = 0
    characters = 0
    for shard in corpus.shards(sources, read):
        seen = sum(s.size for s in sources[: shard.source]) + shard.position
        if chats:
            documents = [row for row in corpus.rows(shard, read) if isinstance(row, Document)]
            rows += [document.fields or {read.text_field: document.text} for document in documents]
            characters += sum(len(document.text) for document in documents)
        else:
            columns = [corpus.documents(shard, plan)[0].texts.to_pylist() for plan in plans]
            rows += [dict(zip(PAIR, texts, strict=False)) for texts in zip(*columns, strict=True)]
            characters += sum(map(len, columns[0]))
        if characters >= _SAMPLED:
            break
    share = min(1.0, seen / max(1, sum(s.size for s in sources)))
    if pairs:
        path = work / "sample.tsv"
        lines = ["\t".join(" ".join(text.split()) for text in row.values()) for row in rows]
        write_bytes(path, "".join(f"{line}\n" for line in lines).encode())
        return f"pair:{path}", share
    path = work / "sample.jsonl"
    write_bytes(path, b"".join(orjson.dumps(row) + b"\n" for row in rows))
    return str(path), share
