"""See what a corpus holds: the command with the command line's words."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from corpusfit import pipeline
from corpusfit.api.plans import Inputs, build_clusters_plan, listed
from corpusfit.artifacts import place
from corpusfit.explore.plan import ClustersPlan
from corpusfit.pipeline import Clustered, Machine


def clusters(
    *,
    corpus: Inputs,
    out: Path | str,
    assign: bool = False,
    plan: ClustersPlan | Path | str | None = None,
    settings: Sequence[str] = (),
    overwrite: bool = False,
    machine: Machine | None = None,
    **words: Any,
) -> Clustered:
    """Find the domains of a corpus, without labels.

    Args:
        corpus: files, folders, globs, URLs or `hub:NAME` datasets.
        out: a new or empty folder or URL, or one of the same run to resume.
        assign: also write the shares of each cluster in every segment of the corpus.
        plan: a plan or a TOML file to start from.
        settings: further settings as `"mixture.fits=10"`.
        overwrite: replace another run in `out`.
        machine: where it runs, with how many workers, and what is told of it.
        **words: k (a number, several, or text as `5,10,15`), components, baselines, sample,
            per_source, truth, embedder, unit, text_field, seed: as the options of the same name.

    Returns:
        What was found; its manifest has the clusters and all figures.

    Raises:
        CorpusfitError: see `corpusfit.errors`.
    """
    return pipeline.clusters(
        build_clusters_plan(plan, settings, **words),
        listed(corpus),
        place(out, "--out"),
        assign_all=assign,
        machine=machine or Machine(),
        overwrite=overwrite,
    )
