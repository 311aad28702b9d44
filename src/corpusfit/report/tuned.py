"""Section of the page on a search: loss by step of every trial, and bits against loss."""

from __future__ import annotations

from typing import Any

from corpusfit.report.charts import bits_chart, trials_chart
from corpusfit.report.page import figure, paragraphs, plain_table, repeated
from corpusfit.report.part import Part, Sheet
from corpusfit.report.reading import Found


def tuned_part(name: str, title: str, run: Found) -> Part:
    """The section on a search.

    Reference: Jamieson and Talwalkar (2016), Figure 3.
    """
    manifest = run.manifest
    trials = [trial for trial in manifest["trials"] if trial["losses"]]
    curves = [
        {
            "setting": _label(trial["setting"]),
            "method": trial["setting"]["method"],
            "trial": f"{_label(trial['setting'])}, rung {trial['rung']}",
            "rung": trial["rung"],
            "step": step,
            "loss": loss,
        }
        for trial in trials
        for step, loss in trial["losses"]
    ]
    charts = {f"{name}-loss": trials_chart(curves)}
    shown = [figure(f"{name}-loss", "Each line is a trial; a setting begins anew in each rung.")]
    known = manifest["bits"]
    first = [
        {
            "setting": _label(trial["setting"]),
            "method": trial["setting"]["method"],
            "bits": known[trial["setting"]["method"]],
            "loss": trial["losses"][-1][1],
        }
        for trial in trials
        if trial["rung"] == 1 and not trial["stopped"] and trial["setting"]["method"] in known
    ]
    if first:
        charts[f"{name}-bits"] = bits_chart(first)
        words = "Trials of the first rung that did not stop early; lower is better on both axes."
        shown.append(figure(f"{name}-bits", words))
    sheet = Sheet(
        f"{name}-trials",
        "Trials: loss on held-out text of the target, nats per token, lower is better",
        [*_COLUMNS, "loss", "change", "tokens", "seconds", "stopped early"],
        [_row(trial, manifest["base"]) for trial in manifest["trials"]],
    )
    shown += [plain_table(sheet), repeated(name, manifest["repeat"], manifest["plan"])]
    summary = manifest["conclusions"]
    return Part(name, title, summary, paragraphs(summary) + "".join(shown), charts, [sheet])


_COLUMNS = ("method", "fraction", "weights", "then_task", "rung", "steps")


def _label(setting: dict[str, Any]) -> str:
    """A setting in a few words."""
    use = "" if setting["weights"] == "off" else f" {setting['weights']}"
    then = " then task" if setting["then_task"] else ""
    return f"{setting['method']} {setting['fraction']:g}{use}{then}"


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
