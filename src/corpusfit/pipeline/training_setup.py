"""From a model and its text to a training with nothing left open.

What: the adapter is put in, the sizes are settled, the passes laid out, the sequences to measure on
drawn; and all of it is written down for the manifest.
Why: `adapting.py` says what happens in which order; here is what each piece is given.
Trade-off: none of note; nothing here takes long but the first pass of a large corpus.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

from corpusfit.adapt.adapters import add_adapter
from corpusfit.adapt.batches import ChunkTokens
from corpusfit.adapt.checkpoints import Checkpoints
from corpusfit.adapt.chunks import effective_size
from corpusfit.adapt.heldout import Heldout
from corpusfit.adapt.models import LoadedModel
from corpusfit.adapt.objectives import Network, Objective
from corpusfit.adapt.packing import Packing, find_packing
from corpusfit.adapt.passes import Passes
from corpusfit.adapt.plan import AdaptPlan
from corpusfit.adapt.prediction import Predictor
from corpusfit.adapt.presets import Size, resolve_training
from corpusfit.adapt.trainer import Training
from corpusfit.embed.hardware import Hardware
from corpusfit.engine import Progress
from corpusfit.manifest import AdaptFolder, as_plain, versions
from corpusfit.pipeline.inputs import Given
from corpusfit.pipeline.training_data import TrainingText

ROLES = ("data", "task", "replay")
"""The texts that a command may name."""

_MICRO_TOKENS = {"cpu": 4_096, "cuda": 16_384}


@dataclass(frozen=True, eq=False)
class Ready:
    """What a training begins with."""

    plan: AdaptPlan
    texts: Given
    opened: LoadedModel
    objective: Objective
    text: TrainingText
    length: int


def assembled(
    ready: Ready, folder: AdaptFolder, hardware: Hardware, accelerator: Any, progress: Progress
) -> tuple[Training, dict[str, Any]]:
    """The training, and what is known of it before it begins; the user is told what it will be."""
    plan, text, opened, aim = ready.plan, ready.text, ready.opened, ready.objective
    model = opened.model.to(accelerator.device)
    predictor = Predictor(model)
    packing = _packing(ready, predictor)
    if plan.adapter.kind:
        add_adapter(model, plan.adapter, plan.seed)
    micro = plan.train.micro_tokens or _MICRO_TOKENS[hardware.device]
    rows = max(1, micro // ready.length)
    passes = _passes(ready, hardware.device, pack=packing is not None)
    size = Size(
        tokens=int(text.train.length.sum()),
        rows=passes.count(0),
        parameters=sum(p.numel() for p in model.parameters()),
        longest=opened.longest,
        device=hardware.device,
    )
    settings, words = resolve_training(plan, size)
    progress.note(words + _worth(ready))
    work = Training(
        plan=settings,
        objective=aim,
        network=Network(predictor, model, packing, hardware.precision == "bf16"),
        chunk_tokens=ChunkTokens(passes.chunks, text.tokens, passes.scale),
        passes=passes,
        heldout=Heldout.of(text.heldout, aim, rows=rows, seed=plan.seed),
        checkpoints=Checkpoints(folder.checkpoints, settings.checkpoints),
        best=folder.best,
        accelerator=accelerator,
        micro_rows=rows,
        width=ready.length if packing else 0,
        seed=plan.seed,
    )
    return work, _facts(ready, work, hardware, words)


def _worth(ready: Ready) -> str:
    """How much text the weights leave, for the user."""
    if ready.plan.weigh.policy == "off":
        return ""
    chunks = ready.text.train
    worth = effective_size(chunks.weight)
    return f" The weights make the {len(chunks):,} chunks of text worth {worth:,.0f} (Kish)."


def _packing(ready: Ready, predictor: Predictor) -> Packing | None:
    """How rows hold several chunks, if they can."""
    if not ready.objective.packs:
        return None
    causal = ready.plan.objective.name == "causal"
    return find_packing(predictor, ready.opened.special, ready.length, causal=causal)


def _passes(ready: Ready, device: str, *, pack: bool) -> Passes:
    """The order of the data; where rows are not packed, those of a length go together.

    It may not depend on `train.micro_tokens`, which can be changed under way.
    """
    plan, text = ready.plan, ready.text
    return Passes(
        text.train,
        text.replay,
        plan.mix.replay_share if text.replay is not None else 0.0,
        length=ready.length,
        overhead=ready.objective.overhead(),
        draw=plan.weigh.policy == "resample",
        pack=pack,
        batch=max(1, _MICRO_TOKENS[device] // ready.length),
        seed=plan.seed,
    )


def _facts(ready: Ready, work: Training, hardware: Hardware, words: str) -> dict[str, Any]:
    """What the manifest says of how it was done."""
    model, text = ready.opened.model, ready.text
    return {
        "command": "adapt",
        "corpusfit": versions()["corpusfit"],
        "versions": versions(),
        "plan": ready.plan.as_dict(),
        "training": dataclasses.asdict(work.plan),
        "words": words,
        "base": {"name": ready.opened.name, "fingerprint": ready.opened.fingerprint},
        "parameters": sum(p.numel() for p in model.parameters()),
        "trained": sum(p.numel() for p in model.parameters() if p.requires_grad),
        "precision": hardware.precision,
        "device": hardware.device,
        "processes": work.accelerator.num_processes,
        "packed": bool(work.width),
        "fill": round(work.passes.fill(0), 4) if work.width else None,
        **{role: [as_plain(s) for s in getattr(ready.texts, role)] for role in ROLES},
        "counts": text.figures,
        "chunks": len(text.train),
        "rows": work.passes.count(0),
        "tokens": int(text.train.length.sum()),
        "effective_chunks": round(effective_size(text.train.weight), 1),
        "heldout": {name: len(chunks) for name, (_, chunks) in text.heldout.items()},
    }
