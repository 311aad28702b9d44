"""The tables of benchmarks/score.py: gains over random text and their intervals.

Gains are differences to the random selection of the same seed, so that what the third of the
corpus and the test set have in common cancels.

- One task: the bootstrap takes adaptations and, within them, test examples. Models of a task see
  the same resampled test sets. Of a adaptations the deviations are widened by sqrt(a / (a - 1)),
  as a bootstrap of few is too narrow. With one adaptation only examples vary, which the table says.
- The mean over tasks: a crossed random-effects model, as a seed's third of the corpus and its
  random model serve all tasks. The variance of the mean is that of the tasks' means (which holds
  what varies within a task, too) over their number, plus that of the seeds' common part over
  theirs; t with the tasks' degrees of freedom.
Reference: Searle, Casella and McCulloch (1992), Variance Components, chapter 4 (ANOVA estimates).
"""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy.stats import t as student

from benefit_tables import counted
from corpusfit.core.artifacts import write_bytes
from score_cells import (
    BASE,
    RANDOM,
    SETTINGS,
    TASKS,
    UNIT,
    Cells,
    Piece,
    Record,
    unpacked,
)

ROUNDS = 2_000
Key = tuple[str, str, str, int]
"""Setting, task, column, seed."""
Gain = dict[str, tuple[float, float, float, int]]
"""By column, the mean gain, its interval, and adaptations or tasks."""


@dataclass(frozen=True)
class Measure:
    """A rung's number, so that higher is better.

    Attributes:
        rung: where it is.
        unit: what it is in.
        digits: decimals to show.
        ratio: whether `number` is 100 times a logarithm, and a difference is shown in percent.
    """

    rung: str
    unit: str
    digits: int
    ratio: bool = False

    def shown_as(self, *found: float) -> list[float]:
        """Numbers as a reader sees them."""
        return [100 * math.expm1(x / 100) if self.ratio else x for x in found]


MEASURES = {
    "probe": Measure("probe", "points", 1),
    "bleu": Measure("bleu", "points", 2),
    "bleu ratio": Measure("bleu", "percent", 1, ratio=True),
}


@dataclass(frozen=True)
class Value:
    """A measure of a model.

    Attributes:
        number: higher is better.
        resampled: of each resampled test set, the difference to `number`; none is [0].
    """

    number: float
    resampled: np.ndarray


def consistent(records: Iterable[Record]) -> dict[tuple[Key, str], Record]:
    """The records of the newest selection of each cell, by cell and rung.

    A selection belongs to all settings. The rungs above it are those of its text, whichever column
    they were computed for, or of the text before it, where a setting has adapted on that alone.
    """
    every = sorted(records, key=lambda r: r["made"]["date"])
    text_of_model = {r["digest"]: r["text"] for r in every if r["rung"] == "adapt"}
    adapted = {(r["setting"], r["text"]) for r in every if r["rung"] == "adapt"}
    newest = {
        (r["task"], r["column"], r["seed"]): r["result"]["text"]
        for r in every
        if r["rung"] == "select"
    }
    same: dict[tuple[str, int, str], list[str]] = {}  # columns that selected one text
    for (task, column, seed), text in newest.items():
        same.setdefault((task, seed, text), []).append(column)
    found: dict[tuple[Key, str], Record] = {}
    for r in every:
        cell = (r["task"], r["column"], r["seed"])
        if r["rung"] == "select":
            for setting, known in SETTINGS.items():
                if TASKS[r["task"]].kind in known.kinds:
                    found[(setting, *cell), "select"] = r
            continue
        text = text_of_model.get(r["model"], "")
        for column in same.get((r["task"], r["seed"], text), ()):
            found[(r["setting"], r["task"], column, r["seed"]), r["rung"]] = r
        if r["column"] == BASE or (
            r["rung"] != "adapt" and (r["setting"], newest.get(cell)) not in adapted
        ):
            found[(r["setting"], *cell), r["rung"]] = r
    return found


def values_of(found: dict[tuple[Key, str], Record], name: str) -> dict[Key, Value]:
    """A measure of every cell that has it."""
    measure = MEASURES[name]
    values = {}
    for (key, rung), record in found.items():
        if rung != measure.rung:
            continue
        result = record["result"]
        number = 100 * float(result["test"][TASKS[key[1]].metric])
        draws = unpacked(result["resampled"], np.int16) * (100 * UNIT)
        if measure.ratio:
            draws = 100 * np.log(np.maximum(number + draws, 1e-6) / number)
            number = 100 * math.log(number)
        values[key] = Value(number, draws)
    return values


@dataclass(frozen=True)
class Gains:
    """Differences of a column to another, by task and seed.

    Attributes:
        tasks: t names.
        gain: float64 [t, s], NaN where a cell is missing.
        resampled: of each task, float64 [seeds it has, draws].
    """

    tasks: list[str]
    gain: np.ndarray
    resampled: list[np.ndarray]

    @classmethod
    def of(cls, values: dict[Key, Value], setting: str, column: str, other: str) -> Gains:
        """The differences of the cells that both columns have; a base serves all seeds."""
        cells: dict[str, dict[int, Value]] = {}
        for (own, task, name, seed), against in values.items():
            key = (setting, task, column, 0 if column == BASE else seed)
            if own == setting and name == other and key in values:
                ours = values[key]
                cells.setdefault(task, {})[seed] = Value(
                    ours.number - against.number, ours.resampled - against.resampled
                )
        tasks = [task for task in TASKS if task in cells]
        seeds = sorted({seed for of in cells.values() for seed in of})
        gain = np.array(
            [[cells[t][s].number if s in cells[t] else np.nan for s in seeds] for t in tasks]
        ).reshape(len(tasks), len(seeds))
        draws = [np.array([cells[t][s].resampled for s in sorted(cells[t])]) for t in tasks]
        return cls(tasks, gain, draws)

    def means(self) -> np.ndarray:
        """float64 [t]: over the seeds that a task has."""
        return np.nanmean(self.gain, 1)


def task_interval(gain: np.ndarray, resampled: np.ndarray) -> tuple[float, float]:
    """95 % interval of a task's mean gain, by the bootstrap over adaptations and examples.

    Args:
        gain: float64 [a], of each adaptation.
        resampled: float64 [a, draws], differences of the gain on resampled test sets.
    """
    a = len(gain)
    rng = np.random.default_rng(0)
    if a == 1:
        means = gain[0] + resampled[0]
    else:
        wide = math.sqrt(a / (a - 1))
        drawn = rng.integers(0, a, (ROUNDS, a))
        sets = rng.integers(0, resampled.shape[1], ROUNDS)
        means = gain.mean() + wide * (gain[drawn].mean(1) - gain.mean())
        means = means + resampled[:, sets].mean(0)
    low, high = np.quantile(means, [0.025, 0.975])
    return float(low), float(high)


def mean_interval(gain: np.ndarray) -> tuple[float, float]:
    """95 % interval of the mean over tasks, if tasks are drawn from many, and so are seeds.

    Args:
        gain: float64 [t, s], NaN where a cell is missing.

    Returns:
        infinite bounds for fewer than three tasks, as two say nothing of others.
    """
    tasks = np.nanmean(gain, 1)
    t = len(tasks)
    if t < 3:
        return -math.inf, math.inf
    variance = tasks.var(ddof=1) / t
    whole = gain[:, ~np.isnan(gain).any(0)]
    seeds = whole.shape[1]
    if seeds > 1:  # the part of a seed that all tasks share
        rest = whole - whole.mean(0) - whole.mean(1, keepdims=True) + whole.mean()
        error = (rest**2).sum() / ((t - 1) * (seeds - 1))
        variance += max(0.0, whole.mean(0).var(ddof=1) - error / t) / seeds
    half = student.ppf(0.975, t - 1) * math.sqrt(variance)
    return float(tasks.mean() - half), float(tasks.mean() + half)


def write(cells: Cells, out: Path, wanted: Sequence[Piece]) -> None:
    """score_bleu.md: what is shown, means, and the tables of tasks."""
    parts = tables(list(cells.records.values()), wanted)
    write_bytes(out / "score_bleu.md", ("\n\n".join(parts) + "\n").encode())


def tables(records: list[Record], wanted: Sequence[Piece]) -> list[str]:
    """The paragraphs of the page."""
    found = consistent(records)
    asked = [p for p in wanted if p.rung not in ("select", "adapt")]
    done = sum(((p.setting, p.task, p.column, p.seed), p.rung) in found for p in asked)
    gains: dict[str, Gain] = {}
    sections: list[str] = []
    for setting in SETTINGS:
        columns = [
            c
            for c in dict.fromkeys(p.column for p in wanted)
            if any(key[0] == setting and key[2] == c and r != "select" for key, r in found)
        ]
        if len(columns) < 2:
            continue
        sections += [f"## {TITLES[setting]}", explained(setting)]
        for name, measure in MEASURES.items():
            values = values_of(found, name)
            if made := gains_table(values, setting, columns, name, gains):
                sections += [f"### {name}: {measure.unit}, against `{RANDOM}`", made]
    rows, conclusion = means(gains)
    return [
        "# BLEU and a probe after selections",
        conclusion,
        "An older study than [that of word vectors](../docs/results/score.md), and not finished: "
        f"{done:,} of {len(asked):,} scores are in. {INTRODUCTION}",
        "## Means over tasks",
        rows,
        HOW_TO_READ,
        *sections,
        made_by(records),
    ]


def means(gains: dict[str, Gain]) -> tuple[str, str]:
    """Every column's mean score, and a list of those that are shown to differ from random."""
    lines = [
        f"| setting | score | column | mean over tasks, against `{RANDOM}` | shown higher "
        "| shown lower | tasks |",
        "|---|---|---|---|---|---|---|",
    ]
    higher: dict[tuple[str, str], list[str]] = {}
    lower = []
    for setting, name in itertools.product(SETTINGS, MEASURES):
        measure = MEASURES[name]
        unit = "%" if measure.ratio else measure.unit
        by_task = [gains.get(f"{setting}/{name}/{task}", {}) for task in TASKS]
        means_of = gains.get(f"{setting}/{name}/mean", {})
        for column in dict.fromkeys(column for of in by_task for column in of):
            of = [found[column] for found in by_task if column in found]
            above = sum(c[1] > 0 for c in of)
            below = sum(c[2] < 0 for c in of)
            if column != BASE and below:
                lower.append(f"`{column}` on {counted(below, 'task')} ({setting}, {name})")
            if column not in means_of:  # two tasks say nothing of others
                continue
            mean, low, high, _ = means_of[column]
            d = measure.digits
            said = f"{mean:+.{d}f} {unit} ({low:+.{d}f} to {high:+.{d}f})"
            lines.append(
                f"| {setting} | {name} | `{column}` | {said} | {above} | {below} | {len(of)} |"
            )
            if column != BASE and low > 0:
                text = f"`{column}` {said}, {counted(len(of), 'task')}"
                higher.setdefault((setting, name), []).append(text)
            if column != BASE and high < 0:
                lower.append(f"`{column}` {said} ({setting}, {name})")
    shown_higher = [
        f"- {TITLES[setting]}, {name}{', not asked in advance' * ((setting, name) in UNASKED)}: "
        f"{'; '.join(of)}."
        for (setting, name), of in higher.items()
    ]
    conclusion = [
        f"**Shown to score higher than `{RANDOM}` in the mean over tasks:**\n",
        *(shown_higher or ["- nothing yet."]),
        "\n**Selections that are shown to score lower, in the mean or on a task:** "
        f"{', '.join(lower) or 'none'}. (`base`, the model without continued training, is lower on "
        "some tasks.)",
    ]
    return "\n".join(lines), "\n".join(conclusion)


UNASKED = {("translation", "bleu ratio")}
"""Seen after the question stated in advance, in points, was answered."""
TITLES = {
    "continued": "Continued pre-training",
    "translation": "A translation model, continued",
    "into_german": "A translation model into German, continued",
}
INTRODUCTION = (
    "A column is a method; each selects 900,000 words of a third of the corpus (5 %), segments by "
    "falling score with the default units and segments of version 0.2, from the train texts of a "
    "task (at most 2,000). The corpus is free of the dev and test texts of all tasks. A model is "
    "adapted on the selection and scored on whole test sets: by a probe, which is a logistic "
    "regression on the frozen model's states (mean of a text, first token of a word; features of "
    "variance 1; the L2 penalty with the lowest log loss on dev; all training examples; nothing is "
    "drawn), or by BLEU. A seed decides the third of the corpus, the texts to select by and the "
    "training; `random` is one model for all tasks of a seed."
    "\n\n"
    "The interval of a mean is that of a crossed random-effects model, for other tasks and other "
    "thirds of the corpus; *shown higher* and *shown lower* count the tasks whose own 95 % "
    "interval is on one side of zero. No interval is corrected for the number of comparisons. "
    "Which questions were stated before they ran, and their answers, is in the "
    "[log](log.md)."
)
HOW_TO_READ = (
    "Tables have differences to `random`, in its last column as it is; positive is better. A "
    "task's 95 % interval is a bootstrap over adaptations and test examples (with one "
    "adaptation, marked ¹, over examples alone: another adaptation may differ by more)."
)


def explained(setting: str) -> str:
    """What a setting trains."""
    own = SETTINGS[setting]
    train = dict(own.train)
    if "translation" in own.kinds:
        stated = "is of the ratio of BLEU."
        if setting == "translation":
            stated = "was of points of BLEU; that the ratio is above zero was seen afterwards."
        return (
            f"`{own.base}` is a small model of all pairs (2,400 steps from scratch), continued for "
            f"{train['max_steps']} steps of 4,096 tokens a side on pairs with 200,000 English "
            "words. They are selected by their English sides from two thirds of six domains. BLEU "
            "is of the sets of Koehn and Knowles (2017), and of captions and news of pairs that "
            f"are kept out of all training. The question stated in advance {stated}"
        )
    words = 900_000
    seen = train["max_steps"] * train["batch"] * train["length"] / (1.35 * words)
    return (
        f"`{own.base}`, `{train['objective']}`, {train['max_steps']:,} steps of {train['batch']} x "
        f"{train['length']} tokens, rate {train['learning_rate']:g}: a selection is seen about "
        f"{max(1, round(seen))} time{'s' if round(seen) > 1 else ''}."
    )


def gains_table(
    values: dict[Key, Value], setting: str, columns: list[str], name: str, found: dict[str, Gain]
) -> str:
    """Tasks by columns; empty without cells."""
    measure = MEASURES[name]
    digits = measure.digits
    shown_as = measure.shown_as
    others = [c for c in columns if c != RANDOM]
    by_column = {c: Gains.of(values, setting, c, RANDOM) for c in others}
    by_column = {c: g for c, g in by_column.items() if g.tasks}
    if not by_column:
        return ""
    tasks = [t for t in TASKS if any(t in g.tasks for g in by_column.values())]
    lines = [
        f"| task | {' | '.join(f'`{c}`' for c in by_column)} | `{RANDOM}` |",
        f"|---|{'---|' * (len(by_column) + 1)}",
    ]
    for task in tasks:
        cells = []
        for column, gains in by_column.items():
            if task not in gains.tasks:
                cells.append("–")
                continue
            at = gains.tasks.index(task)
            own = gains.gain[at][~np.isnan(gains.gain[at])]
            (gain,) = shown_as(float(own.mean()))
            text = f"{gain:+.{digits}f}"
            low, high = shown_as(*task_interval(own, gains.resampled[at]))
            mark = "¹" if len(own) == 1 else ""
            text += f" ({low:+.{digits}f} to {high:+.{digits}f}){mark}"
            of_task = found.setdefault(f"{setting}/{name}/{task}", {})
            of_task[column] = (gain, low, high, len(own))
            cells.append(text)
        random = [v.number for k, v in values.items() if k[:3] == (setting, task, RANDOM)]
        level = statistics.fmean(random)
        if measure.ratio:
            level = math.exp(level / 100)
        lines.append(f"| {task} | {' | '.join(cells)} | {level:.{digits}f} |")
    cells = []
    for column, gains in by_column.items():
        bounds = mean_interval(gains.gain)
        mean, low, high = shown_as(float(gains.means().mean()), *bounds)
        said = f"{mean:+.{digits}f}"
        if math.isfinite(bounds[0]):
            said += f" ({low:+.{digits}f} to {high:+.{digits}f})"
            of_mean = found.setdefault(f"{setting}/{name}/mean", {})
            of_mean[column] = (mean, low, high, len(gains.tasks))
        fewer = len(gains.tasks) < len(tasks)
        cells.append(f"{said}, {counted(len(gains.tasks), 'task')}" if fewer else said)
    lines.append(f"| **mean** | {' | '.join(cells)} | |")
    return "\n".join(lines)


def made_by(records: list[Record]) -> str:
    """The command, the commits, the machines and the cost."""
    commits = sorted({r["made"]["commit"][:9] for r in records})
    machines = sorted({r["made"]["cpu"] for r in records})
    hours = sum(r["cpu_seconds"] for r in records) / 3600
    return (
        "Made by `benchmarks/score.py DATA MODELS WORK`, cells in `benchmarks/results/score`; "
        f"commits {', '.join(commits) or '–'}, on {', '.join(machines) or '–'}, "
        f"{hours:.1f} hours of a core. A later run adds what is missing; `--table` writes this "
        "page."
    )
