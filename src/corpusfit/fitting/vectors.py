"""What selected text teaches word vectors of the task, before and after any model is trained.

Vectors of words are learned from nothing but some words of the selection, and from as many of
random text; a linear classifier on them answers the task's test texts. That takes seconds, so it is
the first that a fit can say of the score, and it can be asked of several amounts.
"""

from __future__ import annotations

import dataclasses
import json
import time
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from corpusfit.core.artifacts import write_bytes
from corpusfit.core.engine import Progress
from corpusfit.core.manifest import read_object
from corpusfit.core.types import text_array
from corpusfit.decontamination.finder import ContaminationFinder, HeldoutIndex
from corpusfit.evaluation.task import Task
from corpusfit.evaluation.vector_score import MOST_WORDS, VectorTask, Words, WordVectors
from corpusfit.selection.result import Selection

REPLICATES = 3
"""Random texts, each with a seed of its own for both vectors."""
SHARES = (0.125, 0.25, 0.5, 1.0)
"""Of the words: the amounts at which the gain is measured at the end."""
EARLY = "early"
AMOUNTS = "amounts"
"""What is measured: after the selection, all of the words; at the end, several amounts."""
FEWEST_WORDS = 5_000
"""Words below which vectors say nothing."""
_MOST_TEXTS = 50_000
_TIMED = 20_000


def best(folder: Path) -> list[str]:
    """The selected texts with the highest scores, the highest first; of random text, any."""
    selection = Selection(folder, read_object(folder / "manifest.json"))
    return [text["text"] for text in selection.best(_MOST_TEXTS)]


class VectorScore:
    """Scores of word vectors on one task, each measured once and stored."""

    def __init__(self, task: Task, metric: str, seed: int, path: Path) -> None:
        self._task = task
        self._metric = metric
        self._seed = seed
        self._path = path

    @cached_property
    def _asked(self) -> VectorTask:
        return VectorTask.of(self._task, self._metric, self._seed)

    @cached_property
    def _finder(self) -> ContaminationFinder:
        heldout = [*self._task.dev.texts(), *self._task.test.texts()]
        return ContaminationFinder(HeldoutIndex.of_texts(heldout))

    def _words(self, texts: Sequence[str]) -> Words:
        """The words of the texts that contain no held-out text of the task."""
        leaked = set(self._finder.find(text_array(texts)).text.tolist())
        return Words.of([text for i, text in enumerate(texts) if i not in leaked])

    @property
    def _stored(self) -> dict[str, Any]:
        return read_object(self._path) if self._path.exists() else {}

    def known(self, name: str) -> bool:
        """Whether it was measured: then nothing is read again."""
        return name in self._stored

    def measure(
        self,
        name: str,
        selected: Sequence[str],
        randoms: Sequence[Sequence[str]],
        progress: Progress,
    ) -> None:
        """Compare the first words of a selection with as many of each random text.

        Args:
            name: `EARLY` or `AMOUNTS`.
            selected: the selection's texts, by falling score.
            randoms: the random texts of each replicate.
            progress: shows the vectors that are learned.
        """
        if self.known(name):
            return
        ours = self._words(selected)
        others = [self._words(texts) for texts in randoms]
        most = min(MOST_WORDS, len(ours), *map(len, others))
        shares = SHARES if name == AMOUNTS else (1.0,)
        amounts = [n for share in shares if (n := round(share * most)) >= FEWEST_WORDS]
        gains = []
        with progress.showing("score", len(amounts) * REPLICATES):
            for n in amounts:
                tallies: dict[str, list[Any]] = {"selection": [], "random": []}
                for number, random in enumerate(others):
                    for side, words in (("selection", ours), ("random", random)):
                        tally = self._asked.tally(words.first(n), self._seed + number)
                        tallies[side].append(tally)
                    progress.advance(1)
                gains.append(
                    {
                        "words": n,
                        **{side: self._asked.score(of_side) for side, of_side in tallies.items()},
                        "over_random": dataclasses.asdict(
                            self._asked.difference(*tallies.values())
                        ),
                    }
                )
        write_bytes(self._path, json.dumps({**self._stored, name: gains}).encode())

    def sentence(self, name: str) -> str:
        """What the vectors show, and what they are not."""
        gains = self._stored[name]
        if not gains:
            return "The selection has too few words for a score of word vectors."
        last = gains[-1]
        mean, low, high = (f"{100 * last['over_random'][f]:+.1f}" for f in ("mean", "low", "high"))
        said = (
            f"Word vectors, not your model: from {last['words']:,} selected words they score "
            f"{100 * last['selection']:.1f} {self._asked.metric.replace('_', ' ')} on the test "
            f"texts, from as much random text {100 * last['random']:.1f}: {mean} points (95 % "
            f"interval {low} to {high})."
        )
        if len(gains) > 1:
            *fewer, _ = gains
            points = (f"{100 * g['over_random']['mean']:+.1f} from {g['words']:,}" for g in fewer)
            said += f" From fewer words: {', '.join(points)}."
        return said

    def facts(self) -> dict[str, Any]:
        """What the vectors show at the end, for the manifest; empty if they were not asked."""
        gains = self._stored.get(AMOUNTS)
        if not gains:
            return {}
        said = self.sentence(AMOUNTS)
        return {"metric": self._asked.metric, "gains": gains, "sentence": said}

    def seconds(self, texts: Sequence[str]) -> tuple[float, float]:
        """Seconds for all that is measured, whatever its words, and for each word; of texts."""
        some = self._words(texts).first(_TIMED)
        self._asked.tally(some.first(100), 0)  # compiles
        # what is learned grows with the words, what is answered does not
        began = time.perf_counter()
        WordVectors.learned(some, 0)
        learned = time.perf_counter()
        self._asked.tally(some, 0)
        learning = learned - began
        answering = max(0.0, time.perf_counter() - learned - learning)
        each = 2 * REPLICATES
        around = each * (1 + len(SHARES)) * answering
        return around, each * (1 + sum(SHARES)) * learning / max(1, len(some))
