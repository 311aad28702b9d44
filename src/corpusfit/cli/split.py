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

    Copies of a text (ignoring case, white space, ordinary punctuation and the Unicode form) stay
    in one split. Of a parallel corpus, one translation of each text and one text of each
    translation is kept. Writes train, dev and test to --out in the input's format. With --check,
    writes nothing and prints the overlap between splits and the copies within each split.

    Options:
        --data INPUT: Texts to split: {INPUTS} (default: none; required without --check)
        --out FOLDER: Folder for train, dev and test (default: none; required without --check)
        --check FOLDER: Folder with files named train, dev and test to count overlaps in, in place
            of splitting; repeatable (default: none)
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
        counted = [dataclasses.asdict(one) for one in tables]
        answer(json, {"overlaps": counted}, _show_overlaps, counted)
        return
    if not data or not out:
        came = [f"--data {path}" for path in data or ()] + [f"--out {out}"] * bool(out)
        cure = "To count overlaps in an existing split: corpusfit split --check FOLDER"
        raise bad_setting("--data and --out", "given together", " ".join(came) or "neither", cure)
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
    sided = any(one["side"] for one in overlaps)
    near = any(one["near"] is not None for one in overlaps)
    rows = []
    for one in overlaps:
        is_within = one["split"] == one["within"]
        counts_of = [one["identical"], one["shared"], *([one["near"]] if near else [])]
        shown = ["–" if n is None else f"{n:,} ({percent(n, one['texts'])})" for n in counts_of]
        where = "itself" if is_within else one["within"]
        side = [one["side"]] if sided else []
        rows.append([one["data"], *side, one["split"], where, f"{one['texts']:,}", *shown])
    keys = ["data", *(["side"] if sided else []), "split", "searched"]
    counts = ["texts", "exact", "normalised", *(["near-duplicate"] if near else [])]
    title = "Texts found again (normalised includes exact, near-duplicate includes normalised)"
    table(title, [*keys, *counts], rows, words=keys, keys=len(keys))
