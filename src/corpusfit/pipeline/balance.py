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

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from corpusfit.artifacts import place, read_arrays, write_bytes
from corpusfit.errors import ChangedInputError, bad_setting
from corpusfit.explore.domains import Domains, read_domains
from corpusfit.explore.plan import ClustersPlan
from corpusfit.jobs.clusters import assigned_path, read_clusters, read_shares
from corpusfit.jobs.fit import PrepareEncoder, Sample
from corpusfit.manifest import ClustersFolder, RunFolder, digest
from corpusfit.pipeline.clustering import assign
from corpusfit.pipeline.run import Run
from corpusfit.pipeline.samples import add_vectors
from corpusfit.plan import ChoosePlan, EmbedPlan
from corpusfit.score import table


@dataclass(frozen=True)
class Balance:
    """What a selection is balanced by.

    Attributes:
        quota: float64 [k], what each cluster gives, adding up to one.
        folder: of the parts with the segments' shares.
    """

    quota: NDArray[np.float64]
    folder: Path

    def groups(self, part: int) -> NDArray[np.int64]:
        """The main cluster of each segment of a part: int64 [n]."""
        return read_clusters(assigned_path(self.folder, part))

    def shares(self, part: int) -> NDArray[np.float32]:
        """Of each segment of a part the clusters' shares: float32 [n, k]."""
        return read_shares(assigned_path(self.folder, part))


def prepare_balance(run: Run) -> None:
    """Note the fingerprint of the clusters that the run's plan names.

    Raises:
        InputError: the folder holds no clusters.
        UsageError: the clusters' embedder is no longer the model it was.
    """
    if run.plan.choose.balance:
        manifest, data = _given(run.plan.choose)
        run.engine.require_shared(run.cache, "--cache")
        with run.stage("prepare encoder"):
            encoder = run.one(PrepareEncoder(run.cache), _embed(manifest))
        if encoder != manifest["encoder"]:
            raise bad_setting(
                "--clusters",
                "clusters whose embedder is still the same model",
                run.plan.choose.clusters,
                "Find them again with `corpusfit clusters` and another --out.",
            )
        run.clusters = _fingerprint(manifest, data)


def _given(plan: ChoosePlan) -> tuple[dict[str, Any], bytes]:
    """What is said of the clusters, and their file."""
    folder = ClustersFolder(place(plan.clusters, "--clusters"))
    return folder.require(), folder.domains.read_bytes()


def _embed(manifest: dict[str, Any]) -> EmbedPlan:
    return ClustersPlan.from_dict(manifest["plan"]).embed


def _fingerprint(manifest: dict[str, Any], data: bytes) -> str:
    return digest([hashlib.sha256(data).hexdigest(), manifest["encoder"]])


def balance(run: Run, folder: RunFolder) -> Balance | None:
    """The shares of every segment, and the quotas; nothing if the plan asks for none.

    Raises:
        ChangedInputError: the clusters are no longer those that the command began with.
    """
    if not run.plan.choose.balance:
        return None
    manifest, data = _given(run.plan.choose)
    if _fingerprint(manifest, data) != run.clusters:
        raise ChangedInputError(
            f"{run.plan.choose.clusters} holds other clusters than when the command began. Run it "
            "again."
        )
    kept, embed = folder.balanced / run.clusters, _embed(manifest)
    own = kept / "domains.safetensors"
    write_bytes(own, data)  # where every worker sees it
    assign(run, own, kept / "assigned", run.plan.cut.gamma, embed, manifest["encoder"])
    wanted = _quota(run, folder, read_domains(own), embed, kept)
    return Balance(wanted / wanted.sum(), kept / "assigned")


def _quota(
    run: Run, folder: RunFolder, domains: Domains, embed: EmbedPlan, kept: Path
) -> NDArray[np.float64]:
    """What each cluster gives, float64 [k], up to a factor."""
    if run.plan.choose.quota == "even":
        return np.ones(domains.k)
    if run.plan.choose.quota == "corpus":
        paths = [assigned_path(kept / "assigned", i) for i, _ in table.parts(folder.scores)]
        sums = [read_shares(path).sum(axis=0, dtype=np.float64) for path in paths]
        return np.asarray(np.sum(sums, axis=0))
    given, target = Sample(folder.fit, "target"), Sample(kept, "target")
    if not target.vectors.exists():
        target.write_texts(given.read_texts())
        add_vectors(run, target, embed)
    shares = domains.shares(read_arrays(target.vectors)[0]["vectors"])
    return np.asarray(given.repeats() @ shares.astype(np.float64))
