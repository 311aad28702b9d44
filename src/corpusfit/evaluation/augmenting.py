"""Augments a task's training examples and stores the result; translation resumes after a stop."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from pathlib import Path

from corpusfit.core.artifacts import remove
from corpusfit.core.manifest import digest
from corpusfit.embed.hardware import resolve_device
from corpusfit.evaluation.augment import augment_examples, replace_words, require_allowed
from corpusfit.evaluation.backtranslate_job import Backtranslate, Passage
from corpusfit.evaluation.plan import AugmentPlan
from corpusfit.evaluation.task import Examples, store_examples
from corpusfit.text.context import Machine

TEXTS_PER_PIECE = 64
"""Texts per piece, minutes of work; another number changes the last bits of a draw."""


def write_augmented_examples(
    examples: Examples,
    plan: AugmentPlan,
    out: Path,
    *,
    kind: str,
    labels: Sequence[str],
    seed: int,
    device: str,
    machine: Machine,
) -> None:
    """Augment training examples; `load_examples` reads the result.

    Words are replaced in this process; texts are translated by the workers, in pieces that are
    kept. A piece is identified by the models' names, so a model that changes in its folder during
    a translation is not noticed.

    Reference: Xie et al. (2019), Unsupervised Data Augmentation, section 2.2.
    """
    require_allowed(plan, kind)
    if plan.kind != "backtranslate":
        store_examples(replace_words(examples, plan, kind=kind, labels=labels, seed=seed), out)
        return
    texts = [text for pieces in examples.pieces for text in pieces]
    job = Backtranslate(plan.mt, plan.mt_back, plan.copies, seed, device)
    folder = out.with_suffix(".parts")
    found = _translated(texts, job, folder, machine)
    store_examples(augment_examples(examples, found, plan.copies), out)
    remove(folder)


def _translated(texts: list[str], job: Backtranslate, folder: Path, machine: Machine) -> list[str]:
    """All translations; workers make missing ones, in parallel, on a GPU one at a time."""
    settings = dataclasses.asdict(job)
    pieces = []
    for first in range(0, len(texts), TEXTS_PER_PIECE):
        own = tuple(texts[first : first + TEXTS_PER_PIECE])
        name = digest({**settings, "first": first, "texts": own})
        pieces.append(Passage(own, first, folder / f"{name}.json"))
    missing = [piece for piece in pieces if not piece.out.exists()]
    if missing:
        machine = machine.for_training(resolve_device(job.device, "finetune"))
        stage = machine.progress.showing("translate", sum(len(p.texts) for p in missing), "texts")
        with stage, machine.start() as engine:
            engine.require_shared(folder.parent, "`out`")
            for done in engine.map(job, missing):
                machine.progress.advance(done, done)
    return [text for piece in pieces for text in json.loads(piece.out.read_bytes())]
