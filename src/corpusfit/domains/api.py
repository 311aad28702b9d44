"""The function `clusters`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Unpack

from corpusfit.core.artifacts import folder_path
from corpusfit.core.keywords import Inputs, Keywords, with_keywords
from corpusfit.domains.plan import ClustersPlan

if TYPE_CHECKING:
    from corpusfit.core.typed_options import ClustersOptions
    from corpusfit.domains.clustering import Clustered
    from corpusfit.text.context import Machine

CLUSTERS = Keywords(
    ClustersPlan,
    ("mixture", "draw", "embed", "cut", "read.text_field", "seed"),
    example="cut.gamma=5",
)


@with_keywords(CLUSTERS)
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
        out: a new or empty folder or URL, or that of the same run, which is resumed.
        assign: also write the probability of each cluster for every segment of the corpus.

    Returns:
        The finished run; its manifest has the clusters and all metrics.
    """
    built = CLUSTERS.build(plan, settings, options).check()
    from corpusfit.domains import clustering
    from corpusfit.text.context import machine_of
    from corpusfit.text.in_memory import inputs

    machine = machine_of(machine, options)
    return clustering.clusters(
        built,
        inputs(corpus, "corpus", machine, built.read.text_field),
        folder_path(out, "`out`"),
        assign_all=assign,
        machine=machine,
        overwrite=overwrite,
    )
