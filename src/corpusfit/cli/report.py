"""`corpusfit report` and `push`: pages about runs, and runs on the Hugging Face hub."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import corpusfit
from corpusfit.cli.options import command
from corpusfit.cli.show import answer, say
from corpusfit.core.errors import bad_setting


def _facts(path: Path, request: Mapping[str, Any]) -> dict[str, Any]:
    return {"report": str(path), "figures": request.get("figures")}


@command(machine=(), facts=_facts)
def report(path: Path, figures: str | None) -> None:
    """Write one HTML page about a finished selection or fit.

    Example:
      corpusfit report out/ --figures figures/

    DIR is the folder of `select`, `choose` or `fit`. The page shows what was selected, and of a fit
    whether it helped. It opens from disk in any browser, without a network and without scripts.

    Options:
        DIR: Folder of the run
        --out FILE: File to write (default: report.html in DIR)
        --figures FOLDER: Folder for charts as SVG and tables as CSV (default: none)
    """
    say(f"Report: {path}")
    if figures is not None:
        say(f"Figures and tables: {figures}")


@command(machine=(), plain=True)
def push(
    folder: str,
    name: str,
    evaluations: Sequence[str] = (),
    task: Sequence[str] = (),
    task_field: str = "",
    *,
    public: bool = False,
    json: bool = False,
) -> None:
    """Publish a selection or a model on the Hugging Face hub.

    Example:
      corpusfit push out/ me/text-for-my-task --task imdb/
      corpusfit push adapted/ me/bert-of-my-task --evaluations eval/

    Also writes a card. It says what was selected and from where, which held-out texts the selection
    contains or left out, the verdict with its interval, and the command that repeats the run.

    Options:
        DIR: Folder of `select`, `choose` or `adapt`
        OWNER/NAME: Name on the hub
        --evaluations FOLDER: Folder of `evaluate` whose verdict goes into the model's card;
            repeatable (default: none)
        --task INPUT: Held-out texts to look for in the selection and report in its card: a task's
            folder or files, as in `contamination`; repeatable (default: none)
        --task-field NAME: Text field of the --task files (default: text)
    """
    from corpusfit.selection import publishing

    run = corpusfit.open(folder)
    evaluated = [corpusfit.open(each) for each in evaluations or ()]
    compared = None
    if task and run.manifest["command"] != "select":
        raise bad_setting("`task`", "left out with a model: `adapt --guard` compares", task)
    if task:
        publishing.require_pushable(run, name, evaluated)  # before the selection is read
        compared = corpusfit.contamination(task=task, data=folder, task_field=task_field)
    url = publishing.push_to_hub(run, name, public=public, evaluations=evaluated, compared=compared)
    answer(json, {"url": url}, say, url)
