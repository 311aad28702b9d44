"""The command `split` as functions."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Unpack

from corpusfit.api.inputs import Inputs, inputs, listed
from corpusfit.api.offers import OVERLAPS, SPLIT, offers
from corpusfit.api.plans import build, local_place
from corpusfit.api.typed_options import OverlapsOptions, SplitOptions
from corpusfit.evaluation.splitting import overlap, splitting
from corpusfit.evaluation.splitting.overlap import SplitOverlap
from corpusfit.evaluation.splitting.plan import SplitPlan
from corpusfit.evaluation.splitting.splitting import Split
from corpusfit.text.context import Machine


@offers(SPLIT)
def split(
    *,
    data: Inputs,
    out: Path | str,
    plan: SplitPlan | Path | str | None = None,
    settings: Sequence[str] = (),
    overwrite: bool = False,
    machine: Machine | None = None,
    **options: Unpack[SplitOptions],
) -> Split:
    """Split a corpus or a parallel corpus into train, dev and test without overlap.

    Args:
        data: inputs as for `corpus` in `select`. Of a parallel corpus (`pair:train.de,train.en` or
            `pair:FILE.tsv`), one translation of each text and one text of each translation is kept.
        out: local folder that is new, empty, or of the same split.
        plan: a plan or a TOML file with settings.
        settings: further settings, such as `"read.id_field=key"`.
        overwrite: replace a different split in `out`.
        machine: where to run, with how many workers, and where to show progress.
        **options: the options of the command line, by the same names.

    Returns:
        The finished split: `manifest["counts"]`, `manifest["splits"]`, `manifest["overlaps"]`.

    Raises:
        CorpusfitError: see `corpusfit.core.errors`.
    """
    folder = local_place(out)
    built = build(SPLIT, plan, settings, options)
    return splitting.split(
        built,
        inputs(data, "data", machine, built.read.text_field),
        folder,
        machine=machine or Machine(),
        overwrite=overwrite,
    )


@offers(OVERLAPS)
def overlaps(
    folders: Inputs,
    *,
    plan: SplitPlan | Path | str | None = None,
    settings: Sequence[str] = (),
    machine: Machine | None = None,
    **options: Unpack[OverlapsOptions],
) -> list[SplitOverlap]:
    """Count the texts of dev and test that are in train, and copies within each.

    Args:
        folders: folders with files named train, dev or test (two line-aligned files per split,
            rows, or texts), or folders of `split`.
        plan: as in `split`.
        settings: as in `split`.
        machine: where to run, with how many workers, and where to show progress.
        **options: the options of the command line, by the same names.

    Returns:
        The counts by folder, side, split, and split searched for its texts.

    Raises:
        CorpusfitError: see `corpusfit.core.errors`.
    """
    built = build(OVERLAPS, plan, settings, options)
    return overlap.overlaps(
        listed(folders), read=built.read, near=built.split.near, machine=machine or Machine()
    )
