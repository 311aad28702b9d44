"""Sections of the page on adapted models and on a search: losses by step, before and after."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import orjson

from corpusfit.reporting.charts import bits_chart, training_chart, trials_chart
from corpusfit.reporting.part import Part, Sheet
from corpusfit.reporting.reading import Found
from corpusfit.tuning.schedule import Setting

_TEXTS = {"task": "task text", "data": "held-out training data"}
_TEXTS["general"] = "general text"
_UNIT = "nats per token"


def trained_part(name: str, models: Sequence[Found]) -> Part:
    """The section on adapted models: one chart for one model, else a chart for each loss.

    Reference: TADPOLE, Figure 3.
    """
    history = [row for model in models for row in _history(model)]
    sheets = {
        "models": Sheet(
            f"Held-out loss before and after adaptation: {_UNIT}, lower is better",
            ["model", "steps", "tokens", *(f"{k} {w}" for k in _TEXTS for w in _WHEN)],
            [_row(model) for model in models],
        ),
        "losses": Sheet(
            f"Held-out loss by step: {_UNIT}",
            ["model", "text", "step", "loss"],
            [list(row.values()) for row in history],
        ),
        **_phases(models),
    }
    if len(models) == 1:
        model, title = models[0], f"Adapted model: {models[0].title}"
        charts = {"loss": training_chart(history, "Held-out loss", "text")}
        return Part("training", name, title, _summary(model), charts, sheets, model.manifest)
    texts = {kind: [row for row in history if row["text"] == _TEXTS[kind]] for kind in _TEXTS}
    charts = {
        kind: training_chart(rows, f"Loss on {_TEXTS[kind]}", "model")
        for kind, rows in texts.items()
        if rows
    }
    return Part("training", name, "Adapted models", _compared(models), charts, sheets)


_WHEN = ("before", "after")


def _history(model: Found) -> list[dict[str, Any]]:
    """The losses on held-out text."""
    lines = (model.path / "losses.jsonl").read_bytes().splitlines()
    return [
        {"model": model.title, "text": _TEXTS.get(kind, kind), "step": row["step"], "loss": loss}
        for row in map(orjson.loads, lines)
        for kind, loss in row.get("heldout", {}).items()
        if kind in model.manifest["losses"]["before"]
    ]


def _row(model: Found) -> list[Any]:
    losses = model.manifest["losses"]
    phases = model.manifest.get("phases", [model.manifest])
    return [
        model.title,
        sum(phase["training"]["max_steps"] for phase in phases),
        sum(phase["tokens"] for phase in phases),
        *(losses[when].get(kind) for kind in _TEXTS for when in _WHEN),
    ]


def _phases(models: Sequence[Found]) -> dict[str, Sheet]:
    """A table of the losses after each phase, if a model was trained in two (`--then-task`)."""
    rows = [
        [
            model.title,
            {"data": "selection", "task": "task's text"}[phase["phase"]],
            phase["training"]["max_steps"],
            phase["tokens"],
            *(phase["losses"]["after"].get(kind) for kind in _TEXTS),
        ]
        for model in models
        for phase in model.manifest.get("phases", ())
    ]
    title = f"Held-out loss after each phase: {_UNIT}, lower is better"
    columns = ["model", "trained on", "steps", "tokens", *_TEXTS]
    return {"phases": Sheet(title, columns, rows)} if rows else {}


def _summary(model: Found) -> list[str]:
    """Each loss before and after, in sentences."""
    before, after = (model.manifest["losses"][when] for when in _WHEN)
    changes = ", ".join(
        f"on {texts} {before[kind]:.2f} → {after[kind]:.2f}"
        for kind, texts in _TEXTS.items()
        if kind in before and kind in after
    )
    losses = [f"Loss {changes} {_UNIT} (lower is better)."] if changes else []
    return [model.manifest["words"], *losses]


def _compared(models: Sequence[Found]) -> list[str]:
    """The losses on task text after adaptation, lowest first, in sentences."""
    losses = [(model.manifest["losses"]["after"].get("task"), model.title) for model in models]
    measured = sorted((loss, title) for loss, title in losses if loss is not None)
    listed = ", ".join(f"{loss:.2f} for {title}" for loss, title in measured[:_NAMED])
    lowest = [f"Lowest losses on task text, {_UNIT}: {listed}."] if measured else []
    return [f"{len(models)} adapted models.", *lowest]


_NAMED = 4


def tuned_part(name: str, run: Found) -> Part:
    """The section on a search.

    Reference: Jamieson and Talwalkar (2016), Figure 3.
    """
    manifest = run.manifest
    trials = [trial for trial in manifest["trials"] if trial["losses"]]
    curves = [
        {
            "setting": Setting(**trial["setting"]).label,
            "method": trial["setting"]["method"],
            "trial": f"{Setting(**trial['setting']).label}, rung {trial['rung']}",
            "rung": trial["rung"],
            "step": step,
            "loss": loss,
        }
        for trial in trials
        for step, loss in trial["losses"]
    ]
    charts = {"loss": trials_chart(curves)}
    bits_of_method = manifest["bits"]
    first = [
        {
            "setting": Setting(**trial["setting"]).label,
            "method": trial["setting"]["method"],
            "bits": bits_of_method[trial["setting"]["method"]],
            "loss": trial["losses"][-1][1],
        }
        for trial in trials
        if trial["rung"] == 1
        and not trial["stopped"]
        and trial["setting"]["method"] in bits_of_method
    ]
    if first:
        charts["bits"] = bits_chart(first)
    sheet = Sheet(
        "Trials: loss on held-out text of the target, nats per token, lower is better",
        [*_COLUMNS, "loss", "change", "tokens", "seconds", "stopped early"],
        [_trial(trial, manifest["base"]) for trial in manifest["trials"]],
    )
    conclusions, sheets = manifest["conclusions"], {"trials": sheet}
    return Part("search", name, f"Search: {run.title}", conclusions, charts, sheets, manifest)


_COLUMNS = ("method", "fraction", "weights", "then_task", "rung", "steps")


def _trial(trial: dict[str, Any], base: float) -> list[Any]:
    setting, losses = trial["setting"], trial["losses"]
    done, loss = losses[-1] if losses and not trial["error"] else (0, None)
    return [
        *(setting[name] for name in _COLUMNS[:4]),
        trial["rung"],
        done,
        loss,
        None if loss is None else round(loss - base, 4),
        trial["tokens"],
        round(trial["seconds"], 1),
        trial["stopped"],
    ]
