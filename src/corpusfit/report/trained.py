"""The part of the page that shows how models were adapted: losses by step, and what they came to.

Why: a loss on the task's text that falls while that on general text holds is what adapting is for.
Trade-off: with one model its three losses stand in one chart, with several each loss has its own.
Reference: TADPOLE, Figure 3.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import orjson

from corpusfit.report.charts import training_chart
from corpusfit.report.page import figure, plain_table, repeated
from corpusfit.report.part import Part, Sheet
from corpusfit.report.reading import Found

_TEXTS = {"task": "text of the task", "data": "text like what it was trained on"}
_TEXTS["general"] = "general text"


def trained_part(name: str, title: str, models: Sequence[Found]) -> Part:
    """One adapted model, or several."""
    history = [row for model in models for row in _history(model)]
    charts = {}
    if len(models) == 1:
        charts[f"{name}-loss"] = training_chart(history, "Loss in training", "text")
    else:
        for kind, words in _TEXTS.items():
            rows = [row for row in history if row["text"] == words]
            if rows:
                charts[f"{name}-{kind}"] = training_chart(rows, f"Loss on {words}", "model")
    sheets = [
        Sheet(
            f"{name}-models",
            "Losses before and after, nats a token",
            ["model", "steps", "tokens", *(f"{k} {w}" for k in _TEXTS for w in _WHEN)],
            [_row(model) for model in models],
        ),
        Sheet(
            f"{name}-losses",
            "Losses by step",
            ["model", "text", "step", "loss"],
            [list(row.values()) for row in history],
        ),
    ]
    shown = [
        *(figure(chart, "On text that was kept back from training.") for chart in charts),
        plain_table(sheets[0]),
    ]
    if len(models) == 1:
        manifest = models[0].manifest
        shown.append(repeated(name, manifest.get("repeat", []), manifest["plan"]))
    summary = _summary(models[0]) if len(models) == 1 else _compared(models)
    return Part(name, title, summary, "".join(shown), charts, sheets)


_WHEN = ("before", "after")


def _history(model: Found) -> list[dict[str, Any]]:
    """What was measured on text that was kept back."""
    lines = (model.path / "losses.jsonl").read_bytes().splitlines()
    return [
        {"model": model.title, "text": _TEXTS.get(kind, kind), "step": row["step"], "loss": loss}
        for row in map(orjson.loads, lines)
        for kind, loss in row.get("heldout", {}).items()
        if kind in model.manifest["losses"]["before"]
    ]


def _row(model: Found) -> list[Any]:
    losses = model.manifest["losses"]
    return [
        model.title,
        model.manifest["training"]["steps"],
        model.manifest["tokens"],
        *(losses[when].get(kind) for kind in _TEXTS for when in _WHEN),
    ]


def _summary(model: Found) -> list[str]:
    """How far each loss fell, in words."""
    before, after = (model.manifest["losses"][when] for when in _WHEN)
    fell = ", ".join(
        f"on {words} from {before[kind]:.2f} to {after[kind]:.2f}"
        for kind, words in _TEXTS.items()
        if kind in before and kind in after
    )
    losses = [f"The loss went, {fell} nats a token."] if fell else []
    return [model.manifest["words"], *losses]


def _compared(models: Sequence[Found]) -> list[str]:
    """What the losses on the task's text came to, the lowest first."""
    losses = [(model.manifest["losses"]["after"].get("task"), model.title) for model in models]
    known = sorted((loss, title) for loss, title in losses if loss is not None)
    said = ", ".join(f"{loss:.2f} for {title}" for loss, title in known[:_NAMED])
    lowest = [f"The lowest losses on text of the task, nats a token: {said}."] if known else []
    return [f"{len(models)} models were adapted.", *lowest]


_NAMED = 4
