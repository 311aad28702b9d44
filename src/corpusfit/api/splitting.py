"""Split a corpus, and count what splits have in common, with the command line's words."""

from __future__ import annotations

from pathlib import Path

from corpusfit import pipeline
from corpusfit.api.plans import Inputs, listed
from corpusfit.artifacts import is_local, place
from corpusfit.errors import bad_setting
from corpusfit.pipeline import Machine, Split, SplitOverlap, SplitPlan
from corpusfit.plan import ReadPlan


def split(
    *,
    data: Inputs,
    out: Path | str,
    dev: float = 0,
    test: float = 0,
    near: bool = False,
    text_field: str | None = None,
    strict: bool = False,
    seed: int = 0,
    overwrite: bool = False,
    machine: Machine | None = None,
) -> Split:
    """Split a corpus, or aligned pairs, into train, dev and test, with no text on two sides.

    Args:
        data: inputs as for `corpus` in `select`; `pair:train.de,train.en` or `pair:FILE.tsv` for
            pairs, of which one translation of each text and one text of each translation is kept.
        out: a new or empty folder of this machine, or one of the same split.
        dev: rows of dev, or below 1 the share of all.
        test: the same of test.
        near: leave nothing on another side that holds nearly a text of dev or test.
        text_field: name of the field with the text.
        strict: the first row that cannot be used is an error.
        seed: the only source of chance.
        overwrite: replace another split in `out`.
        machine: where it runs, and what is told of it.

    Returns:
        The finished split: `manifest["counts"]`, `manifest["splits"]`, `manifest["overlaps"]`.

    Raises:
        CorpusfitError: see `corpusfit.errors`.
    """
    folder = place(out, "--out")
    if not is_local(folder):
        raise bad_setting("--out", "a folder of this machine", str(out))
    return pipeline.split(
        SplitPlan(dev, test, near, seed, _read(text_field, strict=strict)),
        listed(data),
        folder,
        machine=machine or Machine(),
        overwrite=overwrite,
    )


def overlaps(
    folders: Inputs,
    *,
    near: bool = False,
    text_field: str | None = None,
    machine: Machine | None = None,
) -> list[SplitOverlap]:
    """Count the texts of dev and test that are in train, and copies within each.

    Args:
        folders: each with files named train, dev and test (any of them): two line-aligned ones a
            split, or rows, or texts; or what `split` wrote.
        near: count what is nearly the same too.
        text_field: name of the field with the text.
        machine: where it runs, and what is told of it.

    Returns:
        One count for each folder, side, split, and split in which its texts were looked for.

    Raises:
        CorpusfitError: see `corpusfit.errors`.
    """
    return pipeline.overlaps(
        listed(folders),
        read=_read(text_field, strict=False),
        near=near,
        machine=machine or Machine(),
    )


def _read(text_field: str | None, *, strict: bool) -> ReadPlan:
    return ReadPlan(strict=strict) if text_field is None else ReadPlan(text_field, strict=strict)
