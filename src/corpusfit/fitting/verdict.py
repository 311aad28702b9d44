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
from corpusfit.evaluation.points import POINTS, magnitude
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
        return _figure(self.unit, value, "+" if sign else "")


@dataclass(frozen=True)
class Verdict:
    """What to keep, and why.

    Attributes:
        keep: selection, random or base.
        shown: what the measures of the task show, in a sentence.
        lost: what became of the loss on general text; empty if it was not measured.
        not_shown: what they do not show or measure; empty if nothing is open.
        more: what more time would show of it.
        why: which model to keep, and why.
        measured: on how much.
    """

    keep: str
    shown: str
    lost: str
    not_shown: str
    more: str
    why: str
    measured: str


def conclude(
    task: str,
    measures: Sequence[Measure],
    schedule: Schedule,
    costs: Costs,
    general_text: str = "general text (held-out random text of the corpus)",
) -> Verdict:
    """The verdict of all measures of a task; `general_text` says what that is."""
    loss = measures[0]
    general = next((m for m in measures if m.name == GENERAL), None)
    scores = [m for m in measures if m not in (loss, general)]
    # One score decides, and which one does not depend on its result: the one that could show the
    # smallest difference. A verdict by whichever score shows one would be wrong more often. Models
    # that all answer alike have no differences, and nothing to say.
    speaking = [m for m in scores if m.over_random.detectable > 0]
    best = min(speaking, key=lambda m: m.over_random.detectable, default=loss)

    by = f"by {_measure(best)}"
    undecided = False
    if best.over_base.shown > 0 and best.of_base and best.over_random.shown >= 0:
        keep = "selection"
        beside = "better" if best.over_random.shown > 0 else "not shown to be worse"
        why = f"{by} it is better than the base, and {beside} than random text"
    elif best.random_over_base.shown > 0 and best.of_base:
        keep = "random"
        worse = best.over_random.shown < 0
        beside = "better than the selection" if worse else "the selection is not shown to be"
        why = f"{by} it is better than the base, and {beside}"
    elif best is loss or best.over_base.shown < 0 or best.over_random.shown < 0:
        keep = "base"
        why = f"nothing is shown to be better {by}"
    else:  # no score shows which is best: the loss on the task's text decides
        undecided = True
        fell = loss.of_base and loss.over_base.shown > 0 and loss.over_random.shown >= 0
        keep = "selection" if fell else "base"
        why = "its loss on the task's text is lower, which is a weaker reason than a score"
        if not fell:
            why = "a lower loss is not shown" if loss.of_base else "its loss cannot be compared"
        elif general is not None and general.over_base.shown < 0:
            price = general.said(-general.over_base.mean, sign=False)
            why += (
                f"; it has a cost of {price} {general.unit} on general text, so keep the base "
                "if that matters more"
            )
    # a task with labels has no score yet where nothing was fine-tuned
    unscored = bool(best is loss and (scores or costs.finetune))
    kept = {
        "selection": "the model adapted on the selection",
        "random": "the model adapted on random text",
        "base": "the base",
    }[keep]
    lead = "Whether a score rises is open; for now, keep" if undecided or unscored else "Keep"
    named = f" It is the first of {schedule.replicates} trainings, not picked by its score."
    failed = [f"{m.failed} of {3 * m.replicates} ({m.name})" for m in scores if m.failed]
    alike = f" Models that give one answer to every test text: {', '.join(failed)}."
    texts = "sequences" if best is loss else "test texts"
    also = "" if best is loss else " and test texts"
    compared = [best] if best is loss else [best, loss]
    shown = _shown(compared)
    missing = _open(compared)
    if unscored:
        missing.append("Not measured: any score of the models.")
    elif best.name == "probe" and not schedule.finetunings:
        missing.append(f"Not measured: {best.metric or 'the score'} after fine-tuning.")
    return Verdict(
        keep,
        f"{task}: {'; '.join(shown)}.",
        _lost(general, general_text) if general else "",
        " ".join(missing),
        _more(best, schedule, costs) if missing else "",
        f"{lead} {kept}: {why}.{named * (keep != 'base')}",
        f"Measured on {best.examples:,} held-out {texts}, with {best.replicates} trainings of "
        f"each; 95 % intervals, in parentheses, cover chance between trainings{also}."
        f"{alike * bool(failed)}",
    )


def gains_table(
    measures: Sequence[Mapping[str, Any]],
) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Columns and rows of what a manifest has of the measures, a row for each."""
    columns = ("measure", "base", "random text", "selection", "gain over random", "gain over base")

    def compared(measure: Mapping[str, Any], other: str) -> str:
        found = measure[f"over_{other}"]
        mean, low, high = (
            _figure(measure["unit"], found[of], "+") for of in ("mean", "low", "high")
        )
        return f"{mean} ({low} to {high}; {_figure(measure['unit'], found['detectable'])})"

    rows = [
        (
            f"{measure['name']}, {measure['unit']}",
            *(
                _figure(measure["unit"], magnitude(measure[name], measure["unit"]))
                for name in ("base", "random", "selection")
            ),
            compared(measure, "random"),
            compared(measure, "base"),
        )
        for measure in measures
    ]
    return columns, rows


def _figure(unit: str, value: float, sign: str = "") -> str:
    """A value or a difference as a number of the unit."""
    # 0 is added so that nothing reads "-0.0"
    if unit == POINTS:
        return f"{round(100 * value, 1) + 0:{sign}.1f}"
    return f"{round(value, 3) + 0:{sign}.3f}"


def _measure(measure: Measure, probe: str = "the probe") -> str:
    """A measure in words."""
    metric = measure.metric or "the score"
    return {
        LOSS: "the loss on the task's text",
        "probe": f"{metric} of {probe}",
        "fine-tuned": f"{metric} after fine-tuning",
        "score": "the score of the models as they are",
    }[measure.name]


def _compared(measure: Measure) -> list[tuple[str, Difference]]:
    """What the selection is compared with, and the differences."""
    of_base = [("the base", measure.over_base)] if measure.of_base else []
    return [*of_base, ("random text", measure.over_random)]


def _shown(measures: Sequence[Measure]) -> list[str]:
    """What is shown, by each measure in a clause; of the first also that nothing is."""
    clauses = []
    # explained where it is named first
    probe = "a probe (a linear classifier on the model's vectors)"
    for measure in measures:
        said = [_than(measure, other, found) for other, found in _compared(measure) if found.shown]
        if said:
            clauses.append(f"by {_measure(measure, probe)}, the selection is {' and '.join(said)}")
        elif measure is measures[0]:
            clauses.append(f"no difference is shown by {_measure(measure, probe)}")
    return clauses


def _than(measure: Measure, other: str, found: Difference) -> str:
    """How much better or worse than another model, with the interval of the gain."""
    than = "better" if found.mean > 0 else "worse"
    size = f"{measure.said(abs(found.mean), sign=False)} {measure.unit}"
    open_ = "" if found.shown else ", not shown"
    return (
        f"{than} than {other} by {size} "
        f"({measure.said(found.low)} to {measure.said(found.high)}{open_})"
    )


def _lost(general: Measure, general_text: str) -> str:
    """The loss on general text after the selection, beside the base's and random text's."""
    said = " and ".join(_than(general, other, found) for other, found in _compared(general))
    if general.of_base:
        said += f"; random text is {_than(general, 'the base', general.random_over_base)}"
    return f"By the loss on {general_text}, the selection is {said}."


def _open(measures: Sequence[Measure]) -> list[str]:
    """What is not shown, by each measure in a sentence."""
    sentences = []
    for measure in measures:
        missing = [(other, found) for other, found in _compared(measure) if not found.shown]
        said = [
            f"from {other} ({measure.said(found.mean)} {measure.unit}, {measure.said(found.low)} "
            f"to {measure.said(found.high)})"
            for other, found in missing
        ]
        if said:
            least = [measure.said(found.detectable, sign=False) for _, found in missing]
            sentences.append(
                f"Not shown by {_measure(measure)}: a difference {' or '.join(said)}. This many "
                f"trainings find one of {' or '.join(least)} {measure.unit} in 8 of 10 cases."
            )
    return sentences


def _more(measure: Measure, schedule: Schedule, costs: Costs) -> str:
    """What a longer time would add; the test examples stay as they are."""
    found = measure.over_random
    sentences = []

    at_most = found.over_replicates**2 * measure.replicates / MOST
    least = POWER * math.sqrt(at_most + found.over_examples**2)
    measured = f"{measure.said(found.mean)} was measured"
    seen = (
        f"find a difference from random text of {measure.said(least, sign=False)} {measure.unit} "
        f"in 8 of 10 cases ({measured})"
    )

    if not schedule.max_steps:  # how long a program of others takes is not known
        if measure.name == "probe" and not schedule.finetunings:
            sentences.append(f"With {2 * FEWEST} seeds the models are fine-tuned, too.")
        if schedule.replicates < MOST:
            sentences.append(f"{MOST} seeds {seen}.")
        return " ".join(sentences)
    if costs.finetune and not schedule.finetunings:
        # six replicates come before it
        six = max(schedule.replicates, 2 * FEWEST)
        needed = dataclasses.replace(schedule, replicates=six, finetunings=FEWEST).needed(costs)
        sentences.append(
            f"With a time of {format_duration(needed)} in all, the same command also fine-tunes."
        )
    if schedule.replicates >= MOST:
        sentences.append("More test examples would show smaller differences; more time would not.")
        return " ".join(sentences)
    # without fine-tuning if that many are then planned, else with that of all of them
    longer = dataclasses.replace(schedule, replicates=MOST)
    if with_replicates(schedule, costs, longer.needed(costs)).replicates < MOST:
        longer = dataclasses.replace(longer, finetunings=MOST)
    sentences.append(
        f"With {format_duration(longer.needed(costs))} in all, the same command goes on from these "
        f"{schedule.replicates} to {MOST} trainings of each, which {seen}."
    )
    if schedule.max_steps < LONG_STEPS:
        sentences.append(
            f"They keep {schedule.max_steps:,} steps; longer trainings need a new folder."
        )
    return " ".join(sentences)
