"""The pages and the picture of benchmarks/score_study.py and score_rungs.py, from stored cells.

Run: .venv/bin/python benchmarks/score_pages.py, which writes docs/results/score.md,
docs/images/score.svg and benchmarks/score_tasks.md.
"""

from __future__ import annotations

import itertools
from pathlib import Path
from xml.etree import ElementTree as ET

import numpy as np
import orjson
from scipy.stats import t as student

from corpusfit.core.artifacts import write_bytes
from corpusfit.evaluation.significance import holm
from corpusfit.reporting.charts import Axis, Drawing
from score_cells import Cells, Record
from score_rungs import COMPARED, LARGE, STEPS, WORDS, decisions, share
from score_study import (
    AMOUNTS,
    APART,
    ROWS,
    STATED,
    STATED_AMOUNT,
    gains,
    is_stated,
    tested,
    unpacked,
)
from score_tables import task_interval

HERE = Path(__file__).parent
CELLS = HERE / "results" / "score_study"
DOCS = HERE.parent / "docs"
METHODS = STATED[1:]
COLORS = {"default": "#0072b2", "moore_lewis": "#d55e00", "dsir": "#009e73"}
"""From the palette of Okabe and Ito, safe for color-blind readers."""
NAMES = {
    "random": "random text",
    "default": "the default",
    "moore_lewis": "Moore-Lewis",
    "dsir": "DSIR",
    "default_256": "the default in pieces of 256",
    "random_256": "random text in pieces of 256",
    "bm25": "BM25",
    "fasttext": "a fastText filter",
    "random_15x256": "random text in segments of 15 x 256",
    "before": "the default of version 0.2",
    "own": "the task's own training text",
}
HEADING = " | ".join(NAMES[arm] for arm in METHODS)
SOURCES = (
    "sixteen sources (papers, books, an encyclopedia, law, finance, news, manuals, reviews, "
    "comments, dialogues, tweets)"
)
RUNGS = {
    "bits": "bits of a trigram",
    "0": "score of word vectors",
    "loss": "loss of a small BERT",
    "probe": "probe of a small BERT",
}
PAIRS = (
    ("default", "default_256"),
    ("default_256", "random_256"),
    ("bm25", "random"),
    ("default", "bm25"),
    ("fasttext", "random"),
    ("default", "fasttext"),
    ("before", "random_15x256"),
    ("default", "before"),
)
"""Compared beside the stated tests, at 2 % on all rows."""
RESAMPLES = 400
Test = tuple[str, int, int, float, float, float, float, str]
"""Other arm, tasks, draws, mean, low, high, p by Holm, answer."""


def tests(cells: Cells) -> list[Test]:
    """The three stated tests."""
    tables = [
        gains(cells, STATED_AMOUNT, 0, "default", other)[1] for other in ("random", *METHODS[1:])
    ]
    found = [tested(table) for table in tables]
    rows: list[Test] = []
    for other, table, (mean, low, high, _), p in zip(
        ("random", *METHODS[1:]), tables, found, holm([each[-1] for each in found]), strict=True
    ):
        answer = "not shown"
        if p is not None and p < 0.05:
            answer = "shown to be higher" if mean > 0 else "shown to be lower"
        rows.append((other, *table.shape, mean, low, high, float(p or 0.0), answer))
    return rows


def summary(cells: Cells) -> str:
    """The answers to the three questions in one sentence, as the readme has it."""
    said = [
        f"{mean:+.1f} points over {NAMES[other]} ({low:+.1f} to {high:+.1f}; {answer})"
        for other, _, _, mean, low, high, _, answer in tests(cells)
    ]
    return f"{said[0]}, {said[1]}, and {said[2]}"


def medians(cells: Cells) -> str:
    """The median over tasks of the differences of the stated tests."""
    said = []
    for other in ("random", *METHODS[1:]):
        table = gains(cells, STATED_AMOUNT, 0, "default", other)[1]
        said.append(f"{np.median(np.nanmean(table, 1)):+.1f} over {NAMES[other]}")
    return ", ".join(said)


def task_points(cells: Cells) -> dict[str, dict[str, tuple[float, float, float]]]:
    """By arm and task, the points over random text at 2 % on all training rows.

    Returns:
        the mean of the draws and its 95 % interval, by a bootstrap over draws and test texts.
    """
    right: dict[tuple[str, str], dict[int, np.ndarray]] = {}
    for r in cells.records.values():
        if is_stated(r):
            answers = unpacked(r["result"]["right"])
            # the number of test texts follows from how many are right, and their share
            n = round(int(answers.sum()) / r["result"]["accuracy"])
            right.setdefault((r["task"], r["column"]), {})[r["seed"]] = answers[:n]
    found: dict[str, dict[str, tuple[float, float, float]]] = {arm: {} for arm in METHODS}
    for task in sorted({task for task, _ in right}):
        base = right[task, "random"]
        n = len(next(iter(base.values())))
        times = np.random.default_rng(n).multinomial(n, np.full(n, 1 / n), RESAMPLES) / n
        for arm in METHODS:
            ours = right[task, arm]
            more = [100.0 * (ours[draw] - base[draw]) for draw in sorted(base.keys() & ours.keys())]
            gain = np.array([each.mean() for each in more])
            resampled = np.array([times @ each for each in more]) - gain[:, None]
            found[arm][task] = (float(gain.mean()), *task_interval(gain, resampled))
    return found


def picture(cells: Cells) -> str:
    """Points over random text of each task with intervals, sorted by the default, as SVG."""
    points = task_points(cells)
    order = sorted(points["default"], key=lambda task: -points["default"][task][0])
    rows = [(task, {arm: points[arm][task] for arm in METHODS}) for task in order]
    means = {arm: tested(gains(cells, STATED_AMOUNT, 0, arm, "random")[1])[:3] for arm in METHODS}
    rows.insert(0, (f"mean of {len(order)} tasks", means))
    line = 19.0
    top = 58.0
    left = 160.0
    drawing = Drawing(
        "Accuracy on each task, points over random text",
        "Of word vectors learned from 2 % of a corpus; means and 95 % intervals by task for three "
        "ways to select, sorted by the default; to the right is better.",
        top + line * len(rows) + 50,
        width=720,
    )
    ends = [end for _, of in rows for point in of.values() for end in point[1:]]
    x = Axis(min(0.0, *ends) - 0.5, max(0.0, *ends) + 0.5, left, 704)
    foot = drawing.height - 45
    for tick in x.ticks():
        drawing.line(x.at(tick), top, x.at(tick), foot, stroke_opacity=0.3)
    drawing.line(x.at(0), top, x.at(0), foot, stroke="currentColor", stroke_dasharray="4 3")
    for number, (arm, color) in enumerate(COLORS.items()):
        at = left + 150 * number
        drawing.add("circle", cx=at, cy=36.0, r=4.0, fill=color)
        drawing.text(NAMES[arm], at + 9, 40)
    for number, (name, of) in enumerate(rows):
        middle = top + line * (number + 0.5)
        weight = "normal" if number else "bold"
        drawing.text(name, left - 8, middle + 4, text_anchor="end", font_weight=weight)
        below = top + line * (number + 1)
        drawing.line(8, below, 704, below, stroke_opacity=0.2 if number else 1.0)
        for place, (arm, (mean, low, high)) in enumerate(of.items()):
            y = middle + 5 * (place - 1)
            drawing.line(x.at(low), y, x.at(high), y, stroke=COLORS[arm], stroke_width=1.5)
            title = f"{name}, {NAMES[arm]}: {mean:+.1f} ({low:+.1f} to {high:+.1f})"
            drawing.add("circle", "", title, cx=x.at(mean), cy=y, r=2.8, fill=COLORS[arm])
    drawing.x_axis(x, "points of accuracy over random text (95 % interval)")
    # a ground of its own, so that it is read on dark pages as well
    drawing.root.set("color", "#263238")
    size = {
        "width": f"{drawing.width:g}",
        "height": f"{drawing.height:g}",
        "rx": "10",
        "fill": "#ffffff",
    }
    drawing.root.insert(0, ET.Element("rect", size))
    return drawing.svg() + "\n"


def tasks_of(cells: Cells) -> int:
    """The number of tasks of the stated tests."""
    return len({r["task"] for r in cells.records.values() if is_stated(r)})


def over(
    cells: Cells, amount: float, rows: int, arm: str, other: str, what: str = "accuracy"
) -> tuple[str, str]:
    """Points of an arm over another with the interval, and tasks x draws; empty until all tasks."""
    table = gains(cells, amount, rows, arm, other, what)[1]
    if len(table) < tasks_of(cells):
        return "", ""
    mean, low, high, _ = tested(table)
    draws = int((~np.isnan(table)).any(0).sum())
    return f"{mean:+.1f} ({low:+.1f} to {high:+.1f})", f"{len(table)} x {draws}"


def amounts_table(cells: Cells) -> list[str]:
    """Points over random text by amount and number of training rows."""
    lines = [
        f"| selected | training rows | {HEADING} | tasks x draws |",
        "|---|---|---|---|---|---|",
    ]
    for amount, rows in itertools.product(AMOUNTS, (0, ROWS)):
        found = [over(cells, amount, rows, arm, "random") for arm in METHODS]
        if all(said for said, _ in found):
            said = " | ".join(said for said, _ in found)
            counts = ", ".join(dict.fromkeys(count for _, count in found))
            lines.append(f"| {100 * amount:g} % | {rows or 'all'} | {said} | {counts} |")
    return lines


def arms_table(cells: Cells) -> list[str]:
    """The arms beside the four, at 2 % on all rows; the heading alone without cells."""
    lines = ["| selected by | over | points | tasks x draws |", "|---|---|---|---|"]
    for arm, other in PAIRS:
        said, count = over(cells, STATED_AMOUNT, 0, arm, other)
        if said:
            lines.append(f"| {NAMES[arm]} | {NAMES[other]} | {said} | {count} |")
    return lines


def own_text(cells: Cells) -> str:
    """What the task's own training text gives against the default's 2 %; empty until all tasks."""
    own = {
        (r["task"], r["seed"]): r["result"]["accuracy"]
        for r in cells.records.values()
        if r["column"] == "own" and r["rung"] == "0" and r["task"] not in APART
    }
    pairs: dict[str, list[float]] = {}
    for r in cells.records.values():
        key = (r["task"], r["seed"])
        if is_stated(r) and r["column"] == "default" and key in own:
            pairs.setdefault(r["task"], []).append(100 * (r["result"]["accuracy"] - own[key]))
    if len(pairs) < tasks_of(cells):
        return ""
    means = np.array([np.mean(of) for of in pairs.values()])
    half = student.ppf(0.975, len(means) - 1) * means.std(ddof=1) / len(means) ** 0.5
    return (
        "Vectors of the task's own training text alone, which is shorter, are "
        f"{-means.mean():+.1f} points against those of the default selection "
        f"({-means.mean() - half:+.1f} to {-means.mean() + half:+.1f}; {len(means)} tasks)."
    )


def decisions_table(cells: Cells) -> list[str]:
    """Decision accuracies, over all pairs and over those without random text."""
    lines = [
        "| cheaper | costlier | right, all pairs | pairs | right, without random | pairs | tasks |",
        "|---|---|---|---|---|---|---|",
    ]
    for cheap, dear in COMPARED:
        said = []
        tasks = 0
        for without in (False, True):
            of = decisions(cells, cheap, dear, without)
            counts = np.array(list(of.values())).reshape(-1, 3)
            tasks = max(tasks, len(of))
            _, apart, every = counts.sum(0)
            if apart:
                mean, low, high = share(counts)
                said.append(f"{mean:.0%} ({low:.0%} to {high:.0%})".replace("%", " %"))
            else:
                said.append("–")
            said.append(f"{apart:.0f} of {every:.0f}")
        if tasks:
            lines.append(f"| {RUNGS[cheap]} | {RUNGS[dear]} | {' | '.join(said)} | {tasks} |")
    return lines


def has_models(cells: Cells) -> bool:
    """Whether models were trained on selections."""
    return any(r["rung"] == "probe" for r in cells.records.values())


def bits_decide(cells: Cells) -> str:
    """How often bits decide as the score of word vectors, in the words of the docs."""
    said = []
    for without in (False, True):
        counts = np.array(list(decisions(cells, "bits", "0", without).values()))
        mean, low, high = (round(100 * x) for x in share(counts))
        said.append(f"{mean} % ({low} to {high})")
    return (
        f"of two selections whose word vectors score differently on one of {len(counts)} tasks, "
        f"bits prefer the better one in {said[0]} of the pairs, in {said[1]} of those without "
        "random text"
    )


def not_shown(cells: Cells) -> list[str]:
    """What the cells do not show, as list items."""
    found = tests(cells)
    said = [
        f"- That the default is better than {NAMES[other]}, by the stated test."
        for other, *_, answer in found
        if answer != "shown to be higher"
    ]
    for arm, other in PAIRS:
        interval, _ = over(cells, STATED_AMOUNT, 0, arm, other)
        table = gains(cells, STATED_AMOUNT, 0, arm, other)[1]
        if arm == "default" and interval and tested(table)[1] <= 0:
            said.append(f"- That the default is better than {NAMES[other]}: {interval} points.")
    wide = [
        f"{(high - low) / 2:.1f} over {NAMES[other]}"
        for other, _, _, _, low, high, _, _ in found
        if high - low > 2
    ]
    if wide:
        said.append(f"- The planned precision, 1.0 for half an interval: it is {', '.join(wide)}.")
    points = task_points(cells)["default"]
    single = [low > 0 for _, low, _ in points.values()]
    below = [task for task, (_, _, high) in points.items() if high < 0]
    said.append(
        f"- A gain on every task: the intervals of {sum(single)} of {len(single)} single tasks are "
        f"above zero, of {len(below) or 'none'} below{': ' * bool(below)}{', '.join(below)}."
    )
    missing = [
        f"{100 * amount:g} %"
        for amount in AMOUNTS
        if not over(cells, amount, 0, "default", "random")[0]
    ]
    arms = dict.fromkeys(arm for pair in PAIRS for arm in pair if arm not in STATED)
    missing += [
        NAMES[arm]
        for arm in arms
        if not any(over(cells, STATED_AMOUNT, 0, *pair)[0] for pair in PAIRS if arm in pair)
    ]
    if not has_models(cells):
        missing.append("models that continue on a selection")
    if missing:
        said.append(f"- What is not yet computed for all tasks: {', '.join(missing)}.")
    said.append("- Anything about other languages, other kinds of task, or large language models.")
    return said


ANSWER = """
Word vectors are learned from the text that `cynical`, the default, selects, and from other text. A
classifier on them answers the test texts of a task. In the mean of {n} tasks, the difference in
accuracy is {summary}. `corpusfit rank --task task/ --corpus corpus/` measures the same on your
files, and [`fit`](../fit.md) measures your model.
"""
QUESTION = """
From a corpus of {sources}, a method selects the 2 % that are most like a few hundred training texts
of a task: {words:,} words. Word vectors (skip-grams) are learned from this text and no other. A
linear classifier learns the task from all its training texts, each the mean of its words' vectors,
and answers the whole test set. The score is its accuracy; a point is one per cent of the test
texts. All that the classifier knows of words comes from the selection, so the score says what the
selected text teaches. It is a score of word vectors, not of a language model, and not of yours:
[`fit`](../fit.md) measures that.
"""
STATEMENT = """
Questions, tests and the order of computing were [stated before anything was
computed](../../benchmarks/score_study.py). All selections have equally many words, in pieces of the
same length. Everything is repeated with other draws: a draw is half of the corpus, at most 500
target texts and the seed of the vectors. Corpus documents that contain a dev or test text of any
task are left out.
"""
UNIT = """
Tasks and draws are crossed random effects, so the intervals hold for other tasks. The p-values are
corrected by Holm's method. Everything below is descriptive: no test was stated for it, and no
interval is corrected. A few tasks gain much: the medians of the tasks' differences are {medians}.
"""
DECISIONS = """
A costlier measure distinguishes some pairs of selections of a task (by any two methods and draws,
2 %; McNemar's exact test on the test texts, p < .05). In which share of these pairs does the
cheaper measure prefer the same selection? Intervals are over tasks. For whole corpora, a ranking at
one small scale is right for about 80 % ([DataDecide](https://arxiv.org/abs/2504.11393)).
"""
MEASURED = """
Bits are per word of the task's test texts, by the trigram model of [`rank`](../ranking.md), which
uses held-out texts of the target. Pairs without random text are harder: nearly every selection is
closer to the task than random text.
"""
CONTINUED = """
The small BERT (`bert-mini`, {steps} steps) continues on {words:,} words of each selection; its
probe is the same linear classifier on its frozen states.
"""
OTHERS = """
Each task, macro F1 and tasks in other languages are on [a page of their
own](../../benchmarks/score_tasks.md), BLEU of translation models and the answer of an older probe
on [another](../../benchmarks/score_bleu.md).
"""
MADE = """
Made by `benchmarks/score_study.py DATA WORK`, `score_rungs.py DATA MODEL WORK` and
`score_pages.py`, from the results in `benchmarks/results/score_study`; {sum:.1f} core-hours
({hours}); commits {commits}, on {cpus}.
"""
SINGLE = """
[The page of means](../docs/results/score.md) says how they are made. Accuracy in points over
random text, 2 % of the corpus, all training rows; the mean of the draws with a 95 % interval by a
bootstrap over draws and test texts.
"""
OUTSIDE = """
In no mean: the corpus lacks the language of four (French, German, Portuguese, Indonesian), and of
the sentences of `subj` 2,200 are also in `sst2`.
"""
MODELS = """
Bits: all {n} tasks. Models: of the tasks above without {large}, which cost most, every third by the
alphabet.
"""


def flowed(text: str, **values: object) -> str:
    """A paragraph on one line, with its values."""
    return " ".join(text.split()).format(**values)


def page(cells: Cells, made: Record) -> str:
    """docs/results/score.md."""
    found = tests(cells)
    rows = [
        f"| {NAMES[other]} | {mean:+.2f} ({low:+.2f} to {high:+.2f}) | {(high - low) / 2:.2f} "
        f"| {p:.2g} | {n} x {draws} | {answer} |"
        for other, n, draws, mean, low, high, p, answer in found
    ]
    columns = ("points (95 %)", "half-width", "p by Holm", "tasks x draws", "answer")
    heading = f"| the default over | {' | '.join(columns)} |"
    arms = arms_table(cells)
    own = own_text(cells)
    hours = made["core_hours"]
    parts = [
        "# Does the selected text raise a score?",
        flowed(ANSWER, n=found[0][1], summary=summary(cells)),
        "![Points of accuracy over random text, by task, with intervals](../images/score.svg)",
        "## What was asked",
        flowed(QUESTION, sources=SOURCES, words=made["words"]),
        flowed(STATEMENT),
        "## The three stated tests",
        "\n".join([heading, "|---|---|---|---|---|---|", *rows]),
        flowed(UNIT, medians=medians(cells)),
        "## How much text, how many training rows",
        "Points over as much random text:",
        "\n".join(amounts_table(cells)),
    ]
    if len(arms) > 2 or own:
        parts.append("## Other selections")
    if len(arms) > 2:
        parts += ["2 % of the corpus, all training rows:", "\n".join(arms)]
    if own:
        parts.append(own)
    parts += [
        "## Does a cheap measure prefer what a costly one prefers?",
        flowed(DECISIONS),
        "\n".join(decisions_table(cells)),
        flowed(MEASURED + CONTINUED * has_models(cells), steps=STEPS, words=WORDS),
        "## What is not shown",
        "\n".join(not_shown(cells)),
        flowed(OTHERS),
        flowed(
            MADE,
            sum=sum(hours.values()),
            hours=", ".join(f"{name} {spent:.1f}" for name, spent in hours.items()),
            commits=", ".join(made["commits"]),
            cpus=", ".join(made["cpus"]),
        ),
    ]
    return "\n\n".join(parts) + "\n"


def tasks_page(cells: Cells) -> str:
    """benchmarks/score_tasks.md."""
    points = task_points(cells)
    accuracy: dict[str, list[float]] = {}
    for r in cells.records.values():
        if is_stated(r) and r["column"] == "random":
            accuracy.setdefault(r["task"], []).append(100 * r["result"]["accuracy"])
    heading = [f"| task | {HEADING} | random text, accuracy |", "|---|---|---|---|---|"]
    single = [*heading]
    for task in sorted(points["default"], key=lambda task: -points["default"][task][0]):
        said = ("{:+.1f} ({:+.1f} to {:+.1f})".format(*points[arm][task]) for arm in METHODS)
        single.append(f"| {task} | {' | '.join(said)} | {np.mean(accuracy[task]):.1f} |")
    apart: dict[str, dict[int, dict[str, float]]] = {}
    for r in cells.records.values():
        if r["task"] in APART and (r["setting"], r["rung"]) == (str(STATED_AMOUNT), "0"):
            of_draw = apart.setdefault(r["task"], {}).setdefault(r["seed"], {})
            of_draw[r["column"]] = 100 * r["result"]["accuracy"]
    lines = [*heading]
    for task, of in sorted(apart.items()):
        whole = [draw for draw in of.values() if {*STATED} <= draw.keys()]
        if whole:
            means = {arm: float(np.mean([draw[arm] for draw in whole])) for arm in STATED}
            said = (f"{means[arm] - means['random']:+.1f}" for arm in METHODS)
            lines.append(f"| {task} | {' | '.join(said)} | {means['random']:.1f} |")
    macro = ["| selected | training rows | arm | over | macro F1, points | tasks x draws |"]
    macro.append("|---|---|---|---|---|---|")
    for amount, n_rows in itertools.product(AMOUNTS, (0, ROWS)):
        for arm, other in (*((arm, "random") for arm in METHODS), ("default", "moore_lewis")):
            said, count = over(cells, amount, n_rows, arm, other, "macro_f1")
            if said:
                shown = f"| {100 * amount:g} % | {n_rows or 'all'} | {NAMES[arm]} | {NAMES[other]} "
                macro.append(f"{shown}| {said} | {count} |")
    parts = [
        "# Scores of word vectors, by task",
        flowed(SINGLE),
        "\n".join(single),
        "## Tasks apart",
        flowed(OUTSIDE),
        "\n".join(lines),
        "## Macro F1",
        "\n".join(macro),
        "## Where decisions are compared",
        flowed(MODELS, n=len(points["default"]), large=", ".join(f"`{task}`" for task in LARGE)),
    ]
    return "\n\n".join(parts) + "\n"


def pages() -> dict[Path, str]:
    """Every file that the stored cells make, by its path."""
    cells = Cells(CELLS)
    made = orjson.loads((CELLS / "made.json").read_bytes())
    return {
        DOCS / "results" / "score.md": page(cells, made),
        HERE / "score_tasks.md": tasks_page(cells),
        DOCS / "images" / "score.svg": picture(cells),
    }


def main() -> None:
    """Write the pages and the picture."""
    for path, text in pages().items():
        write_bytes(path, text.encode())


if __name__ == "__main__":
    main()
