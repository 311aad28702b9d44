"""The command `clusters` as a function."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Unpack

from corpusfit.api.inputs import Inputs, inputs
from corpusfit.api.offers import CLUSTERS, offers
from corpusfit.api.plans import build
from corpusfit.api.typed_options import ClustersOptions
from corpusfit.core.artifacts import place
from corpusfit.domains import clustering
from corpusfit.domains.clustering import Clustered
from corpusfit.domains.plan import ClustersPlan
from corpusfit.text.context import Machine


@offers(CLUSTERS)
def clusters(
    *,
    corpus: Inputs,
    out: Path | str,
    assign: bool = False,
    plan: ClustersPlan | Path | str | None = None,
    settings: Sequence[str] = (),
    overwrite: bool = False,
    machine: Machine | None = None,
    **options: Unpack[ClustersOptions],
) -> Clustered:
    """Find the domains of a corpus, without labels.

    Args:
        corpus: files, folders, globs, URLs or `hub:NAME` datasets.
        out: folder or URL that is new, empty, or of the same run, which resumes.
        assign: also write each cluster's share of every segment of the corpus.
        plan: a plan or a TOML file with settings.
        settings: further settings, such as `"mixture.fits=10"`.
        overwrite: replace a different run in `out`.
        machine: where to run, with how many workers, and where to show progress.
        **options: the options of the command line, by the same names; `k` is a number, several, or
            a text such as `5,10,15`.

    Returns:
        The finished run; its manifest has the clusters and all figures.

    Raises:
        CorpusfitError: see `corpusfit.core.errors`.
    """
    built = build(CLUSTERS, plan, settings, options).check()
    return clustering.clusters(
        built,
        inputs(corpus, "corpus", machine, built.read.text_field),
        place(out, "`out`"),
        assign_all=assign,
        machine=machine or Machine(),
        overwrite=overwrite,
    )
