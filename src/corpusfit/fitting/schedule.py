"""How much of the time each part of a fit gets: a pure function of measured costs."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass

from corpusfit.core.engine.pace import SAFE_SHARE
from corpusfit.evaluation.vector_score import MOST_WORDS

FEWEST = 3
"""Fewest replicates: with two, an interval over trainings is too wide to be of use."""
MOST = 12
FEWEST_STEPS = 50
ENOUGH_STEPS = 200
"""Steps up to which three replicates train longer, before there are six."""
LONG_STEPS = 600
"""Steps up to which six replicates train longer, before they are fine-tuned."""
MOST_STEPS = 2_000
_OF_SIX = 0.6
"""Share of the time that six replicates may fill with trainings of more than `LONG_STEPS`."""
_PASSES = 3
"""Most passes over the selection."""
LATEST = 0.95
"""Share of the time that a fit may fill whose costs are known."""
_RESERVE = 1.05
"""Factor of a time that is asked for."""
_MOST_OF_CORPUS = 0.25
"""Most of the corpus that is selected: most of it all is no selection."""
_WORDS_PER_TOKEN = 0.8


@dataclass(frozen=True)
class Costs:
    """Seconds of each part."""

    select: float
    random: float  # selecting as much random text
    step: float  # a training step
    around: float  # a training without its steps: opening, tokenising, measuring, writing
    probe: float  # the probe of one model, or its answers as it is; 0 where the task has neither
    finetune: float  # one fine-tuning; 0 where the task has none
    vectors: float = 0.0  # scores of word vectors; 0 where the task has none

    @property
    def once(self) -> float:
        """What does not grow with the replicates: selecting, word vectors, probing the base."""
        return self.select + self.vectors + self.probe

    def replicate(self, steps: int) -> float:
        """Random text, a training on the selection, one on random text, and their probes."""
        return self.random + 2 * (self.around + steps * self.step) + 2 * self.probe


@dataclass(frozen=True)
class Schedule:
    """What is done in the time.

    Each replicate selects random text, trains a model on the selection and one on the random text
    with a seed of their own, and measures both.
    """

    max_steps: int  # of each training; 0 where a program of others trains, of its own
    batch: int  # sequences per step; 0 likewise
    length: int  # tokens per sequence, also of those that the loss is measured on
    tokens: int  # word pieces of the selection, and of each random text; 0 for the usual share
    replicates: int
    finetunings: int  # replicates whose models are fine-tuned, too

    def parts(self, costs: Costs) -> list[tuple[str, float]]:
        """What is done, in the order in which it begins, with the seconds of each."""
        trained = 2 * self.replicates
        training = costs.around + self.max_steps * costs.step
        parts = [
            (f"select {self.tokens:,} word pieces", costs.select),
            (
                f"select as much random text, {self.replicates} times",
                self.replicates * costs.random,
            ),
            (
                f"train {trained} models, half of them on random text, {self.max_steps:,} steps of "
                f"{self.batch} x {self.length} tokens",
                trained * training,
            ),
        ]
        if costs.vectors:
            parts.append(("score word vectors of both", costs.vectors))
        if costs.probe:
            parts.append(("measure these and the base", self.measuring(costs)))
        if self.finetunings:
            tuned = 3 * self.finetunings
            parts.append((f"fine-tune {tuned} models", tuned * costs.finetune))
        return parts

    def measuring(self, costs: Costs) -> float:
        """Seconds of the probes, or of the answers as they are, of all models and of the base."""
        return (2 * self.replicates + 1) * costs.probe

    def seconds(self, costs: Costs) -> float:
        """What all of it takes."""
        return sum(seconds for _, seconds in self.parts(costs))

    def fits(self, costs: Costs, seconds: float) -> bool:
        """Whether all of it is done in a time."""
        return self.seconds(costs) <= SAFE_SHARE * seconds

    def needed(self, costs: Costs, measuring: float = 0.0) -> int:
        """The time to ask for, in seconds: with a reserve, as costs are measured anew each time."""
        seconds = _RESERVE * (self.seconds(costs) / SAFE_SHARE + measuring)
        # not below what is shown of it, in tenths of a minute or of an hour
        unit = 360 if seconds >= 3600 else 6
        return unit * math.ceil(seconds / unit)


@dataclass(frozen=True)
class Measured:
    """What was measured before a fit, from which every schedule follows.

    Attributes:
        costs: of its parts, without word vectors.
        corpus_tokens: word pieces of the corpus.
        batch: sequences per step.
        length: tokens per sequence.
        vectors: seconds for word vectors whatever their words, and seconds for each word.
        busy: whether other programs used the machine.
    """

    costs: Costs
    corpus_tokens: float
    batch: int
    length: int
    vectors: tuple[float, float]
    busy: bool

    def schedule(self, seconds: float) -> tuple[Schedule, Costs]:
        """The schedule for a time, and its costs with word vectors."""
        sizes = {"batch": self.batch, "length": self.length}
        schedule = first_schedule(self.costs, seconds, self.corpus_tokens, **sizes)
        around, each = self.vectors
        words = min(MOST_WORDS, round(schedule.tokens * _WORDS_PER_TOKEN))
        costs = dataclasses.replace(self.costs, vectors=around + words * each)
        return first_schedule(costs, seconds, self.corpus_tokens, **sizes), costs


def first_schedule(
    costs: Costs, seconds: float, corpus_tokens: float, *, batch: int, length: int
) -> Schedule:
    """The schedule by costs measured beforehand; the shortest one if the time is too short."""
    usable = SAFE_SHARE * seconds - costs.once
    available = max(1, int(_MOST_OF_CORPUS * corpus_tokens))
    limit = max(FEWEST_STEPS, min(MOST_STEPS, _PASSES * available // (batch * length)))

    def steps_for(replicates: int, share: float) -> int:
        """The training steps with which so many replicates fill a share of the time."""
        training_seconds = share * usable / replicates - costs.replicate(0)
        return int(training_seconds / (2 * costs.step))

    # Most of a verdict's uncertainty is between trainings, and by Student's t an interval of three
    # is 2.4 times as wide as one of six, so six come before longer ones.
    steps = max(
        min(steps_for(FEWEST, 1.0), ENOUGH_STEPS),
        min(steps_for(2 * FEWEST, 1.0), LONG_STEPS),
        min(steps_for(2 * FEWEST, _OF_SIX), MOST_STEPS),
    )
    steps = max(FEWEST_STEPS, min(steps, limit))
    shortest = Schedule(steps, batch, length, min(steps * batch * length, available), FEWEST, 0)
    return with_replicates(shortest, costs, seconds)


def with_fewer_steps(schedule: Schedule, costs: Costs, seconds: float) -> Schedule:
    """A schedule by other costs, if not even three replicates of this one fit in a time.

    The amount of text stays, as it is selected already.
    """
    least = dataclasses.replace(schedule, replicates=FEWEST, finetunings=0)
    if least.seconds(costs) <= seconds:
        return schedule
    tokens = schedule.tokens / _MOST_OF_CORPUS
    sizes = {"batch": schedule.batch, "length": schedule.length}
    fewer = first_schedule(costs, seconds, tokens, **sizes)
    if fewer.max_steps >= schedule.max_steps:
        return schedule
    return dataclasses.replace(fewer, tokens=schedule.tokens)


def with_replicates(
    schedule: Schedule, costs: Costs, seconds: float, share: float = SAFE_SHARE
) -> Schedule:
    """As many replicates and fine-tunings as a share of the time allows, and none fewer."""
    # Six replicates of the cheap measures come first, then fine-tuning of at least three of them,
    # then more of both.
    usable = share * seconds - costs.once
    seconds_each = costs.replicate(schedule.max_steps)
    tuned = 3 * costs.finetune
    replicates = max(schedule.replicates, min(2 * FEWEST, MOST, int(usable / seconds_each)))
    finetunings = 0
    if costs.finetune:
        finetunings = min(replicates, max(0, int((usable - replicates * seconds_each) / tuned)))
    if finetunings < FEWEST:
        finetunings = 0
        replicates = max(schedule.replicates, min(MOST, int(usable / seconds_each)))
    elif finetunings == replicates:
        replicates = finetunings = max(replicates, min(MOST, int(usable / (seconds_each + tuned))))
    return Schedule(
        schedule.max_steps,
        schedule.batch,
        schedule.length,
        schedule.tokens,
        replicates,
        max(finetunings, schedule.finetunings),
    )
