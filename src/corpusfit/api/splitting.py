"""The command `split` as functions."""

from __future__ import annotations

from pathlib import Path

from corpusfit import workflows
from corpusfit.api.plans import Inputs, listed
from corpusfit.artifacts import is_local, place
from corpusfit.errors import bad_setting
from corpusfit.plan import ReadPlan
from corpusfit.workflows import Machine, Split, SplitOverlap, SplitPlan


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
    """Split a corpus or a parallel corpus into train, dev and test without overlap.

    Args:
        data: inputs as for `corpus` in `select`. Of a parallel corpus (`pair:train.de,train.en` or
            `pair:FILE.tsv`), one translation of each text and one text of each translation is kept.
        out: local folder that is new, empty, or of the same split.
        dev: number of rows in dev, or their share if below 1.
        test: number of rows in test, or their share if below 1.
        near: also drop near-duplicates of dev and test texts from the other splits.
        text_field: field with the text.
        strict: stop at the first row that cannot be used.
        seed: random seed.
        overwrite: replace a different split in `out`.
        machine: where to run, with how many workers, and where to show progress.

    Returns:
        The finished split: `manifest["counts"]`, `manifest["splits"]`, `manifest["overlaps"]`.

    Raises:
        CorpusfitError: see `corpusfit.errors`.
    """
    folder = place(out, "--out")
    if not is_local(folder):
        raise bad_setting("--out", "a folder of this machine", str(out))
    return workflows.split(
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
        folders: folders with files named train, dev or test (two line-aligned files per split,
            rows, or texts), or folders of `split`.
        near: also count near-duplicates.
        text_field: field with the text.
        machine: where to run, with how many workers, and where to show progress.

    Returns:
        The counts by folder, side, split, and split searched for its texts.

    Raises:
        CorpusfitError: see `corpusfit.errors`.
    """
    return workflows.overlaps(
        listed(folders),
        read=_read(text_field, strict=False),
        near=near,
        machine=machine or Machine(),
    )


def _read(text_field: str | None, *, strict: bool) -> ReadPlan:
    return ReadPlan(strict=strict) if text_field is None else ReadPlan(text_field, strict=strict)
