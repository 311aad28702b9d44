"""What the measures of a fit say, in one sentence."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from corpusfit.core.engine.pace import format_duration
from corpusfit.evaluation.contract import TaskType
from corpusfit.evaluation.points import POINTS
from corpusfit.evaluation.significance import Difference, difference, scored_difference
from corpusfit.evaluation.task import Outcome, Task
from corpusfit.fitting.schedule import FEWEST, LONG_STEPS, MOST, Costs, Schedule, with_replicates

LOSS = "loss"
GENERAL = "general loss"
POWER = 2.8  # standard errors of a difference that is shown in 8 of 10 cases


@dataclass(frozen=True)
class Measure:
    """One measure of the base, of the models after random text, and of those after the selection.

    Of every score higher is better; of the loss lower, so its differences have the other sign:
    a positive one is always in favor of the first model.
    """

    name: str  # loss, general loss, probe, fine-tuned, or score
    unit: str
    replicates: int
    examples: int  # test examples, or held-out sequences of each replicate
    base: float  # mean over replicates
    random: float
    selection: float
    over_random: Difference  # of the selection
    over_base: Difference
    random_over_base: Difference
    failed: int = 0  # evaluations that give one answer to every test text
    of_base: bool = True  # whether the base can be compared
    metric: str = ""  # of a score in points

    @classmethod
    def of_losses(
        cls,
        before: Sequence[float],
        after: Mapping[str, Sequence[float]],
        examples: int,
        *,
        name: str = LOSS,
        of_base: bool = True,
    ) -> Measure:
        """The losses on held-out text of the task, or on general text, by replicate."""
        n = len(before)

        def fall(start: Sequence[float], end: Sequence[float]) -> Difference:
            return difference([a - b for a, b in zip(start, end, strict=True)])

        return cls(
            name,
            "nats per token",
            n,
            examples,
            math.fsum(before) / n,
            math.fsum(after["random"]) / n,
            math.fsum(after["selection"]) / n,
            fall(after["random"], after["selection"]),
            fall(before, after["selection"]),
            fall(before, after["random"]),
            of_base=of_base,
        )

    @classmethod
    def of_outcomes(
        cls,
        name: str,
        task_type: TaskType,
        metric: str,
        task: Task,
        outcomes: Mapping[str, Sequence[Outcome]],
        seed: int,
    ) -> Measure:
        """The scores of models on test, by replicate."""
        tallies = {
            role: [task_type.sums_of(task, outcome) for outcome in of_role]
            for role, of_role in outcomes.items()
        }
        means = {
            role: math.fsum(o.scores["test"][metric] for o in of_role) / len(of_role)
            for role, of_role in outcomes.items()
        }
        compared = partial(scored_difference, metric=partial(task_type.score, metric), seed=seed)
        ours = tallies["selection"]
        unit = task_type.unit_of(metric)
        return cls(
            name,
            unit,
            len(ours),
            len(ours[0]),
            means["base"],
            means["random"],
            means["selection"],
            compared(ours, tallies["random"]),
            compared(ours, tallies["base"]),
            compared(tallies["random"], tallies["base"]),
            sum(o.one_answer for of_role in outcomes.values() for o in of_role),
            metric=metric.replace("_", " ") if unit == POINTS else "",
        )

    def as_dict(self) -> dict[str, Any]:
        """Plain values."""
        return dataclasses.asdict(self)

    def said(self, value: float, *, sign: bool = True) -> str:
        """A value or a difference, as a number of the measure's unit."""
        plus = "+" if sign else ""
        if self.unit == POINTS:
            return f"{100 * value:{plus}.1f}"
        return f"{value:{plus}.3f}"


@dataclass(frozen=True)
class Verdict:
    """What to keep, and why."""

    keep: str  # selection, random or base
    sentences: tuple[str, ...]  # the last says what to keep, and what is undecided
    more: str  # what more time would buy

    @property
    def sentence(self) -> str:
        """All of it."""
        return " ".join(self.sentences)


def conclude(task: str, measures: Sequence[Measure], schedule: Schedule, costs: Costs) -> Verdict:
    """The verdict of all measures of a task."""
    loss = measures[0]
    general = next((m for m in measures if m.name == GENERAL), None)
    scores = [m for m in measures if m not in (loss, general)]
    # One score decides, and which one does not depend on its result: the one that could show the
    # smallest difference. A verdict by whichever score shows one would be wrong more often. Models
    # that all answer alike have no differences, and nothing to say.
    speaking = [m for m in scores if m.over_random.detectable > 0]
    best = min(speaking, key=lambda m: m.over_random.detectable, default=loss)

    # a task with labels has no score yet where nothing was fine-tuned
    unscored = best is loss and (scores or costs.finetune)
    undecided = "Undecided: no score compares the models." if unscored else ""
    if best.over_base.shown > 0 and best.of_base and best.over_random.shown >= 0:
        keep = "selection"
    elif best.random_over_base.shown > 0 and best.of_base:
        keep = "random"
    elif best is loss or best.over_base.shown < 0 or best.over_random.shown < 0:
        keep = "base"
    else:  # no score shows which is best: the loss on the task's text decides
        fell = loss.of_base and loss.over_base.shown > 0 and loss.over_random.shown >= 0
        keep = "selection" if fell else "base"
        gain = " to ".join(map(best.said, (best.over_base.low, best.over_base.high)))
        undecided = (
            f"Undecided: no gain in {best.metric or 'score'} over the base is shown "
            f"({best.said(best.over_base.mean)} {best.unit}, {gain})."
        )

    begin = "" if best.over_random.shown else "undecided, as "
    sentences = [f"{task}: {begin}{_answer(best, best.over_random, 'random text')}."]
    if best.of_base:
        answer = _answer(best, best.over_base, "the base")
        sentences.append(f"{answer[0].upper()}{answer[1:]}.")
    texts = "sequences" if best is loss else "test texts"
    measured_by = f"{best.metric} of {_WHAT[best.name]}" if best.metric else _WHAT[best.name]
    sentences.append(
        f"Measured by {measured_by} on {best.examples:,} held-out {texts}, with {best.replicates} "
        "trainings of each."
    )
    if best is not loss and loss.of_base:
        selection, random = (
            f"{'falls' if fall >= 0 else 'rises'} by {abs(fall):.2f}"
            for fall in (loss.base - loss.selection, loss.base - loss.random)
        )
        sentences.append(
            f"The loss on the task's text {selection} nats per token on the selection and "
            f"{random} on random text."
        )
    if general is not None and general.of_base:
        sentences.append(_lost(general))
    failed = [f"{m.failed} of {3 * m.replicates} ({m.name})" for m in scores if m.failed]
    if failed:
        sentences.append(f"Models that give one answer to every test text: {', '.join(failed)}.")
    if keep != "base":
        sentences.append(
            f"The model that is named is the first of its {schedule.replicates} trainings: none is "
            "chosen by its own result."
        )
    kept = {
        "selection": "the model adapted on the selection",
        "random": "the model adapted on random text",
        "base": "the base",
    }[keep]
    conclusion = f"Keep {kept}."
    if undecided:
        alone = "By the loss alone, keep" if loss.of_base else "No loss compares it either: keep"
        longer = "a longer time or " if schedule.max_steps else "more seeds or "
        more = longer if schedule.replicates < MOST else ""
        conclusion = f"{undecided} {alone} {kept}. To decide, give {more}more test texts."
    sentences.append(conclusion)
    return Verdict(keep, tuple(sentences), _more(best, schedule, costs))


_WHAT = {
    LOSS: "the loss",
    "probe": "a probe of the frozen models",
    "fine-tuned": "the fine-tuned models",
    "score": "the models as they are",
}


def _lost(general: Measure) -> str:
    """What the selection costs on general text, beside what random text does."""
    found = general.over_base
    ends = " to ".join(general.said(-end) for end in (found.high, found.low))
    on_random = general.said(-general.random_over_base.mean)
    change = f"{general.said(-found.mean)} nats per token on the selection, {ends}"
    shown = {-1: "rises", 0: "is not shown to change", 1: "falls"}[found.shown]
    said = f"The loss on general text {shown} ({change}; {on_random} on random text)"
    over = general.over_random
    if over.shown:
        ends = " to ".join(general.said(-end) for end in (over.high, over.low))
        than = "higher" if over.shown < 0 else "lower"
        said += f", and is {than} than after random text ({general.said(-over.mean)}, {ends})"
    return f"{said}."


def _answer(measure: Measure, difference: Difference, other: str) -> str:
    """Whether the selection is better than something, with the interval."""
    ends = f"95 % interval {measure.said(difference.low)} to {measure.said(difference.high)}"
    if not difference.shown:
        return (
            f"no difference between the selection and {other} is shown "
            f"({measure.said(difference.mean)} {measure.unit}, {ends}; "
            f"{measure.said(difference.detectable, sign=False)} would have been seen)"
        )
    verb = "beats" if difference.shown > 0 else "is worse than"
    size = f"{measure.said(abs(difference.mean), sign=False)} {measure.unit}"
    return f"the selection {verb} {other} by {size} ({ends})"


def _more(measure: Measure, schedule: Schedule, costs: Costs) -> str:
    """What a longer time would add; the test examples stay as they are."""
    found = measure.over_random
    sentences = []

    at_most = found.over_replicates**2 * measure.replicates / MOST
    least = POWER * math.sqrt(at_most + found.over_examples**2)
    seen = f"would show a difference of about {measure.said(least, sign=False)} {measure.unit}"

    if not schedule.max_steps:  # how long a program of others takes is not known
        if measure.name == "probe" and not schedule.finetunings:
            sentences.append(f"No model was fine-tuned; with {2 * FEWEST} seeds all are.")
        if schedule.replicates < MOST:
            sentences.append(f"The same command with {MOST} seeds {seen}.")
        return " ".join(sentences)
    if costs.finetune and not schedule.finetunings:
        # six replicates come before it
        six = max(schedule.replicates, 2 * FEWEST)
        needed = dataclasses.replace(schedule, replicates=six, finetunings=FEWEST).needed(costs)
        sentences.append(
            f"No model was fine-tuned; with a time of {format_duration(needed)} some are."
        )
    elif schedule.replicates >= MOST:
        sentences.append("More test examples would show smaller differences; more time would not.")
    if schedule.replicates < MOST:
        # without fine-tuning if that many are then planned, else with that of all of them
        longer = dataclasses.replace(schedule, replicates=MOST)
        if with_replicates(schedule, costs, longer.needed(costs)).replicates < MOST:
            longer = dataclasses.replace(longer, finetunings=MOST)
        sentences.append(
            f"The same command with a time of {format_duration(longer.needed(costs))} makes "
            f"{MOST} trainings of each, and {seen}."
        )
    if schedule.max_steps < LONG_STEPS:
        sentences.append(
            f"Its trainings stay at {schedule.max_steps:,} steps; for longer ones take another "
            "`out`."
        )
    return " ".join(sentences)
