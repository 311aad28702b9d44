"""Section of the page on a search: loss by step of every trial, and bits against loss."""

from __future__ import annotations

from typing import Any

from corpusfit.reporting.charts import bits_chart, trials_chart
from corpusfit.reporting.part import Part
from corpusfit.reporting.reading import Found
from corpusfit.reporting.tables import Sheet
from corpusfit.tuning.grid import Setting


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
    known = manifest["bits"]
    first = [
        {
            "setting": Setting(**trial["setting"]).label,
            "method": trial["setting"]["method"],
            "bits": known[trial["setting"]["method"]],
            "loss": trial["losses"][-1][1],
        }
        for trial in trials
        if trial["rung"] == 1 and not trial["stopped"] and trial["setting"]["method"] in known
    ]
    if first:
        charts["bits"] = bits_chart(first)
    sheet = Sheet(
        "Trials: loss on held-out text of the target, nats per token, lower is better",
        [*_COLUMNS, "loss", "change", "tokens", "seconds", "stopped early"],
        [_row(trial, manifest["base"]) for trial in manifest["trials"]],
    )
    told, sheets = manifest["conclusions"], {"trials": sheet}
    return Part("search", name, f"Search: {run.title}", told, charts, sheets, manifest)


_COLUMNS = ("method", "fraction", "weights", "then_task", "rung", "steps")


def _row(trial: dict[str, Any], base: float) -> list[Any]:
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
