"""Trains the phases of an adaptation: on the data, then optionally on the task's texts."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

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
from corpusfit.training.contract import Base, Network, Objective
from corpusfit.training.data import TrainingText
from corpusfit.training.defaults import Size, resolve_training
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

ROSE = "The held-out loss on"
"""How the warning of a loss that rose begins; `fit` leaves it out, as it lowers the rate itself."""
_OF_A_PHASE = ("training", "words", "chunks", "rows", "tokens", "heldout", "losses", "weights")
_CHECKPOINT_BYTES = 12  # per trained parameter: the weight and AdamW's two moments
_MICRO_TOKENS = {"cpu": 4_096, "gpu": 16_384}


@dataclass(frozen=True, eq=False)
class Ready:
    """The prepared inputs of a training."""

    plan: AdaptPlan
    texts: TrainingInputs
    opened: LoadedModel
    objective: Objective
    text: TrainingText  # chunks to train on and to measure on
    length: int  # tokens in a sequence
    on_task: bool = False  # whether these are the task's own texts
    # the second phase, on the task's texts, if any; it trains the model of the first
    then: Ready | None = None


def model_bytes(facts: dict[str, Any], checkpoints: int) -> int:
    """Bytes of a training's model, and of its checkpoints while one is written."""
    checkpoint_bytes = _CHECKPOINT_BYTES * facts["trained"] * (checkpoints + 1)
    return int(4 * facts["parameters"] + checkpoint_bytes)


def assemble_training(
    ready: Ready,
    folder: AdaptFolder,
    hardware: Hardware,
    accelerator: Any,
    progress: Progress,
) -> tuple[Training, dict[str, Any]]:
    """A training, and its facts for the manifest."""
    import torch

    plan = ready.plan
    text = ready.text
    opened = ready.opened
    room = free_memory(hardware.device)
    if room is not None and accelerator.num_processes > 1:  # all of them choose the same
        rooms = torch.tensor([room], device=accelerator.device)
        room = int(accelerator.gather(rooms).min())
    predictor, packing = _placed(ready, hardware, accelerator)
    model = opened.model
    data = text.tokens[0]
    passes = Passes(
        text.train,
        text.replay,
        plan.mix.replay_share if text.replay is not None else 0.0,
        length=ready.objective.row_tokens,
        overhead=ready.objective.overhead(),
        draw=plan.weights.policy == "resample",
        pack=packing is not None,
        # not `train.micro_tokens`, which may change on resume and would reorder the data
        batch=max(1, size_for(hardware.device, _MICRO_TOKENS) // ready.length),
        seed=plan.seed,
        counted=data.counts[text.train.text] if isinstance(data, ChatTokens) else None,
        arrange=ready.objective.arrange,
    )
    size = Size(
        tokens=int(text.train.length.sum()),
        rows=len(passes.rows(0)),
        texts=len(passes.rows(0).order),
        parameters=sum(p.numel() for p in model.parameters()),
        max_length=opened.max_length,
        device=hardware.kind,
    )
    settings, summary = resolve_training(plan, size, on_task=ready.on_task)
    # Reference: Kish (1965), Survey Sampling, section 11.7 (the effective sample size).
    w = text.train.weight.astype(np.float64)
    effective = float(w.sum()) ** 2 / float(w @ w)
    note = summary
    if plan.weights.policy != "off":
        note += f" With the weights, the effective number of chunks is {effective:,.0f} of "
        note += f"{len(text.train):,}."
    progress.note(note)
    # a forward pass takes as many rows as fit
    micro = plan.train.micro_tokens or size_for(hardware.device, _MICRO_TOKENS)
    rows = max(1, micro // ready.length)
    most = min(rows, settings.batch or 1)
    memory: dict[str, int] = {}
    again = plan.train.checkpointing == "on"
    taken = most
    whole = None
    if ready.objective.language_model and not plan.train.shard:
        whole = outline(lambda: type(model)(model.config), plan.adapter)
    if whole is not None:
        held = {n for n, p in model.named_parameters() if p.itemsize == 2}
        for name, p in whole.named_parameters():
            p.data = p.data.to(torch.bfloat16) if name in held else p.data
        memory, again, taken = choose(plan, whole, most, ready.length, hardware, room)
    if again:
        recompute(model)
    if taken < most or (again and plan.train.checkpointing == "auto"):
        rows = taken
        how = ", and activations are computed again" if again else ""
        progress.note(
            f"To fit into {(room or 0) / 1e9:.1f} GB of memory, a forward pass takes "
            f"{rows * ready.length:,} tokens{how}."
        )
    training = Training(
        plan=settings,
        objective=ready.objective,
        network=Network(predictor, model, packing, hardware.precision),
        chunk_tokens=ChunkTokens(passes.chunks, text.tokens, passes.scale, passes.frequency),
        passes=passes,
        heldout=Heldout.of(text.heldout, ready.objective, rows=rows, seed=plan.seed),
        checkpoints=Checkpoints(folder.checkpoints, settings.checkpoints),
        best=folder.best,
        accelerator=accelerator,
        micro_rows=rows,
        can_recompute=bool(recomputable(model)) and not again,
        width=ready.length if packing else 0,
        seed=plan.seed,
        tokenizer=opened.tokenizer,
        arguments=plan.trainer.options,
    )
    return training, {
        "command": "adapt",
        "corpusfit": versions()["corpusfit"],
        "versions": versions(),
        "plan": plan.as_dict(),
        "training": dataclasses.asdict(settings),
        "words": summary,
        "base": opened.facts(),
        "parameters": size.parameters,
        "trained": sum(p.numel() for p in model.parameters() if p.requires_grad),
        "precision": hardware.precision,
        "attention": getattr(model.config, "_attn_implementation", ""),
        "device": hardware.kind,
        "memory": memory,
        "checkpointing": again,
        "micro_tokens": rows * ready.length,
        "processes": accelerator.num_processes,
        "packed": bool(packing),
        "fill": round(passes.fill(), 4) if packing else None,
        **{role: [source_as_dict(s) for s in getattr(ready.texts, role)] for role in ROLES},
        "counts": text.figures,
        "chunks": len(text.train),
        "rows": size.rows,
        "tokens": size.tokens,
        "effective_chunks": round(effective, 1),
        "heldout": {name: len(chunks) for name, (_, chunks) in text.heldout.items()},
    }


def _placed(ready: Ready, hardware: Hardware, accelerator: Any) -> tuple[Predictor, Packing | None]:
    """Put a model on its device, with its adapter and divided if it is to be; how to call it."""
    import torch

    plan = ready.plan
    model = ready.opened.model
    shard = ready.plan.train.shard
    # the model is tried out without its adapter; divided or in half precision, with one that
    # changes nothing yet, and with which all else is in float32
    first = plan.adapter.kind and (shard or next(model.parameters()).dtype != torch.float32)
    if first:
        add_adapter(model, plan.adapter, plan.seed)
    if shard:
        sharding.shard(model, accelerator.num_processes, accelerator.device)
    else:
        model.to(accelerator.device)
    predictor = Predictor(model)
    packing = None
    if ready.objective.packs:
        causal = ready.objective.causal
        kernels = hardware.varlen
        if causal and hardware.cpu_bf16:
            from corpusfit.training import attention

            kernels = [attention.register()]
        packing = find_packing(
            predictor, ready.opened.special, ready.length, causal=causal, kernels=kernels
        )
    if shard:
        sharding.divide_again(model)
    elif plan.adapter.kind:
        if not first:
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


@dataclass(frozen=True)
class PhaseRunner:
    """Trains phases, each in a folder that resumes."""

    hardware: Hardware  # resolved device and precision
    accelerator: Any  # Accelerate's `Accelerator`
    progress: Progress
    track: str  # experiment tracker, or ""
    out: Path  # the adapted model's folder, where trackers and callbacks write
    callbacks: Sequence[Any] = ()  # of transformers

    def run(self, ready: Ready, folder: AdaptFolder) -> dict[str, Any]:
        """Train all phases; returns the facts for the manifest."""
        # The first phase is a complete training in `folder.first`. So the second gives what
        # `adapt --data task` would make of that model, and a run killed in it resumes in it.
        if ready.then is None:
            return self._phase(ready, folder, [])
        main = self.accelerator.is_main_process
        inner = AdaptFolder(folder.first)
        before = inner.finished()
        if before is None:
            before = self._phase(ready, inner, [])
            if main:
                inner.finish(before)
            self.accelerator.wait_for_everyone()
            self.accelerator.free_memory()
        ready.opened.model.to("meta")  # free its memory before the next model is loaded
        opened = open_model(
            ModelPlan(str(inner.path)),
            ready.plan.objective.name,
            attention=self.hardware.attention,
            seed=ready.plan.seed,
            on_warn=self.progress.warn,
            weights=self.accelerator.is_main_process or not ready.plan.train.shard,
        )
        lines = (inner.path / "losses.jsonl").read_text("utf-8").splitlines()
        earlier = [{"phase": "data", **json.loads(line)} for line in lines]
        after = self._phase(dataclasses.replace(ready.then, opened=opened), folder, earlier)
        # top-level facts are the first phase's; the losses span both
        phases = [
            {"phase": name, **{key: facts.get(key) for key in _OF_A_PHASE}}
            for name, facts in (("data", before), (TASK, after))
        ]
        return {
            **before,
            "plan": ready.plan.as_dict(),
            "base": ready.opened.facts(),
            "words": f"{before['words']} Then, on the task's text: {after['words']}",
            "losses": {"before": before["losses"]["before"], "after": after["losses"]["after"]},
            "weights": after.get("weights"),
            "phases": phases,
        }

    def _phase(
        self, ready: Ready, folder: AdaptFolder, earlier: list[dict[str, Any]]
    ) -> dict[str, Any]:
        """Train a phase and write its model, and the losses after those of an earlier phase."""
        done = earlier[-1]["step"] if earlier else 0
        training, facts = assemble_training(
            ready, folder, self.hardware, self.accelerator, self.progress
        )
        training = dataclasses.replace(
            training, out=self.out, callbacks=self.callbacks, track=self.track
        )
        needed = model_bytes(facts, training.plan.checkpoints)
        warn_if_disk_is_small(folder, needed, self.progress)
        main = self.accelerator.is_main_process
        _check_settled(folder, facts, main=main)
        from corpusfit.training.stepping import train  # slow to import, with transformers

        steps = training.plan.max_steps or 0
        with self.progress.showing("adapt", steps, "tokens"):
            history = train(training, TrainingProgress(self.progress, steps))
        # compare the first measurement with that of the weights that are kept
        measured = [r for r in history if "heldout" in r] or [{"step": 0, "heldout": {}}]
        kept = kept_measurement(history, training.keep)
        last = measured[-1]
        facts["losses"] = {"before": measured[0]["heldout"], "after": kept["heldout"]}
        facts["kept_step"] = kept["step"]
        first = measured[0]["heldout"]
        now = last["heldout"]
        name = TASK if TASK in now else "data"
        if now.get(name, 0.0) > first.get(name, 0.0):
            said = f"{ROSE} {name} rose from {first[name]:.3f} to {now[name]:.3f}"
            if kept["step"] < last["step"]:
                said += f" at step {last['step']:,}: the model of step {kept['step']:,} is kept"
            else:
                said += ": the model fits it less well than before"
            rate = training.plan.learning_rate or 0.0
            self.progress.warn(
                f"{said}. Set a lower learning rate, such as `train.learning_rate={rate / 3:.1g}`, "
                "or on a small selection fewer `train.max_steps`."
            )
        if earlier:
            history = [{"phase": TASK, **r, "step": done + r["step"]} for r in history]
        if main:
            lines = "".join(json.dumps(record) + "\n" for record in [*earlier, *history])
            write_bytes(folder.path / "losses.jsonl", lines.encode())
            opened = ready.opened
            adapter = ready.plan.adapter
            model = ready.opened.model
            # Weights are trained in float32. Rounded to bfloat16, most of those that a low learning
            # rate has moved would be the base's again.
            stored = str(opened.dtype).removeprefix("torch.")
            whole = not adapter.kind or adapter.save == "merged"
            if whole and opened.dtype and stored != "float32":
                self.progress.note(f"The model is saved in float32; {opened.name} is {stored}.")
            if adapter.kind:
                base = Base(pinned(opened.name, opened.commit), opened.fingerprint)
                save_adapter(model, opened.tokenizer, adapter, base, folder.path)
            else:
                if ready.objective.embeds:
                    write_pooling(folder.path, model.pooling, int(model.config.hidden_size))
                    model = model.encoder
                save_model(model, opened.tokenizer, folder.path)
            files = sorted(folder.path.glob("*.safetensors"))
            facts["weights"] = {file.name: file_digest(file) for file in files}
        return facts


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
