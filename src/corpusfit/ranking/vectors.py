"""What a task adds to a ranking: its texts, and the words of a selection to score by it."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from corpusfit.core.errors import CorpusfitError, InputError, bad_setting
from corpusfit.core.keywords import Inputs
from corpusfit.decontamination.finder import ContaminationFinder, HeldoutIndex
from corpusfit.evaluation.plan import TaskPlan, metric_of
from corpusfit.evaluation.reading import read_task
from corpusfit.evaluation.task import notable, split_overlaps
from corpusfit.evaluation.tasks import load
from corpusfit.evaluation.vector_score import KIND, MOST_WORDS, VectorTask, Words
from corpusfit.ranking.plan import RankPlan
from corpusfit.scoring.heldout_bits import HALVES, Difference, HeldOut, between_halves
from corpusfit.selection.fit import Sample
from corpusfit.text.context import Machine, Run
from corpusfit.text.in_memory import inputs

METHODS = ("cynical", "moore_lewis", "dsir")
"""The methods that are ranked by default with a task, beside `random`."""
FEWEST_WORDS = 5_000
"""Words of a selection below which scores vary too much to be told apart."""


def read(given: Inputs, plan: RankPlan, machine: Machine) -> VectorTask:
    """Read a task to score word vectors by.

    Args:
        given: a folder, a file, a dataset, or data in memory.
        plan: how it is read; its text field, if the plan does not name one, is the target's.
        machine: its cache and its progress.

    Raises:
        UsageError: it is several tasks, or of another kind than one class of a text.
    """
    asked = plan.task
    of_target = asked.text_field == TaskPlan().text_field
    if of_target:
        asked = dataclasses.replace(asked, text_field=plan.target_read.text_field)
    place, *more = inputs(given, "task", machine, asked.text_field)
    if more:
        raise bad_setting("`task`", "one task", ", ".join([place, *more]))
    try:
        task = read_task(place, asked, seed=plan.seed)
    except CorpusfitError as e:
        e.words = {"task.text_field": "fit.target_field"} if of_target else {}
        raise
    if task.kind != KIND:
        raise bad_setting(
            "`task`",
            "a task of one class per text: word vectors of other kinds have no score",
            f"{task.name}, which is {task.kind}",
            "Leave it out, and name its texts as `target`: held-out bits need no labels.",
        )
    for note in task.notes:
        machine.progress.note(note)
    # test texts that are in train raise every score; other copies matter little
    overlaps = [o for o in split_overlaps(task) if o.split == "test" and o.within == "train"]
    metric = metric_of(asked, task.kind)
    for warning in [*notable(overlaps), *load(KIND).cautions(task, metric)]:
        machine.progress.warn(warning)
    return VectorTask.of(task, metric, plan.seed)


def leave_out(run: Run, task: VectorTask, target: Sample, corpus: Sample) -> None:
    """Leave units that contain a test text out of target and corpus sample, and say how many.

    Raises:
        InputError: nothing is left of one of them.
    """
    # A method that is fitted on test texts finds them, and vectors that are learned from them
    # know their words; the score would be of a text that is known.
    finder = ContaminationFinder(HeldoutIndex.of_texts(task.task.test.texts()))
    for name, sample in (("the target", target), ("the corpus sample", corpus)):
        texts = sample.batch("text")
        clean = np.ones(len(texts), bool)
        clean[finder.find(texts).text] = False
        if not clean.any():
            raise InputError(
                f"Every unit of {name} contains a test text of `task`. Name other texts."
            )
        if found := int(np.count_nonzero(~clean)):
            sample.keep(np.flatnonzero(clean))
            run.progress.note(
                f"Test texts of `task` are in {name}: {found:,} of {len(texts):,} units left out."
            )


def score_difference(
    task: VectorTask, ours: Sequence[NDArray[np.int64]], base: Sequence[NDArray[np.int64]]
) -> Difference:
    """How much higher a method scores than another, with the 95 % interval.

    Args:
        task: what is answered.
        ours: tallies of the first method, of each fold both halves.
        base: those of the other.
    """
    # All selections are of one sample, so eight of them are not eight draws of a corpus. As of
    # bits, the variance over samples is that of the halves; it includes that of the vectors.
    found = task.difference(ours, base)
    higher = [task.score([a]) - task.score([b]) for a, b in zip(ours, base, strict=True)]
    by_fold = np.reshape(higher, (-1, HALVES))
    of_examples = found.over_examples**2
    return Difference.of_variances(
        found.mean,
        (between_halves(by_fold), len(by_fold)),
        (of_examples, max(1, len(task.task.test) - 1)),
    )


@dataclass(frozen=True)
class SampleWords:
    """The words of m units, of which selections are taken."""

    words: Words
    begins: NDArray[np.int64]  # [m + 1], where each unit begins in the numbers of `words`

    @classmethod
    def of(cls, sample: Sample) -> SampleWords:
        """The words of a sample."""
        words = Words.of(sample.read_texts())
        begins = np.append(np.flatnonzero(words.numbers == 1), len(words.numbers))
        return cls(words, begins)

    def most(self, held: HeldOut, share: float) -> int:
        """So many words are a share of the words of every half, and at most `MOST_WORDS`."""
        sizes = np.diff(self.begins) - 2
        halves = [
            int(sizes[held.half(fold, number)].sum())
            for fold in range(held.count)
            for number in np.unique(held.halves[fold]).tolist()
        ]
        return min(MOST_WORDS, int(share * min(halves)))

    def first(self, units: NDArray[np.int64], most: int) -> Words:
        """The words of the first of some units, int64 [k]; exactly `most`, if they have as many."""
        sizes = np.diff(self.begins)[units] - 2
        needed = int(np.searchsorted(np.cumsum(sizes), most)) + 1
        # in the corpus's order, so that equal selections have equal vectors
        taken = np.sort(units[:needed])
        numbers = [self.words.numbers[self.begins[i] : self.begins[i + 1]] for i in taken.tolist()]
        return Words(np.concatenate(numbers), self.words.identities).first(most)
