"""`corpusfit split`: train, dev and test with no text on two sides."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from corpusfit import api, pipeline
from corpusfit.cli import options as o
from corpusfit.cli.show import Bar, as_json, percent, say, table
from corpusfit.errors import bad_setting

EXAMPLE = """Split a corpus into train, dev and test, with no text on two sides.

Example:

\b
  corpusfit split --data pair:koran.de,koran.en --dev 2000 --test 2000 --near --out split/
  corpusfit split --check split/ --near

Copies of a text, whatever their case, blanks and punctuation, stay on one side. Of aligned pairs
one translation of each text and one text of each translation is kept. The files have the form of
the input. With --check nothing is split: it counts the texts of dev and test that are in train."""


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("split", help=EXAMPLE)(split)


def split(
    data: Annotated[
        list[str] | None,
        typer.Option("--data", help=f"What to split: {o.INPUTS}.", show_default=False),
    ] = None,
    out: Annotated[
        str | None, typer.Option("--out", help="Folder for train, dev and test.")
    ] = None,
    dev: Annotated[
        float, typer.Option("--dev", help="Rows of dev, or their share if below 1.")
    ] = 0,
    test: Annotated[
        float, typer.Option("--test", help="Rows of test, or their share if below 1.")
    ] = 0,
    near: Annotated[
        bool,
        typer.Option(
            "--near",
            help="Mind near-duplicates too: texts that hold 0.8 of the 5-grams of a dev or test "
            "text are left out of train.",
        ),
    ] = False,
    check: Annotated[
        list[str] | None,
        typer.Option(
            "--check",
            help="Split nothing; count the overlaps in a folder with files named train, dev, test; "
            "may be repeated.",
        ),
    ] = None,
    text_field: o.TextField = None,
    strict: o.Strict = None,
    seed: o.Seed = None,
    workers: o.Workers = None,
    overwrite: o.Overwrite = False,
    json: o.Json = False,
) -> None:
    """Parse, call, print."""
    machine = pipeline.Machine(workers=workers, progress=Bar())
    if check:
        _nothing_else(data=data, out=out, dev=dev, test=test, strict=strict, seed=seed)
        found = api.overlaps(check, near=near, text_field=text_field, machine=machine)
        counted = [dataclasses.asdict(one) for one in found]
        if json:
            as_json({"overlaps": counted})
        else:
            _show_overlaps(counted)
        return
    if not data or not out:
        cure = "Or --check DIR, to look at what is split already."
        raise bad_setting("--data and --out", "given", "nothing", cure)
    done = api.split(
        data=data,
        out=out,
        dev=dev,
        test=test,
        near=near,
        text_field=text_field,
        strict=bool(strict),
        seed=seed or 0,
        overwrite=overwrite,
        machine=machine,
    )
    if json:
        as_json({"out": str(out), **done.manifest})
    else:
        _show(done.path, done.manifest)


def _nothing_else(**given: Any) -> None:
    """Hold that a check was asked for and no split."""
    names = [f"--{name}" for name, value in given.items() if value]
    if names:
        raise bad_setting("--check", "given without what only a split needs", " ".join(names))


def _show(out: Path, manifest: Mapping[str, Any]) -> None:
    """The counts, and the overlaps in what was written."""
    counts, splits = manifest["counts"], manifest["splits"]
    parts = ", ".join(f"{found['rows']:,} {name}" for name, found in splits.items())
    say(
        f"{counts['rows']:,} rows read: {parts}, {counts['rejected']:,} rejected, "
        f"{counts['dropped']:,} dropped."
    )
    for why, n in counts["reasons"].items():
        say(f"  {n:,} rows: {why} (see {out / 'rejects.jsonl'})")
    _show_overlaps(manifest["overlaps"])
    files = [str(out / name) for found in splits.values() for name in found["files"]]
    say(f"Written: {', '.join(files)}.")


def _show_overlaps(overlaps: Sequence[Mapping[str, Any]]) -> None:
    """One line for each split and where its texts were looked for."""
    sided = any(one["side"] for one in overlaps)
    nearly = any(one["near"] is not None for one in overlaps)
    rows = []
    for one in overlaps:
        own = one["split"] == one["within"]
        counts = [one["identical"], one["shared"], *([one["near"]] if nearly else [])]
        shown = ["–" if n is None else f"{n:,} ({percent(n, one['texts'])})" for n in counts]
        where = "copies within" if own else f"in {one['within']}"
        side = [one["side"]] if sided else []
        rows.append([one["data"], *side, one["split"], where, f"{one['texts']:,}", *shown])
    columns = ["data", *(["side"] if sided else []), "of", "looked for", "texts", "to the letter"]
    columns += ["same text", *(["or nearly"] if nearly else [])]
    table("Texts that are in two places", columns, rows, words=["side", "of", "looked for"])
