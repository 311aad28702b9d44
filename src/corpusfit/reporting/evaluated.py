"""Sections of the page on an evaluation or a recipe's tables: scores, intervals, tests."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from corpusfit.evaluation.tables import POINTS, magnitude
from corpusfit.reporting.charts import Spec, curve_chart, gains_chart, results_chart
from corpusfit.reporting.part import Part, Sheet, rounded

Scored = dict[str, Any]
"""A mean in points, or in its unit: task, size, column, mean, low, high, unit."""


def evaluated_part(name: str, title: str, manifest: dict[str, Any]) -> Part:
    """The section on one model and its base."""
    task, models, metric = manifest["task"]["name"], manifest["models"], manifest["metric"]
    unit = manifest["unit"]
    results = [(models[r["model"]]["name"], r) for r in manifest["results"]]
    scored = [_scored(task, r["size"], model, r["test"][metric], r, unit) for model, r in results]
    many = len(manifest["comparisons"]) > 1
    sentences = [
        (f"With {c['size']:,} training examples: " if many else "") + c["verdict"] + "."
        for c in manifest["comparisons"]
    ]
    if len(models) > 1:
        pair = f"{models['model']['name']} against {models['base']['name']} on {task}:"
        sentences = [pair, *sentences]
    rows = []
    for model, r in results:
        test, dev = r["test"][metric], r.get("dev", {}).get(metric, {"mean": None})
        rows.append(
            (
                *(model, r["size"]),
                *_shown(unit, test["mean"], test["sd"], *_ends(unit, r), dev["mean"]),
            )
        )
    better = "higher" if unit == POINTS else "lower"
    metric = metric if unit == POINTS else metric.removeprefix("neg_")
    caption = f"{metric} on the test split of {task}: {unit}, {manifest['seeds']} seeds, "
    sheets = {
        "results": Sheet(
            f"{caption}95 % interval, {better} is better",
            ["model", "training examples", "mean", "sd", "low", "high", "mean on dev"],
            rows,
        )
    }
    if manifest["comparisons"]:
        tested = ("difference", "low", "high", "p_seeds", "p_items", "p_adjusted")
        sheets["comparisons"] = Sheet(
            "Adapted model against base model",
            ("size", *tested, "verdict"),
            [
                (c["size"], *(rounded(c[k], 4) for k in tested), c["verdict"])
                for c in manifest["comparisons"]
            ],
        )
    return Part("evaluation", name, title, sentences, _charts(scored, metric), sheets, manifest)


_GAIN = ("mean", "low", "high", "detectable")


def fitted_part(name: str, title: str, manifest: dict[str, Any]) -> Part:
    """The section on a fit: its verdict, and every measure behind it."""
    rows = []
    charts = {}
    for number, measure in enumerate(manifest["measures"], 1):
        gains = []
        scale = 100 if measure["unit"] == POINTS else 1
        for other, title_of in (("random", "random text"), ("base", "base")):
            gain = measure[f"over_{other}"]
            means = [magnitude(measure[of], measure["unit"]) for of in (other, "selection")]
            figures = (*means, *(gain[end] for end in _GAIN))
            shown = [rounded(scale * value, 3) for value in figures]
            rows.append((f"{measure['name']}, {measure['unit']}", title_of, *shown))
            drawn = {end: scale * gain[end] for end in ("mean", "low", "high")}
            gains.append({"over": f"over {title_of}", **drawn})
        charts[f"gain-{number}"] = gains_chart(gains, measure["name"], measure["unit"])
    measures = Sheet(
        f"Means over {manifest['schedule']['replicates']} replicates, and what the selection gains "
        "over random text and over the base, with 95 % intervals; a loss gains by falling",
        [
            *("measure", "compared with", "its mean", "selection", "gain", "low", "high"),
            "would be seen",
        ],
        rows,
    )
    *reasons, verdict = manifest.get("sentences") or [manifest["sentence"]]
    sentences = [verdict, *([" ".join(reasons)] if reasons else [])]
    sentences += [manifest["more"], manifest.get("selected", ""), f"Model: {manifest['keep']}"]
    return Part("fit", name, title, sentences, charts, {"measures": measures}, manifest)


def recipe_part(name: str, title: str, table: dict[str, Any]) -> Part:
    """The section on a recipe: `table.json`, its tables and notes as the run printed them."""
    results = [r for r in table["results"] if r["mean"] is not None]
    row = _named_by(table["results"])
    scored = [
        _scored(row(r["cell"]), r["cell"]["size"], r["column"], r, r, r.get("unit", POINTS))
        for r in results
    ]
    sentences = _gains(table, row)
    failed = len(table["results"]) - len(results)
    if failed:
        sentences.append(f"{failed} cells failed and are not in the figures.")
    sheets = {
        f"table-{i}": Sheet(t["title"], t["columns"], t["rows"], t["notes"])
        for i, t in enumerate(table.get("tables", []))
    }
    sheets["results"] = Sheet(
        "Mean test scores and 95 % intervals: of points higher is better, of other units lower",
        ["task", "training examples", "column", "mean", "low", "high", "unit"],
        [list(row.values()) for row in scored],
    )
    return Part("recipe", name, title, sentences, _charts(scored, ""), sheets, table)


def _gains(table: dict[str, Any], name: Callable[[dict[str, Any]], str]) -> list[str]:
    """The average gain of each column, and the results of the tests, in sentences."""
    base = table["recipe"]["compare"]
    sentences = []
    for gain in table["gains"]:
        size = f" with {gain['size']:,} training examples" if gain["size"] else ""
        sentences.append(
            f"{gain['column']}: {100 * gain['mean']:+.2f} points over {base}, mean of "
            f"{gain['rows']} rows{size}."
        )
    shown = [p for p in table["pairs"] if not p["verdict"].startswith("no difference")]
    if table["pairs"]:
        sentences.append(f"{len(shown)} of {len(table['pairs'])} comparisons show a difference.")
    for pair in shown[:_NAMED]:
        task, _, model = pair["row"]
        row = name({"task": task, "model": model})
        sentences.append(f"{pair['column']} against {pair['base']} on {row}: {pair['verdict']}.")
    return sentences


_NAMED = 8


def _named_by(results: Sequence[dict[str, Any]]) -> Callable[[dict[str, Any]], str]:
    """The name of a row: its task, and its model where there are several."""
    several = len({r["cell"]["model"] for r in results}) > 1
    return lambda row: f"{row['task']}, {row['model']}" if several else str(row["task"])


def _scored(
    task: str,
    size: int,
    column: str,
    mean: dict[str, Any],
    interval: dict[str, Any],
    unit: str = POINTS,
) -> Scored:
    middle, low, high = _shown(unit, mean["mean"], *_ends(unit, interval))
    found = {"task": task, "size": size, "column": column, "mean": middle, "low": low, "high": high}
    return {**found, "unit": unit}


def _shown(unit: str, *scores: float | None) -> list[float | None]:
    """Scores in points, or the errors that they negate; deviations alike."""
    if unit == POINTS:
        return [rounded(score and 100 * score, 2) for score in scores]
    return [rounded(score and abs(score), 4) for score in scores]


def _ends(unit: str, interval: dict[str, Any]) -> tuple[float, float]:
    """The ends of the interval of a score, the one that is shown as the lower first."""
    ends = (interval["low"], interval["high"])
    return ends if unit == POINTS else ends[::-1]


def _charts(scored: Sequence[Scored], metric: str) -> dict[str, Spec]:
    """A chart for each task, and a learning curve where it has several sizes."""
    charts: dict[str, Spec] = {}
    for i, task in enumerate(_each(row["task"] for row in scored)):
        of_task = [row for row in scored if row["task"] == task]
        sizes = _each(row["size"] for row in of_task)
        largest = [row for row in of_task if row["size"] == (0 if 0 in sizes else max(sizes))]
        title = f"{task} ({metric})" if metric else str(task)
        charts[f"results-{i}"] = results_chart(largest, title, largest[0]["unit"])
        if len(sizes) > 1:
            rows = [row for row in of_task if row["size"]]
            charts[f"curve-{i}"] = curve_chart(rows, f"Learning curve: {title}", rows[0]["unit"])
    return charts


def _each(values: Iterable[Any]) -> list[Any]:
    """The distinct values, in order of first occurrence."""
    return list(dict.fromkeys(values))
