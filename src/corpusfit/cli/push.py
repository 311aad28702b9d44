"""`corpusfit push`: a selection or a model on the Hugging Face hub."""

from __future__ import annotations

from typing import Annotated

import typer

import corpusfit
from corpusfit.cli import options as o
from corpusfit.cli.show import answer, say
from corpusfit.core.errors import bad_setting
from corpusfit.selection import publishing


def push(
    *,
    folder: Annotated[
        str, typer.Argument(metavar="DIR", help="Folder of `select`, `choose` or `adapt`")
    ],
    name: Annotated[str, typer.Argument(metavar="OWNER/NAME", help="Name on the hub")],
    evaluations: Annotated[
        list[str] | None,
        o.option(
            "FOLDER",
            "Folder of `evaluate` whose verdict stands in the model's card; may be repeated "
            "(default: none)",
        ),
    ] = None,
    task: Annotated[
        list[str] | None,
        o.option(
            "INPUT",
            "Held-out texts to look for in a selection, for its card: a task's folder or files, as "
            "in `contamination`; may be repeated (default: none)",
        ),
    ] = None,
    task_field: Annotated[
        str, o.option("NAME", "Text field of the files of --task (default: text)")
    ] = "",
    public: o.Public = False,
    json: o.Json = False,
) -> None:
    """Publish a selection or a model on the Hugging Face hub.

    Example:
      corpusfit push out/ me/text-for-my-task --task imdb/
      corpusfit push adapted/ me/bert-of-my-task --evaluations eval/

    The card says what was selected from what, which held-out texts are in it or were left out, the
    verdict with its interval, and the command that repeats it.
    """
    run = corpusfit.open(folder)
    found = [corpusfit.open(each) for each in evaluations or ()]
    compared = None
    if task and run.manifest["command"] != "select":
        raise bad_setting("`task`", "left out with a model: `adapt --guard` compares", task)
    if task:
        publishing.require_pushable(run, name, found)  # before the selection is read
        compared = corpusfit.contamination(task=task, data=folder, task_field=task_field)
    url = publishing.push_to_hub(run, name, public=public, evaluations=found, compared=compared)
    answer(json, {"url": url}, say, url)
