"""`corpusfit contamination`: a task's held-out texts in text that is to be trained on."""

from __future__ import annotations

import dataclasses
from typing import Annotated, Any

import typer

from corpusfit import api, pipeline
from corpusfit.cli import options as o
from corpusfit.cli.show import Bar, as_json, one_line, percent, say, table

EXAMPLE = """Look for a task's dev and test texts in text that is to be trained on.

Example:

\b
  corpusfit contamination --task imdb/ --data out/

Counts exact and near-duplicate texts, also inside longer ones; adapt has an option to train
without them."""

_SOURCES = 4
_LONGEST = 300


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("contamination", help=EXAMPLE)(contamination)


def contamination(
    task: Annotated[
        list[str],
        typer.Option(
            "--task",
            help="A task's folder or hub:NAME, of which dev and test are meant; or files. Labels "
            "are not needed.",
            show_default=False,
        ),
    ],
    data: Annotated[
        list[str],
        typer.Option("--data", help=f"Folder of a selection; or {o.INPUTS}.", show_default=False),
    ],
    text_field: o.TextField = None,
    task_field: Annotated[
        str, typer.Option("--task-field", help="The same of the task, where it is another.")
    ] = "",
    workers: o.Workers = None,
    cache: o.Cache = None,
    json: o.Json = False,
) -> None:
    """Parse, call, print."""
    found = api.contamination(
        task=task,
        data=data,
        text_field=text_field,
        task_field=task_field,
        machine=pipeline.Machine(workers=workers, cache=cache, progress=Bar()),
    )
    if json:
        as_json(_plain(found))
    else:
        _show(found)


def _plain(found: pipeline.Contamination) -> dict[str, Any]:
    """All but the keys, which no reader of JSON takes whole."""
    fields = {f.name: getattr(found, f.name) for f in dataclasses.fields(found) if f.name != "keys"}
    return {
        **fields,
        "splits": {name: dataclasses.asdict(split) for name, split in found.splits.items()},
        "examples": [dataclasses.asdict(example) for example in found.examples],
    }


def _show(found: pipeline.Contamination) -> None:
    """The counts and the examples."""
    rows = []
    for name, split in found.splits.items():
        sources = [f"{source} ({n:,})" for source, n in split.sources.items()]
        more = [f"{len(sources) - _SOURCES} more"] if len(sources) > _SOURCES else []
        rows.append(
            [
                name,
                f"{split.texts:,}",
                f"{split.found:,}",
                percent(split.found, split.texts),
                f"{split.holders:,}",
                ", ".join([*sources[:_SOURCES], *more]) or "–",
            ]
        )
    columns = ["split", "texts", "found", "share", "in texts", "from"]
    table("Held-out texts in the data", columns, rows, words=["from"])
    for example in found.examples:
        typer.echo(
            f"{example.split}, {example.containment:.2f} in {example.source}, row {example.row}:\n"
            f"  task: {one_line(example.text, _LONGEST)}\n"
            f"  data: {one_line(example.excerpt, _LONGEST)}\n"
        )
    say(
        f"{found.holders:,} of {found.texts:,} texts ({found.size / 1e6:,.1f} MB) hold a held-out "
        f"text; looked at in {found.seconds:,.1f} s."
        + (" To train without them: corpusfit adapt --guard." if found.holders else "")
    )
