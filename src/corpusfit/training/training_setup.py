"""Assembles a training from a model and its text: adapter, sizes, passes, held-out sequences."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from functools import partial
from typing import Any

from corpusfit import text as corpus
from corpusfit.core.engine import Progress
from corpusfit.core.errors import bad_setting
from corpusfit.core.manifest import source_as_dict, versions
from corpusfit.embed.hardware import Hardware
from corpusfit.training.adapters import add_adapter
from corpusfit.training.batches import ChunkTokens
from corpusfit.training.checkpoints import Checkpoints
from corpusfit.training.chunks import effective_size
from corpusfit.training.folder import AdaptFolder
from corpusfit.training.heldout import Heldout
from corpusfit.training.heldout_bleu import HeldoutBleu
from corpusfit.training.inputs import TrainingInputs
from corpusfit.training.models import LoadedModel
from corpusfit.training.objectives import Network, Objective
from corpusfit.training.packing import Packing, find_packing
from corpusfit.training.passes import PairPasses, Passes
from corpusfit.training.plan import TASK, TRANSLATION, AdaptPlan
from corpusfit.training.prediction import Predictor
from corpusfit.training.presets import PASSES, Size, resolve_training
from corpusfit.training.trainer import Training
from corpusfit.training.training_data import TrainingText

ROLES = ("data", "task", "replay")
"""Roles of the texts that a command reads."""

_MICRO_TOKENS = {"cpu": 4_096, "cuda": 16_384}


@dataclass(frozen=True, eq=False)
class Ready:
    """The prepared inputs of a training.

    Attributes:
        opened: the model.
        objective: training objective.
        text: chunks to train on and to measure on.
        length: tokens in a sequence.
        passes: passes over the text of the default number of steps.
        then: the second phase, on the task's texts, if any; it trains the model of the first.
    """

    plan: AdaptPlan
    texts: TrainingInputs
    opened: LoadedModel
    objective: Objective
    text: TrainingText
    length: int
    passes: int = PASSES
    then: Ready | None = None

    def measured_on_task(self) -> Ready:
        """The same training with the loss on the task's texts as the only held-out loss."""
        heldout = {TASK: self.text.heldout[TASK]}
        return dataclasses.replace(self, text=dataclasses.replace(self.text, heldout=heldout))


_CHECKPOINT_BYTES = 12  # per trained parameter: the weight and two moments


def model_bytes(facts: dict[str, Any], checkpoints: int) -> int:
    """Bytes of a training's model, and of its checkpoints while one is written."""
    kept = _CHECKPOINT_BYTES * facts["trained"] * (checkpoints + 1)
    return int(4 * facts["parameters"] + kept)


def assemble_training(
    ready: Ready,
    folder: AdaptFolder,
    hardware: Hardware,
    accelerator: Any,
    progress: Progress,
    done: int = 0,
) -> tuple[Training, dict[str, Any]]:
    """The training, and its facts for the manifest; progress gets a summary.

    `done` is the number of steps of an earlier phase.
    """
    plan, text, opened, aim = ready.plan, ready.text, ready.opened, ready.objective
    model = opened.model.to(accelerator.device)
    predictor = Predictor(model)
    packing = _packing(ready, predictor)
    if plan.adapter.kind:
        add_adapter(model, plan.adapter, plan.seed)
    passes = _passes(ready, hardware.device, pack=packing is not None)
    size = Size(
        tokens=int(text.train.length.sum()),
        rows=passes.count(0),
        texts=len(passes.rows(0).order),
        parameters=sum(p.numel() for p in model.parameters()),
        longest=opened.longest,
        device=hardware.device,
    )
    settings, summary = resolve_training(plan, size, ready.passes)
    progress.note(summary + _weights_text(ready))
    micro = plan.train.micro_tokens or _MICRO_TOKENS[hardware.device]
    rows = (settings.batch or 1) if aim.whole_steps else max(1, micro // ready.length)
    bleu = _bleu(ready)
    if bleu is not None:
        progress.note(f"BLEU of held-out pairs: sacreBLEU's, with its tokenizer {bleu.tokenizer}.")
    training = Training(
        plan=settings,
        objective=aim,
        network=Network(predictor, model, packing, hardware.precision == "bf16"),
        chunk_tokens=ChunkTokens(passes.chunks, text.tokens, passes.scale, passes.frequency),
        passes=passes,
        heldout=Heldout.of(text.heldout, aim, rows=rows, seed=plan.seed),
        checkpoints=Checkpoints(folder.checkpoints, settings.checkpoints),
        best=folder.best,
        accelerator=accelerator,
        micro_rows=rows,
        width=ready.length if packing else 0,
        seed=plan.seed,
        done=done,
        bleu=bleu,
    )
    return training, _facts(ready, training, hardware, summary)


def _bleu(ready: Ready) -> HeldoutBleu | None:
    """The measurement of BLEU, if the best weights go by it."""
    if ready.plan.train.best_by != "bleu":
        return None
    if TASK not in ready.text.heldout:
        cure = "No pair of `task` can be measured. Set a larger `train.length`, or name others."
        raise bad_setting("`train.best_by`", "loss without held-out pairs", "bleu", cure)
    spell = partial(ready.opened.tokenizer.batch_decode, skip_special_tokens=True)
    language = corpus.sides(ready.texts.task)[1]
    return HeldoutBleu.of(*ready.text.heldout[TASK], spell, ready.length, language)


def _weights_text(ready: Ready) -> str:
    """The effective number of chunks under the weights, for the user."""
    if ready.plan.weights.policy == "off":
        return ""
    chunks = ready.text.train
    size = effective_size(chunks.weight)
    return f" With the weights, the effective number of chunks is {size:,.0f} of {len(chunks):,}."


def _packing(ready: Ready, predictor: Predictor) -> Packing | None:
    """How rows are packed with several chunks, if the model supports it."""
    if not ready.objective.packs:
        return None
    causal = ready.plan.objective.name == "causal"
    return find_packing(predictor, ready.opened.special, ready.length, causal=causal)


def _passes(ready: Ready, device: str, *, pack: bool) -> Passes:
    """The order of the data, whatever `train.micro_tokens`, which may change on resume."""
    plan, text = ready.plan, ready.text
    pairs = plan.objective.name == TRANSLATION
    return (PairPasses if pairs else Passes)(
        text.train,
        text.replay,
        plan.mix.replay_share if text.replay is not None else 0.0,
        length=plan.train.pair_tokens if pairs else ready.length,
        overhead=ready.objective.overhead(),
        draw=plan.weights.policy == "resample",
        pack=pack,
        batch=max(1, _MICRO_TOKENS[device] // ready.length),
        seed=plan.seed,
    )


def _facts(ready: Ready, training: Training, hardware: Hardware, summary: str) -> dict[str, Any]:
    model, text = ready.opened.model, ready.text
    has_fill = training.width or isinstance(training.passes, PairPasses)
    return {
        "command": "adapt",
        "corpusfit": versions()["corpusfit"],
        "versions": versions(),
        "plan": ready.plan.as_dict(),
        "training": dataclasses.asdict(training.plan),
        "words": summary,
        "base": {"name": ready.opened.name, "fingerprint": ready.opened.fingerprint},
        "parameters": sum(p.numel() for p in model.parameters()),
        "trained": sum(p.numel() for p in model.parameters() if p.requires_grad),
        "precision": hardware.precision,
        "device": hardware.device,
        "processes": training.accelerator.num_processes,
        "packed": bool(training.width),
        "fill": round(training.passes.fill(0), 4) if has_fill else None,
        **{role: [source_as_dict(s) for s in getattr(ready.texts, role)] for role in ROLES},
        "counts": text.figures,
        "chunks": len(text.train),
        "rows": training.passes.count(0),
        "tokens": int(text.train.length.sum()),
        "effective_chunks": round(effective_size(text.train.weight), 1),
        "heldout": {name: len(chunks) for name, (_, chunks) in text.heldout.items()},
        "bleu_tokenizer": training.bleu.tokenizer if training.bleu else None,
    }
