"""`corpusfit split`: train, dev and test splits without overlap."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import corpusfit
from corpusfit.cli.options import command
from corpusfit.cli.show import answer, percent, say, table
from corpusfit.core.errors import bad_setting


@command(machine=("workers",), plain=True)
def split(
    *,
    data: Sequence[str] = (),
    out: str | None = None,
    check: Sequence[str] = (),
    overwrite: bool = False,
    json: bool = False,
    **options: Any,
) -> None:
    """Split a corpus into train, dev and test without overlap.

    Example:
      corpusfit split --data pair:koran.de,koran.en --dev 2000 --test 2000 --near --out split/
      corpusfit split --check split/ --near

    Keeps all copies of a text in one split. Case, white space, ordinary punctuation and the Unicode
    form make no difference. Of rows with several texts, aligned pairs or those of several fields,
    keeps no text twice. Writes train, dev and test to --out in the input's format. With
    --check, writes nothing; prints the overlap between splits and the copies within each split.

    Options:
        --data INPUT: Texts to split: {INPUTS} (default: none; required without --check)
        --out FOLDER: Folder for train, dev and test (default: none; required without --check)
        --check FOLDER: Count overlaps in this folder's files train, dev and test instead of
            splitting; repeatable (default: none)
    """
    if check:
        values = {"data": data, "out": out, **options}
        split_options = ("data", "out", "dev", "test", "strict", "seed")
        flags = " ".join(f"--{name}" for name in split_options if values.get(name))
        if flags:
            cure = f"Leave out either --check or {flags}."
            raise bad_setting("--check", "given without options of a split", flags, cure)
        names = ("near", "text_field", "plan", "settings", "workers")
        shared = {name: options[name] for name in names if name in options}
        tables = corpusfit.overlaps(check, **shared)
        counted = [dataclasses.asdict(overlap) for overlap in tables]
        answer(json, {"overlaps": counted}, _show_overlaps, counted)
        return
    if not data or not out:
        named = [f"--data {path}" for path in data or ()] + ([f"--out {out}"] if out else [])
        cure = "To count overlaps in an existing split: corpusfit split --check FOLDER"
        raise bad_setting("--data and --out", "given together", " ".join(named) or "neither", cure)
    done = corpusfit.split(data=data, out=out, overwrite=overwrite, **options)
    answer(json, {"out": str(out), **done.manifest}, _show, done.path, done.manifest)


def _show(out: Path, manifest: Mapping[str, Any]) -> None:
    counts, splits = manifest["counts"], manifest["splits"]
    parts = ", ".join(f"{split['rows']:,} {name}" for name, split in splits.items())
    say(
        f"{counts['rows']:,} rows read: {parts}, {counts['rejected']:,} rejected, "
        f"{counts['dropped']:,} dropped."
    )
    for why, n in counts["reasons"].items():
        say(f"  {n:,} rows: {why} (see {out / 'rejects.jsonl'})")
    _show_overlaps(manifest["overlaps"])
    say("No text is in two splits; copies within one may stay there.")
    files = [str(out / name) for split in splits.values() for name in split["files"]]
    say(f"Written: {', '.join(files)}.")


def _show_overlaps(overlaps: Sequence[Mapping[str, Any]]) -> None:
    """Print a row per split and the split searched for its texts."""
    has_fields = any(row["field"] for row in overlaps)
    has_near = any(row["near"] is not None for row in overlaps)
    rows = []
    for overlap in overlaps:
        split, texts = overlap["split"], overlap["texts"]
        matches = [overlap["identical"], overlap["shared"]]
        if has_near:
            matches.append(overlap["near"])
        shown = ["–" if n is None else f"{n:,} ({percent(n, texts)})" for n in matches]
        searched = "itself" if split == overlap["within"] else overlap["within"]
        field = [overlap["field"]] if has_fields else []
        rows.append([overlap["data"], *field, split, searched, f"{texts:,}", *shown])
    keys = ["data", *(["field"] if has_fields else []), "split", "searched"]
    counts = ["texts", "exact", "normalized", *(["near-duplicate"] if has_near else [])]
    title = "Texts found again (normalized includes exact, near-duplicate includes normalized)"
    table(title, [*keys, *counts], rows, words=keys)
