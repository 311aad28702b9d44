"""Divides the target: texts to select by, and held-out texts to measure the loss on."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import orjson

from corpusfit import text as corpus
from corpusfit.core.artifacts import write_bytes
from corpusfit.core.engine import Progress
from corpusfit.core.errors import InputError
from corpusfit.core.plan import ReadPlan
from corpusfit.core.types import Source, text_array
from corpusfit.evaluation.decontamination.finder import ContaminationFinder, HeldoutIndex
from corpusfit.evaluation.splitting import Groups
from corpusfit.text import cures
from corpusfit.text.reading import Reasons, read_shard
from corpusfit.text.same_text import folded, form_of, text_keys
from corpusfit.tuning.plan import TunePlan

FEWEST = 8
"""Fewest different texts of a target."""


@dataclass(frozen=True)
class Parts:
    """The texts of a target, divided.

    Attributes:
        fit: texts to select by during the search.
        heldout: texts to measure the loss on, with no near-duplicate in `fit`.
        clean: all texts that hold no guarded text, for the winner's selection.
        guarded: number of texts that hold one, which are not used.
    """

    fit: list[str]
    heldout: list[str]
    clean: list[str]
    guarded: int

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
    of = groups.of.tolist()
    heldout = [text for text, group in zip(clean, of, strict=True) if group in held]
    fit = [text for text, group in zip(clean, of, strict=True) if group not in out]
    if len(groups.sizes) < FEWEST or not fit:
        without = f" that hold no text of `guard` ({len(holders):,} do)" if holders else ""
        raise InputError(
            f"`target` must have at least {FEWEST} different texts{without} and no "
            f"near-duplicates of each other, some to select by and some to measure the loss on; it "
            f"has {len(groups.sizes):,}, {len(fit):,} of them to select by. Add texts to `target`."
        )
    return Parts(fit, heldout, clean, len(holders))


def _found(texts: Sequence[str], index: HeldoutIndex) -> dict[int, list[int]]:
    """The numbers of the indexed texts that each text holds, by the text's position."""
    found: dict[int, list[int]] = {}
    matches = ContaminationFinder(index).find(text_array(list(texts)))
    for text, number in zip(matches.text.tolist(), matches.watched.tolist(), strict=True):
        found.setdefault(text, []).append(number)
    return found


def _near(texts: Sequence[str], groups: Groups) -> dict[int, set[int]]:
    """The other groups that hold a text of each group, or that a text of it holds."""
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
        found, tally = read_shard(shard, read, tuple(s.name for s in sources))
        texts += found.texts.to_pylist()
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
