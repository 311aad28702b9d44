"""Section of the page on a fit: its verdict, what was won and lost, and the losses by step."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson

from corpusfit.evaluation.points import POINTS, magnitude
from corpusfit.reporting.charts import gains_chart, losses_chart
from corpusfit.reporting.part import Part, Sheet

_GAIN = ("mean", "low", "high", "detectable")
_INTERVALS = "Points are means, lines 95 % intervals; blue where the interval excludes 0."
_OTHERS = {"random": "random text", "base": "base"}


def verdict_part(path: Path, manifest: dict[str, Any]) -> Part:
    """The section on the fit in a folder."""
    # these import all that a fit does
    from corpusfit.fitting.fitting import Fitted
    from corpusfit.fitting.verdict import gains_table

    rows = []
    charts: dict[str, tuple[str, str]] = {}
    for number, measure in enumerate(manifest["measures"], 1):
        unit = measure["unit"]
        scale = 100 if measure["unit"] == POINTS else 1
        gains = {}
        for other, named in _OTHERS.items():
            gain = measure[f"over_{other}"]
            means = [magnitude(measure[of], unit) for of in (other, "selection")]
            figures = (*means, *(gain[end] for end in _GAIN))
            rows.append(
                (f"{measure['name']}, {unit}", named, *(round(scale * n, 3) for n in figures))
            )
            mean, low, high = (scale * gain[end] for end in ("mean", "low", "high"))
            gains[f"over {named}"] = (mean, low, high)
        chart = gains_chart(gains, measure["name"], unit)
        charts[f"gain-{number}"] = (chart, "" if charts else _INTERVALS)
    vectors = manifest.get("word_vectors")  # not of an earlier version
    if vectors:
        by_words = {
            f"{gain['words']:,} words": tuple(100 * gain["over_random"][end] for end in _GAIN[:3])
            for gain in vectors["gains"]
        }
        chart = gains_chart(by_words, "word vectors over random text", POINTS)
        charts["words"] = (chart, vectors["sentence"])
    curves = {name: _losses(path, manifest, name) for name in ("selection", "random")}
    if all(curves.values()):
        chart = losses_chart(curves, manifest["measures"][0]["unit"])
        caption = "Training 1 of each, on its own held-out text; the table has the means of all."
        charts["loss"] = (chart, caption)
    measures = Sheet(
        f"Means over {manifest['schedule']['replicates']} replicates, and what the selection gains "
        "over random text and over the base, with 95 % intervals; a loss gains by falling",
        [
            *("measure", "compared with", "its mean", "selection", "gain", "low", "high"),
            "found in 8 of 10",
        ],
        rows,
    )
    tokens = manifest["schedule"]["tokens"]
    equal = f"Selection and random text have the same amount: about {tokens:,} word pieces."
    table = Sheet(
        f"{manifest['measured']} {equal} Gains: mean (95 % interval; gain that is found in 8 of "
        "10 cases). A loss gains by falling.",
        *gains_table(manifest["measures"]),
    )
    not_shown = " ".join(filter(None, (manifest["not_shown"], manifest["more"])))
    keep = f"{manifest['why']} Model: {Fitted(path, manifest).keep}"
    summary = [*filter(None, (manifest["shown"], manifest["lost"], not_shown, keep))]
    title = f"Verdict: {manifest['task']['name']}"
    sheets = {"gains": table, "measures": measures}
    return Part("verdict", title, summary, manifest, charts, sheets)


def _losses(path: Path, manifest: dict[str, Any], name: str) -> list[tuple[float, float]]:
    """The losses on the task's text by step, of the first model; none of a program of others."""
    log = path / "models" / f"{name}-{manifest['plan']['seed']}" / "losses.jsonl"
    rows = map(orjson.loads, log.read_bytes().splitlines()) if log.exists() else ()
    losses = ((row["step"], row.get("heldout", {}).get("task")) for row in rows)
    return [(step, loss) for step, loss in losses if loss is not None]
