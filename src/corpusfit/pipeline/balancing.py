"""Balance a selection by the clusters of its corpus: shares by segment, and quotas.

What: assigns every segment to the clusters that `corpusfit clusters` found, and says what each
cluster gives of the amount.
Why: the best scores may all lie in one corner of what the target is about; the target's own spread
over the clusters says how much of each is wanted.
Trade-off: the corpus is encoded by the clusters' embedder, which a method that reads words would
have done without.
Reference: Aharoni and Goldberg (2020), section 2; Grangier et al. (2024), Task-Adaptive Pretrained
Language Models via Clustered-Importance Sampling, section 3.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from corpusfit.artifacts import place, read_arrays
from corpusfit.errors import bad_setting
from corpusfit.explore.domains import Domains, read_domains
from corpusfit.explore.plan import ClustersPlan
from corpusfit.jobs.clusters import assigned_path, read_shares
from corpusfit.jobs.fit import PrepareEncoder, Sample
from corpusfit.manifest import ClustersFolder, RunFolder
from corpusfit.pipeline.clustering import assign
from corpusfit.pipeline.run import Run
from corpusfit.pipeline.samples import add_vectors
from corpusfit.plan import ChoosePlan, EmbedPlan
from corpusfit.score import table

__all__ = ["Balance", "balance", "clusters_file"]


@dataclass(frozen=True)
class Balance:
    """What a selection is balanced by.

    Attributes:
        quota: float64 [k], what each cluster gives, adding up to one.
        folder: of the parts with the segments' shares.
    """

    quota: NDArray[np.float64]
    folder: Path

    def shares(self, part: int) -> NDArray[np.float32]:
        """Of each segment of a part the clusters' shares: float32 [n, k]."""
        return read_shares(assigned_path(self.folder, part))


def clusters_file(plan: ChoosePlan) -> list[str]:
    """The file that the selection is balanced by; none if it is not.

    Raises:
        InputError: the folder holds no clusters.
    """
    if not plan.balance:
        return []
    folder = ClustersFolder(place(plan.clusters, "--clusters"))
    folder.require()
    return [str(folder.domains)]


def balance(run: Run, folder: RunFolder) -> Balance | None:
    """What the run's plan asks for; nothing if it does not.

    Raises:
        UsageError: the clusters' embedder is no longer the model it was.
    """
    plan = run.plan.choose
    if not plan.balance:
        return None
    given = ClustersFolder(place(plan.clusters, "--clusters"))
    manifest = given.require()
    embed = ClustersPlan.from_dict(manifest["plan"]).embed
    run.engine.require_shared(run.cache, "--cache")
    with run.stage("prepare encoder"):
        encoder = run.one(PrepareEncoder(run.cache), embed)
    if encoder != manifest["encoder"]:
        raise bad_setting(
            "--clusters",
            "clusters whose embedder is still the same model",
            plan.clusters,
            "Find them again with `corpusfit clusters` and another --out.",
        )
    parts = folder.balanced / run.files[str(given.domains)]
    assign(run, given.domains, parts, run.plan.cut.gamma, embed, encoder)
    wanted = _quota(run, folder, read_domains(given.domains), embed, parts)
    return Balance(wanted / wanted.sum(), parts)


def _quota(
    run: Run, folder: RunFolder, domains: Domains, embed: EmbedPlan, parts: Path
) -> NDArray[np.float64]:
    """What each cluster gives, float64 [k], up to a factor."""
    if run.plan.choose.quota == "even":
        return np.ones(domains.k)
    if run.plan.choose.quota == "corpus":
        paths = [assigned_path(parts, i) for i, _ in table.parts(folder.scores)]
        sums = [read_shares(path).sum(axis=0, dtype=np.float64) for path in paths]
        return np.asarray(np.sum(sums, axis=0))
    target = Sample(parts, "target")
    if not target.vectors.exists():
        target.write_texts(Sample(folder.fit, "target").read_texts())
        add_vectors(run, target, embed)
    vectors = read_arrays(target.vectors)[0]["vectors"]
    return np.asarray(domains.shares(vectors).sum(axis=0, dtype=np.float64))
