"""Trains the phases of an adaptation: on the data, then optionally on the task's texts."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

import numpy as np

from corpusfit.core.artifacts import write_bytes
from corpusfit.core.engine import Progress
from corpusfit.core.errors import ChangedInputError
from corpusfit.core.hub import pinned
from corpusfit.core.manifest import source_as_dict, versions, warn_if_disk_is_small
from corpusfit.core.plan import size_for
from corpusfit.embed.contract import file_digest
from corpusfit.embed.folders import write_pooling
from corpusfit.embed.hardware import Hardware
from corpusfit.embed.hardware import memory as free_memory
from corpusfit.embed.prediction import Predictor
from corpusfit.training import sharding
from corpusfit.training.adapter import add_adapter, hold_in_bf16, save_adapter
from corpusfit.training.batches import ChunkTokens, Passes
from corpusfit.training.chunks import Chunks
from corpusfit.training.contract import Base, Network, Objective
from corpusfit.training.data import TrainingText
from corpusfit.training.defaults import Size, resolve_training, task_phase
from corpusfit.training.folder import AdaptFolder, Checkpoints
from corpusfit.training.inputs import TrainingInputs
from corpusfit.training.memory import choose, outline
from corpusfit.training.models import (
    LoadedModel,
    open_model,
    recomputable,
    recompute,
    save_model,
)
from corpusfit.training.packing import Packing, find_packing
from corpusfit.training.plan import TASK, AdaptPlan, ModelPlan
from corpusfit.training.schedule import kept_measurement
from corpusfit.training.token_store import ChatTokens
from corpusfit.training.trainer import Heldout, Training, TrainingListener

ROLES = ("data", "task", "replay")
"""Roles of the texts that a command reads."""

_OF_A_PHASE = ("training", "words", "chunks", "rows", "tokens", "heldout", "losses", "weights")
_CHECKPOINT_BYTES = 12  # per trained parameter: the weight and AdamW's two moments
_MICRO_TOKENS = {"cpu": 4_096, "gpu": 16_384}


@dataclass(frozen=True, eq=False)
class TrainingSetup:
    """What a training needs before its first step: settings, model and tokenised texts."""

    plan: AdaptPlan
    hardware: Hardware
    texts: TrainingInputs
    opened: LoadedModel
    objective: Objective
    length: int  # tokens in a sequence
    text: TrainingText  # chunks to train on and to measure on

    def first_phase(self) -> Phase:
        """The training on the data, or on the task's texts as `data`."""
        return Phase(self, self.plan, self.opened, self.text, self.texts.on_task)

    def second_phase(self, opened: LoadedModel) -> Phase:
        """The second phase: on the task's texts, of the model from the first phase."""
        assert self.text.then is not None  # noqa: S101
        return Phase(self, task_phase(self.plan, self.length), opened, self.text.then, on_task=True)


@dataclass(frozen=True, eq=False)
class Phase:
    """One training, of a model on some texts."""

    setup: TrainingSetup
    plan: AdaptPlan
    opened: LoadedModel
    text: TrainingText
    on_task: bool  # whether these are the task's own texts


def model_bytes(facts: dict[str, Any], checkpoints: int) -> int:
    """Bytes of a training's model, and of its checkpoints while one is written."""
    checkpoint_bytes = _CHECKPOINT_BYTES * facts["trained"] * (checkpoints + 1)
    return int(4 * facts["parameters"] + checkpoint_bytes)


def _passes(phase: Phase, *, pack: bool) -> Passes:
    """The order in which a phase reads its chunks."""
    plan = phase.plan
    text = phase.text
    objective = phase.setup.objective
    data = text.tokens[0]
    return Passes(
        text.train,
        text.replay,
        plan.mix.replay_share if text.replay is not None else 0.0,
        length=objective.row_tokens,
        overhead=objective.overhead(),
        resample=plan.weights.policy == "resample",
        pack=pack,
        # not `train.micro_tokens`, which may change on resume and would reorder the data
        batch=max(1, _micro_tokens(phase.setup) // phase.setup.length),
        seed=plan.seed,
        counted=data.counts[text.train.text] if isinstance(data, ChatTokens) else None,
        arrange=objective.arrange,
    )


def _micro_tokens(setup: TrainingSetup) -> int:
    """The default of `train.micro_tokens`."""
    return size_for(setup.hardware.device, _MICRO_TOKENS)


def _effective_chunks(chunks: Chunks) -> float:
    """The number of chunks of equal weight whose mean would vary as much."""
    # Reference: Kish (1965), Survey Sampling, section 11.7 (the effective sample size).
    w = chunks.weight.astype(np.float64)
    return float(w.sum()) ** 2 / float(w @ w)


class MemoryFit(NamedTuple):
    """How a step fits into the memory."""

    rows: int  # most sequences of a forward pass
    recomputes: bool  # whether activations are computed again in the backward pass
    memory: dict[str, int]  # counted bytes by part; empty where they are not counted


def _fit_into_memory(phase: Phase, batch: int, room: int | None, progress: Progress) -> MemoryFit:
    """Let a forward pass take as many sequences as fit, and set the model up for it."""
    import torch

    setup = phase.setup
    plan = phase.plan
    model = phase.opened.model
    recomputes = plan.train.checkpointing == "on"
    rows = max(1, (plan.train.micro_tokens or _micro_tokens(setup)) // setup.length)
    most = min(rows, batch)
    fitting = most
    memory: dict[str, int] = {}
    meta_model = None
    if setup.objective.language_model and not plan.train.shard:
        meta_model = outline(lambda: type(model)(model.config), plan.adapter)
    if meta_model is not None:
        half_precision = {n for n, p in model.named_parameters() if p.itemsize == 2}
        for name, p in meta_model.named_parameters():
            p.data = p.data.to(torch.bfloat16) if name in half_precision else p.data
        memory, recomputes, fitting = choose(
            plan, meta_model, most, setup.length, setup.hardware, room
        )
    if recomputes:
        recompute(model)
    if fitting < most or (recomputes and plan.train.checkpointing == "auto"):
        rows = fitting
        how = ", and activations are computed again" if recomputes else ""
        progress.note(
            f"To fit into {(room or 0) / 1e9:.1f} GB of memory, a forward pass takes "
            f"{rows * setup.length:,} tokens{how}."
        )
    return MemoryFit(rows, recomputes, memory)


def _facts(
    training: Training, phase: Phase, size: Size, summary: str, fit: MemoryFit
) -> dict[str, Any]:
    """What the manifest says of a training before its first step."""
    setup = phase.setup
    text = phase.text
    model = phase.opened.model
    packed = training.network.packing is not None
    return {
        "command": "adapt",
        "corpusfit": versions()["corpusfit"],
        "versions": versions(),
        "plan": phase.plan.as_dict(),
        "training": dataclasses.asdict(training.plan),
        "words": summary,
        "base": phase.opened.facts(),
        "parameters": size.parameters,
        "trained": sum(p.numel() for p in model.parameters() if p.requires_grad),
        "precision": setup.hardware.precision,
        "attention": getattr(model.config, "_attn_implementation", ""),
        "device": setup.hardware.kind,
        "memory": fit.memory,
        "checkpointing": fit.recomputes,
        "micro_tokens": fit.rows * setup.length,
        "processes": training.accelerator.num_processes,
        "packed": packed,
        "fill": round(training.passes.fill(), 4) if packed else None,
        **{role: [source_as_dict(s) for s in getattr(setup.texts, role)] for role in ROLES},
        "counts": text.figures,
        "chunks": len(text.train),
        "rows": size.rows,
        "tokens": size.tokens,
        "effective_chunks": round(_effective_chunks(text.train), 1),
        "heldout": {name: len(chunks) for name, (_, chunks) in text.heldout.items()},
    }


def _placed(phase: Phase, accelerator: Any) -> tuple[Predictor, Packing | None]:
    """Put a model on its device, with its adapter and divided if it is to be; how to call it."""
    import torch

    setup = phase.setup
    hardware = setup.hardware
    plan = phase.plan
    model = phase.opened.model
    shard = plan.train.shard
    # `find_packing` tries the model without its adapter. Sharded or in half precision it already
    # has a new one, which changes no output yet and keeps all but the matrices in float32.
    adapter_first = plan.adapter.kind and (shard or next(model.parameters()).dtype != torch.float32)
    if adapter_first:
        add_adapter(model, plan.adapter, plan.seed)
    if shard:
        sharding.shard(model, accelerator.num_processes, accelerator.device)
    else:
        model.to(accelerator.device)
    predictor = Predictor(model)
    packing = None
    if setup.objective.packs:
        causal = setup.objective.causal
        kernels = hardware.varlen
        if causal and hardware.cpu_bf16:
            from corpusfit.training import attention

            kernels = [attention.register()]
        packing = find_packing(
            predictor, phase.opened.special, setup.length, causal=causal, kernels=kernels
        )
    if shard:
        sharding.divide_again(model)
    elif plan.adapter.kind:
        if not adapter_first:
            add_adapter(model, plan.adapter, plan.seed)
        if hardware.precision == "bf16":  # divided weights stay in one format
            hold_in_bf16(model, merged=plan.adapter.save == "merged")
    return predictor, packing


class TrainingProgress(TrainingListener):
    """Shows a training's steps and losses."""

    def __init__(self, progress: Progress, steps: int) -> None:
        self._progress = progress
        self._steps = steps
        self._recent: list[float] = []  # losses since the last held-out one
        self._before: Mapping[str, float] = {}

    def step(self, steps: int, tokens: int) -> None:
        """Move the bar."""
        self._progress.advance(steps, tokens)

    def resume(self, step: int, history: Sequence[Mapping[str, Any]]) -> None:
        """Note the step; later losses are compared with those before the first step."""
        measured = [r["heldout"] for r in history if "heldout" in r]
        self._before = next(iter(measured), {})
        self._progress.skip(step)
        self._progress.note(f"Resume after step {step:,} of {self._steps:,}.")

    def record(self, record: Mapping[str, Any]) -> None:
        """Note the held-out losses, with their change since the first step."""
        if "heldout" not in record:
            self._recent.append(record["loss"])
            return
        now = record["heldout"]
        self._before = self._before or now
        parts = [
            f"{name} {loss:.3f}"
            + (f" ({loss - self._before[name]:+.3f})" if record["step"] else "")
            for name, loss in now.items()
        ]
        mean = f"mean training loss {fmean(self._recent):.3f}; " if self._recent else ""
        self._recent.clear()
        text = f"Step {record['step']:,} of {self._steps:,}: {mean}held-out loss "
        self._progress.note(text + ", ".join(parts))

    def warn(self, message: str) -> None:
        """Pass the warning on."""
        self._progress.warn(message)


class RiseWarning(str):
    """The warning of a rising held-out loss; `fit` hides it, as it lowers the rate by itself."""

    __slots__ = ()


@dataclass(frozen=True)
class PhaseRunner:
    """Trains phases, each in a folder that resumes."""

    setup: TrainingSetup
    accelerator: Any  # Accelerate's `Accelerator`
    progress: Progress
    track: str  # experiment tracker, or ""
    out: Path  # the adapted model's folder, where trackers and callbacks write
    callbacks: Sequence[Any] = ()  # of transformers

    def run(self, folder: AdaptFolder) -> dict[str, Any]:
        """Train all phases; returns the facts for the manifest."""
        # The first phase is a complete training in `folder.first`. So the second gives what
        # `adapt --data task` would make of that model, and a run killed in it resumes in it.
        setup = self.setup
        if setup.text.then is None:
            return self._train(setup.first_phase(), folder, [])
        inner = AdaptFolder(folder.first)
        before = inner.finished()
        if before is None:
            before = self._train(setup.first_phase(), inner, [])
            if self.accelerator.is_main_process:
                inner.finish(before)
            self.accelerator.wait_for_everyone()
            self.accelerator.free_memory()
        setup.opened.model.to("meta")  # free its memory before the next model is loaded
        opened = open_model(
            ModelPlan(str(inner.path)),
            setup.plan.objective.name,
            attention=setup.hardware.attention,
            seed=setup.plan.seed,
            on_warn=self.progress.warn,
            weights=self.accelerator.is_main_process or not setup.plan.train.shard,
        )
        lines = (inner.path / "losses.jsonl").read_text("utf-8").splitlines()
        earlier = [{"phase": "data", **json.loads(line)} for line in lines]
        after = self._train(setup.second_phase(opened), folder, earlier)
        # top-level facts are the first phase's; the losses span both
        phases = [
            {"phase": name, **{key: facts.get(key) for key in _OF_A_PHASE}}
            for name, facts in (("data", before), (TASK, after))
        ]
        return {
            **before,
            "plan": setup.plan.as_dict(),
            "base": setup.opened.facts(),
            "words": f"{before['words']} Then, on the task's text: {after['words']}",
            "losses": {"before": before["losses"]["before"], "after": after["losses"]["after"]},
            "weights": after.get("weights"),
            "phases": phases,
        }

    def _train(
        self, phase: Phase, folder: AdaptFolder, earlier: list[dict[str, Any]]
    ) -> dict[str, Any]:
        """Train a phase and write its model, and the losses after those of an earlier phase."""
        from corpusfit.training.stepping import train  # slow to import, with transformers

        training, facts = self._assembled(phase, folder)
        needed = model_bytes(facts, training.plan.checkpoints)
        warn_if_disk_is_small(folder, needed, self.progress)
        main = self.accelerator.is_main_process
        _check_settled(folder, facts, main=main)
        steps = training.plan.max_steps or 0
        with self.progress.showing("adapt", steps, "tokens"):
            history = train(training, TrainingProgress(self.progress, steps))
        # compare the first measurement with that of the weights that are kept
        measured = [r for r in history if "heldout" in r] or [{"step": 0, "heldout": {}}]
        kept = kept_measurement(history, training.keep)
        facts["losses"] = {"before": measured[0]["heldout"], "after": kept["heldout"]}
        facts["kept_step"] = kept["step"]
        self._warn_of_a_rise(measured, kept, training.plan.learning_rate or 0.0)
        if earlier:
            done = earlier[-1]["step"]
            history = [{"phase": TASK, **r, "step": done + r["step"]} for r in history]
        if main:
            lines = "".join(json.dumps(record) + "\n" for record in [*earlier, *history])
            write_bytes(folder.path / "losses.jsonl", lines.encode())
            self._save(phase, folder.path)
            files = sorted(folder.path.glob("*.safetensors"))
            facts["weights"] = {file.name: file_digest(file) for file in files}
        return facts

    def _assembled(self, phase: Phase, folder: AdaptFolder) -> tuple[Training, dict[str, Any]]:
        """A training, and its facts for the manifest."""
        setup = phase.setup
        plan = phase.plan
        text = phase.text
        room = self._room()
        predictor, packing = _placed(phase, self.accelerator)
        model = phase.opened.model
        passes = _passes(phase, pack=packing is not None)
        size = Size(
            tokens=int(text.train.length.sum()),
            rows=len(passes.rows(0)),
            texts=len(passes.rows(0).order),
            parameters=sum(p.numel() for p in model.parameters()),
            max_length=phase.opened.max_length,
            device=setup.hardware.kind,
        )
        settings, summary = resolve_training(plan, size, on_task=phase.on_task)
        note = summary
        if plan.weights.policy != "off":
            effective = _effective_chunks(text.train)
            note += f" With the weights, the effective number of chunks is {effective:,.0f} of "
            note += f"{len(text.train):,}."
        self.progress.note(note)
        fit = _fit_into_memory(phase, settings.batch or 1, room, self.progress)
        training = Training(
            plan=settings,
            objective=setup.objective,
            network=Network(predictor, model, packing, setup.hardware.precision),
            chunk_tokens=ChunkTokens(passes.chunks, text.tokens, passes.scale, passes.frequency),
            passes=passes,
            heldout=Heldout.of(text.heldout, setup.objective, rows=fit.rows, seed=plan.seed),
            checkpoints=Checkpoints(folder.checkpoints, settings.checkpoints),
            best=folder.best,
            accelerator=self.accelerator,
            micro_rows=fit.rows,
            can_recompute=bool(recomputable(model)) and not fit.recomputes,
            width=setup.length if packing else 0,
            seed=plan.seed,
            out=self.out,
            tokenizer=phase.opened.tokenizer,
            callbacks=self.callbacks,
            track=self.track,
            arguments=plan.trainer.options,
        )
        return training, _facts(training, phase, size, summary, fit)

    def _room(self) -> int | None:
        """Bytes of memory for the training, the same in all processes; None if unknown."""
        import torch

        room = free_memory(self.setup.hardware.device)
        if room is not None and self.accelerator.num_processes > 1:  # all of them choose the same
            rooms = torch.tensor([room], device=self.accelerator.device)
            room = int(self.accelerator.gather(rooms).min())
        return room

    def _warn_of_a_rise(
        self, measured: Sequence[Mapping[str, Any]], kept: Mapping[str, Any], rate: float
    ) -> None:
        """Warn if the held-out loss is higher at the last measurement than at the first."""
        last = measured[-1]
        before = measured[0]["heldout"]
        now = last["heldout"]
        name = TASK if TASK in now else "data"
        if now.get(name, 0.0) <= before.get(name, 0.0):
            return
        message = f"The held-out loss on {name} rose from {before[name]:.3f} to {now[name]:.3f}"
        if kept["step"] < last["step"]:
            message += f" at step {last['step']:,}: the model of step {kept['step']:,} is kept"
        else:
            message += ": the model fits it less well than before"
        self.progress.warn(
            RiseWarning(
                f"{message}. Set a lower learning rate, such as "
                f"`train.learning_rate={rate / 3:.1g}`, or for a small selection fewer "
                "`train.max_steps`."
            )
        )

    def _save(self, phase: Phase, folder: Path) -> None:
        """Write the trained model, or its adapter."""
        opened = phase.opened
        adapter = phase.plan.adapter
        model = opened.model
        # Weights are trained in float32. Rounded to bfloat16, most of those that a low learning
        # rate has moved would be the base's again.
        stored = str(opened.dtype).removeprefix("torch.")
        whole = not adapter.kind or adapter.save == "merged"
        if whole and opened.dtype and stored != "float32":
            self.progress.note(f"The model is saved in float32; {opened.name} is {stored}.")
        if adapter.kind:
            base = Base(pinned(opened.name, opened.commit), opened.fingerprint)
            save_adapter(model, opened.tokenizer, adapter, base, folder)
            return
        if phase.setup.objective.embeds:
            write_pooling(folder, model.pooling, int(model.config.hidden_size))
            model = model.encoder
        save_model(model, opened.tokenizer, folder)


def _check_settled(folder: AdaptFolder, facts: Mapping[str, Any], *, main: bool) -> None:
    """Store the resolved settings; raise `ChangedInputError` if a resumed training had others."""
    now = {name: facts[name] for name in ("precision", "device", "packed", "processes")}
    now |= {
        name: facts["training"][name] for name in ("max_steps", "batch", "length", "learning_rate")
    }
    if facts["training"]["shard"]:  # any number of processes can read the parts
        now["processes"] = "those of `train.shard`"
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
