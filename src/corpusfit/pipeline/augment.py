"""Make a task's companions and store them; what was translated before a stop is not done again.

What: `make_companions`: words are replaced here, texts are translated by the workers, a piece of
them at a time.
Why: translating a task there and back takes hours on a CPU; everything else of an evaluation that
takes so long goes on where it was.
Trade-off: what is stored of a piece bears the models' names, not their weights: models that change
in their folder while a task is translated are not noticed.
Reference: Xie et al. (2019), Unsupervised Data Augmentation, section 2.2.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from pathlib import Path

from corpusfit.artifacts import remove
from corpusfit.embed.hardware import resolve_device
from corpusfit.evaluate.augment import augment_examples, replace_words, require_allowed
from corpusfit.evaluate.plan import AugmentPlan
from corpusfit.evaluate.task import Examples, store_examples
from corpusfit.jobs.backtranslate import Backtranslate, Passage
from corpusfit.manifest import digest
from corpusfit.pipeline.run import Machine

_TOGETHER = 64
"""Texts in a piece: minutes of work; other pieces would change the last bits of a draw."""


def make_companions(
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
    """Make companions of training examples; `load_examples` reads them.

    Args:
        examples: of the training split.
        plan: what is done, and how many companions there are of each.
        out: the file that they go to; what is translated so far is in a folder beside it.
        kind: of the task: `classification` or `tagging`.
        labels: the names of the labels, by number.
        seed: the only source of chance.
        device: `auto`, `cpu` or `cuda`, for translating.
        machine: where it is done, and what is told of it.

    Raises:
        UsageError: words that are labelled would be translated, or none of them may be replaced.
        ModelError: a model that translates cannot be used; the sentence names the setting.
    """
    if plan.kind != "backtranslate":
        store_examples(replace_words(examples, plan, kind=kind, labels=labels, seed=seed), out)
        return
    require_allowed(plan, kind)
    texts = [text for pieces in examples.pieces for text in pieces]
    job = Backtranslate(plan.mt, plan.mt_back, plan.copies, seed, device)
    folder = out.with_suffix(".parts")
    found = _translated(texts, job, folder, machine)
    store_examples(augment_examples(examples, found, plan.copies), out)
    remove(folder)


def _translated(texts: list[str], job: Backtranslate, folder: Path, machine: Machine) -> list[str]:
    """All translations, those that are not stored yet made by the workers."""
    settings = dataclasses.asdict(job)
    pieces = []
    for first in range(0, len(texts), _TOGETHER):
        own = tuple(texts[first : first + _TOGETHER])
        name = digest({**settings, "first": first, "texts": own})
        pieces.append(Passage(own, first, folder / f"{name}.json"))
    missing = [piece for piece in pieces if not piece.out.exists()]
    if missing:
        _translate(missing, job, folder, machine)
    return [text for piece in pieces for text in json.loads(piece.out.read_bytes())]


def _translate(
    pieces: Sequence[Passage], job: Backtranslate, folder: Path, machine: Machine
) -> None:
    """Translate pieces, several at once; on a GPU one at a time."""
    machine = machine.for_training(resolve_device(job.device, "tune"))
    machine.progress.begin("translate", sum(len(p.texts) for p in pieces), "texts")
    try:
        with machine.start() as engine:
            engine.require_shared(folder.parent, "--out")
            for done in engine.map(job, pieces):
                machine.progress.advance(done, done)
    finally:
        machine.progress.end()
