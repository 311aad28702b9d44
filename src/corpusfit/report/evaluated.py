"""The part of the page that says whether it helped: an evaluation, or a recipe's whole table.

Why: means with their intervals as a picture, and what the tests said in words.
Trade-off: a recipe's tables are shown as the run printed them, figures and notes alike.
Reference: TADPOLE, Tables 3 and 6, Figure 6.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from corpusfit.report.charts import curve_chart, results_chart
from corpusfit.report.page import figure, paragraphs, plain_table, repeated
from corpusfit.report.part import Part, Sheet, Spec

_WITH_INTERVALS = "Points are means over seeds; lines are 95 % intervals over seeds and examples."

Scored = dict[str, Any]
"""A mean in points: task, size, column, mean, low, high."""


def evaluated_part(name: str, title: str, manifest: dict[str, Any]) -> Part:
    """One model against its base."""
    task, models = manifest["task"]["name"], manifest["models"]
    scored = [
        _scored(task, r["size"], models[r["model"]]["name"], r["test"][manifest["metric"]], r)
        for r in manifest["results"]
    ]
    charts = _charts(name, scored, manifest["metric"])
    many = len(manifest["comparisons"]) > 1
    said = [
        (f"With {c['size']:,} training examples: " if many else "") + c["verdict"] + "."
        for c in manifest["comparisons"]
    ]
    if len(models) > 1:
        said = [f"{models['model']['name']} against {models['base']['name']} on {task}:", *said]
    sheets = [
        Sheet(
            f"{name}-results",
            f"{manifest['metric']} on {task}'s test split, points, {manifest['seeds']} seeds",
            ["model", "training examples", "mean", "sd", "low", "high", "dev"],
            [
                (
                    models[r["model"]]["name"],
                    r["size"],
                    *_points(r["test"][manifest["metric"]]["mean"]),
                    *_points(r["test"][manifest["metric"]]["sd"]),
                    *_points(r["low"], r["high"]),
                    *_points(r["dev"][manifest["metric"]]["mean"]),
                )
                for r in manifest["results"]
            ],
        ),
        *_comparisons(name, manifest),
    ]
    shown = [
        paragraphs(manifest["task"]["notes"]),
        *(figure(chart, _WITH_INTERVALS) for chart in charts),
        *map(plain_table, sheets),
        repeated(name, manifest.get("repeat", []), manifest["plan"]),
    ]
    return Part(name, title, said, "".join(shown), charts, sheets)


def _comparisons(name: str, manifest: dict[str, Any]) -> list[Sheet]:
    if not manifest["comparisons"]:
        return []
    columns = ("size", "difference", "low", "high", "p_seeds", "p_items", "p_adjusted", "verdict")
    rows = [
        [c[k] if k in ("size", "verdict") or c[k] is None else round(c[k], 4) for k in columns]
        for c in manifest["comparisons"]
    ]
    return [Sheet(f"{name}-comparisons", "The model against its base", columns, rows)]


def recipe_part(name: str, title: str, table: dict[str, Any]) -> Part:
    """A recipe: `table.json`, as the run left it."""
    results = [r for r in table["results"] if r["mean"] is not None]
    row = _named_by(table["results"])
    scored = [
        _scored(row(r["cell"]), r["cell"]["size"], r["column"], {"mean": r["mean"]}, r)
        for r in results
    ]
    charts = _charts(name, scored, "")
    tables = [
        Sheet(f"{name}-table-{i}", t["title"], t["columns"], t["rows"])
        for i, t in enumerate(table.get("tables", []))
    ]
    said = _gains(table, row)
    failed = len(table["results"]) - len(results)
    if failed:
        said.append(f"{failed} cells failed and are not in the figures.")
    shown = [figure(chart, _WITH_INTERVALS) for chart in charts]
    for sheet, printed in zip(tables, table.get("tables", []), strict=True):
        shown += [plain_table(sheet), paragraphs(printed["notes"])]
    shown.append(repeated(name, table.get("repeat", []), table["recipe"]))
    whole = Sheet(
        f"{name}-results",
        "Mean test scores, points",
        ["task", "training examples", "column", "mean", "low", "high"],
        [list(row.values()) for row in scored],
    )
    return Part(name, title, said, "".join(shown), charts, [*tables, whole])


def _gains(table: dict[str, Any], name: Callable[[dict[str, Any]], str]) -> list[str]:
    """What each column gained on average, and what the tests showed."""
    base = table["recipe"]["compare"]
    said = []
    for gain in table["gains"]:
        size = f" with {gain['size']:,} training examples" if gain["size"] else ""
        said.append(
            f"{gain['column']}: {100 * gain['mean']:+.2f} points over {base} in the mean of "
            f"{gain['rows']} rows{size}."
        )
    shown = [p for p in table["pairs"] if not p["verdict"].startswith("no difference")]
    if table["pairs"]:
        said.append(f"{len(shown)} of {len(table['pairs'])} comparisons show a difference.")
    for pair in shown[:_NAMED]:
        task, _, model = pair["row"]
        row = name({"task": task, "model": model})
        said.append(f"{pair['column']} against {pair['base']} on {row}: {pair['verdict']}.")
    return said


_NAMED = 8


def _named_by(results: Sequence[dict[str, Any]]) -> Callable[[dict[str, Any]], str]:
    """How a row is called: by its task, and its model where there are several."""
    several = len({r["cell"]["model"] for r in results}) > 1
    return lambda row: f"{row['task']}, {row['model']}" if several else str(row["task"])


def _scored(
    task: str, size: int, column: str, mean: dict[str, Any], interval: dict[str, Any]
) -> Scored:
    middle, low, high = _points(mean["mean"], interval["low"], interval["high"])
    return {"task": task, "size": size, "column": column, "mean": middle, "low": low, "high": high}


def _points(*shares: float | None) -> list[float | None]:
    return [None if share is None else round(100 * share, 2) for share in shares]


def _charts(name: str, scored: Sequence[Scored], metric: str) -> dict[str, Spec]:
    """A chart of each task; where it has several sizes, the learning curve beside it."""
    charts: dict[str, Spec] = {}
    for i, task in enumerate(_each(row["task"] for row in scored)):
        own = [row for row in scored if row["task"] == task]
        sizes = _each(row["size"] for row in own)
        largest = [row for row in own if row["size"] == (0 if 0 in sizes else max(sizes))]
        title = f"{task} ({metric})" if metric else str(task)
        charts[f"{name}-results-{i}"] = results_chart(largest, title)
        if len(sizes) > 1:
            rows = [row for row in own if row["size"]]
            charts[f"{name}-curve-{i}"] = curve_chart(rows, f"Learning curve: {title}")
    return charts


def _each(values: Iterable[Any]) -> list[Any]:
    """Every value once, in the order of their first."""
    return list(dict.fromkeys(values))
