"""`corpusfit tokenizers`: which words tokenizers split, on specific and on general text."""

from __future__ import annotations

import dataclasses
from typing import Annotated

import typer

from corpusfit import api, pipeline
from corpusfit.cli import options as o
from corpusfit.cli.show import Bar, as_json, percent, short_names, table

EXAMPLE = """Count the words that tokenizers split, on text of a domain and on general text.

Example:

\b
  corpusfit tokenizers --tokenizer de-bert/ --tokenizer mbert/ --specific a.conll --general b.txt

Others are held against the first: how many more words they split on each kind of text, and by how
much more on specific text than on general. Both kinds should be of one language, and written alike:
words that a task has set apart by spaces are cut anew."""


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("tokenizers", help=EXAMPLE)(tokenizers)


def tokenizers(
    tokenizer: Annotated[
        list[str],
        typer.Option(
            "--tokenizer",
            help="minilm, a model folder, a tokenizer.json, a vocab.txt of word pieces or a hub "
            "id; repeat it to compare with the first.",
            show_default=False,
        ),
    ],
    specific: Annotated[
        list[str],
        typer.Option(
            "--specific",
            help=f"Text of a domain: {o.INPUTS}; or files of CoNLL columns.",
            show_default=False,
        ),
    ],
    general: Annotated[
        list[str],
        typer.Option("--general", help="General text: the same.", show_default=False),
    ],
    text_field: o.TextField = None,
    seed: o.Seed = None,
    engine: o.EngineName = "local",
    workers: o.Workers = None,
    cache: o.Cache = None,
    settings: o.Settings = None,
    json: o.Json = False,
) -> None:
    """Parse, call, print."""
    found = api.tokenizers(
        tokenizer=tokenizer,
        specific=specific,
        general=general,
        settings=settings or (),
        text_field=text_field,
        seed=seed,
        machine=pipeline.Machine(engine, workers, cache, Bar()),
    )
    if json:
        as_json(dataclasses.asdict(found))
    else:
        _show(found)


def _show(found: pipeline.Tokenized) -> None:
    """What each does, and how others differ from the first."""
    names = short_names(found.tokenizers)
    rows = [
        [
            names[s.tokenizer],
            s.kind,
            f"{s.texts:,}",
            f"{s.words:,}",
            percent(s.continued.value, 1),
            f"{100 * s.continued.low:.1f} to {100 * s.continued.high:.1f}",
            f"{s.fertility.value:.3f}",
            percent(s.unknown, 1),
        ]
        for s in found.splits
    ]
    columns = ["tokenizer", "text", "texts", "words", "continued", "95 %", "fertility", "unknown"]
    table("Words that become several tokens", columns, rows, words=["text"])
    if found.gaps:
        gaps = [
            [
                names[gap.tokenizer],
                gap.figure,
                *(_difference(f, gap.figure) for f in (gap.specific, gap.general, gap.wider)),
            ]
            for gap in found.gaps
        ]
        first = names[found.tokenizers[0]]
        title = f"More than {first}: continued words in points, fertility in tokens a word"
        columns = ["tokenizer", "figure", "specific", "general", "specific - general"]
        table(title, columns, gaps, words=["figure"])


def _difference(found: pipeline.Figure, figure: str) -> str:
    """A difference with its interval."""
    if figure == "continued":
        value, low, high = (100 * x for x in (found.value, found.low, found.high))
        return f"{value:+.1f} ({low:+.1f} to {high:+.1f})"
    return f"{found.value:+.3f} ({found.low:+.3f} to {found.high:+.3f})"
