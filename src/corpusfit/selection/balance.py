"""Balances a selection by groups of its corpus: clusters, sources, or the values of a field."""

from __future__ import annotations

import dataclasses
import difflib
import hashlib
import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from corpusfit.core.artifacts import folder_path, read_arrays, write_arrays, write_bytes
from corpusfit.core.errors import ChangedInputError, bad_setting
from corpusfit.core.manifest import digest, undamaged
from corpusfit.core.plan import EmbedPlan, Plan, ReadPlan
from corpusfit.core.types import Shard
from corpusfit.scoring import table
from corpusfit.scoring.clusters import (
    ClustersFolder,
    assigned_path,
    read_cluster_model,
    read_clusters,
    read_shares,
)
from corpusfit.scoring.table import grouped, source_groups
from corpusfit.selection.copies import Copies
from corpusfit.selection.embedding import add_vectors, assign
from corpusfit.selection.fit import Sample, prepare_encoder
from corpusfit.selection.folder import SelectionFolder, runs_of_parts
from corpusfit.selection.labels import NONE, labels_of
from corpusfit.selection.resolved import Resolved
from corpusfit.text.context import Run, at_commit
from corpusfit.text.reading import Tally


@dataclass(frozen=True)
class Balance:
    """Quotas of the clusters and the segments' shares in them."""

    quota: NDArray[np.float64]  # [k], each cluster's share of the selection; sums to 1
    folder: Path  # folder of the parts with the segments' shares

    def groups(self, part: int) -> NDArray[np.int64]:
        """The main cluster of each segment of a part: int64 [n]."""
        return read_clusters(assigned_path(self.folder, part))

    def shares(self, part: int) -> NDArray[np.float32]:
        """The clusters' shares in each segment of a part: float32 [n, k]."""
        return read_shares(assigned_path(self.folder, part))


@dataclass(frozen=True)
class Groups(Balance):
    """Quotas of groups that a segment is of as a whole."""

    names: tuple[str, ...] = ()

    def groups(self, part: int) -> NDArray[np.int64]:
        """The group of each segment of a part: int64 [n]."""
        arrays, header = read_arrays(_labels_path(self.folder, part))
        number = {name: i for i, name in enumerate(self.names)}
        numbers = np.array([number[name] for name in header["labels"]], np.int64)
        return np.asarray(numbers[arrays["label"]])

    def shares(self, part: int) -> NDArray[np.float32]:
        """1 for each segment's group: float32 [n, k]."""
        return np.eye(len(self.names), dtype=np.float32)[self.groups(part)]


MOST_GROUPS = 1_000


def _labels_path(folder: Path, part: int) -> Path:
    return folder / f"part-{part:05d}.safetensors"


def _label_segments(
    read: ReadPlan,  # its `id_field` is the field; empty for the names of the sources
    names: tuple[str, ...],
    scores: Path,
    out: Path,
    copies: Copies,
    by_words: bool,
    shard: Shard,
) -> tuple[int, Counter[str]]:
    """Write the label of each segment of a shard; returns its number and the labels' amounts."""
    path = table.part_path(scores, shard.index)
    if read.id_field:
        rows = table.read_rows(path, Tally.of(shard).sources(names))
        labels, label = labels_of(shard, read, rows)
    else:
        labels, label = grouped(*table.read_sources(path), source_groups(names))
    segment, tokens = table.read_columns(path, "segment", "tokens")
    costs = np.array(tokens, np.int64) if by_words else np.ones(len(label), np.int64)
    costs[copies.of(shard.index, segment)] = 0
    sums = np.bincount(label, costs, minlength=len(labels)).astype(np.int64)
    write_arrays(_labels_path(out, shard.index), {"label": label}, {"labels": labels})
    return shard.index, Counter(dict(zip(labels, sums.tolist(), strict=True)))


def _by_labels(run: Run, resolved: Resolved, folder: SelectionFolder, copies: Copies) -> Groups:
    """Label every segment by its source or a field of its row, and compute the quotas."""
    choose = resolved.plan.choose
    texts = resolved.corpus
    field = choose.balance.removeprefix("field:") if choose.balance != "source" else ""
    out = folder.balanced / "labels" / digest([field, choose.dedup])
    read = dataclasses.replace(texts.read, id_field=field)
    job = partial(
        _label_segments, read, texts.names, folder.scores, out, copies, not choose.counts_segments
    )
    amounts: Counter[str] = Counter()
    for _, of_shard in run.over_shards("label", texts, job):
        amounts.update(of_shard)
    names = sorted(amounts)
    # more files than `MAX_SOURCES` are grouped by folder
    if choose.balance == "source" and len(names) == 1 and len(texts.names) > table.MAX_SOURCES:
        raise bad_setting(
            "`choose.balance`",
            f"a field of the rows for {len(texts.names):,} files in one folder",
            choose.balance,
            f"More than {table.MAX_SOURCES:,} files are balanced by their folders.",
        )
    if len(names) > MOST_GROUPS or names == [NONE]:
        listed = ", ".join(names[:3])
        raise bad_setting(
            "`choose.balance`",
            f"a field with at most {MOST_GROUPS:,} different values",
            choose.balance,
            f"It has {len(names):,}: {listed}{', …' * (len(names) > 3)}.",
        )
    # the target has no such groups, so their share is that of the corpus where none is asked for
    amount = np.array([amounts[name] for name in names], np.float64)
    quota = np.ones(len(names)) if choose.quota == "even" else amount
    if shares := choose.quota_shares():
        check_shares(shares, names, choose.balance)
        quota = _named_shares(shares, dict(zip(names, amount.tolist(), strict=True)))
    return Groups(quota / quota.sum(), out, tuple(names))


def check_shares(shares: Iterable[str], groups: Sequence[str], by: str) -> None:
    """Refuse shares of groups that are not there, before scoring where the groups are known."""
    unknown = [name for name in shares if name not in groups]
    if unknown:
        listed = ", ".join(groups[:10]) + ", …" * (len(groups) > 10)
        close = difflib.get_close_matches(unknown[0], groups, 1)
        cure = f"Did you mean {close[0]}?" if close else ""
        if by == "source":
            cure = cure or "For shares of a field's values: `choose.balance=field:NAME`."
        raise bad_setting(
            "`choose.quota`", f"of groups that there are ({listed})", ", ".join(unknown), cure
        )


def _named_shares(shares: dict[str, float], amounts: dict[str, float]) -> NDArray[np.float64]:
    """Quotas of all groups [k], where some have theirs by name and the others the rest."""
    rest = 1 - math.fsum(shares.values())
    others = math.fsum(n for name, n in amounts.items() if name not in shares)
    if rest > 1e-9 and not others:
        allowed = "100% together, as no other group has text"
        raise bad_setting("`choose.quota`", allowed, f"{100 * (1 - rest):g}%")
    return np.array(
        [
            shares[name] if name in shares else max(0.0, rest) * n / max(others, 1.0)
            for name, n in amounts.items()
        ]
    )


@dataclass(frozen=True)
class _Found:
    """The clusters of a folder."""

    data: bytes  # of the file with the fitted clusters
    encoder: str  # fingerprint of their embedder
    embed: EmbedPlan  # their embedder, at the commit that they were found with

    @classmethod
    def read(cls, path: str) -> _Found:
        folder = ClustersFolder(folder_path(path, "`choose.clusters`"))
        manifest = folder.require()
        with undamaged(folder.path):
            embed = Plan.from_dict({"embed": manifest["plan"]["embed"]}).embed
            pinned = at_commit(embed, manifest.get("commits", {}))
            return cls(folder.model.read_bytes(), manifest["encoder"], pinned)

    @property
    def fingerprint(self) -> str:
        return digest([hashlib.sha256(self.data).hexdigest(), self.encoder])


def clusters_fingerprint(run: Run, path: str) -> str:
    """The fingerprint of the clusters in a folder, if the model that they were found with is here.

    Raises:
        UsageError: the model changed.
    """
    found = _Found.read(path)
    run.engine.require_shared(run.cache, "`cache`")
    with run.stage("prepare encoder"):
        encoder = prepare_encoder(run, found.embed)
    if encoder != found.encoder:
        raise bad_setting(
            "`choose.clusters`",
            "clusters found with the present model of their embedder",
            path,
            "The model changed since. Run `corpusfit clusters` again with another `out`.",
        )
    return found.fingerprint


def balance(
    run: Run, resolved: Resolved, folder: SelectionFolder, copies: Copies
) -> Balance | None:
    """Assign every segment to the clusters and compute the quotas, if the plan asks for any."""
    # The corpus is encoded by the clusters' embedder, even for a method that reads text.
    # Reference: Aharoni and Goldberg (2020), section 2; Grangier et al. (2024), Task-Adaptive
    # Pretrained Language Models via Clustered-Importance Sampling, section 3.
    choose = resolved.plan.choose
    if not choose.balance:
        return None
    if choose.balance != "cluster":
        return _by_labels(run, resolved, folder, copies)
    found = _Found.read(choose.clusters)
    if found.fingerprint != resolved.clusters:
        raise ChangedInputError(
            f"The clusters in {choose.clusters} changed while the command ran. Run the "
            "same command again."
        )
    balanced = folder.balanced / resolved.clusters
    assigned = balanced / "assigned"
    local_file = balanced / "domains.safetensors"
    write_bytes(local_file, found.data)  # in a folder that every worker sees
    cut = resolved.plan.cut
    assign(run, resolved.corpus, cut, found.embed, found.encoder, local_file, assigned)
    clusters = read_cluster_model(local_file)
    if choose.quota == "even":
        quota = np.ones(clusters.k)
    elif choose.quota == "corpus":
        runs = list(enumerate(runs_of_parts(folder, run.shard_count)))
        job = partial(_sum_shares, folder.scores, assigned, copies, clusters.k)
        sums = dict(run.engine.map(job, runs))
        quota = np.sum([sums[number] for number, _ in runs], axis=0)
    else:
        units = Sample(folder.fit, "target")
        target = Sample(balanced, "target")
        if not target.vectors.exists():
            target.write_texts(units.read_texts())
            add_vectors(run, target, found.embed)
        shares = clusters.shares(read_arrays(target.vectors)[0]["vectors"])
        quota = np.ones(len(shares)) @ shares.astype(np.float64)
    return Balance(quota / quota.sum(), assigned)


def _sum_shares(
    scores: Path, assigned: Path, copies: Copies, k: int, numbered: tuple[int, tuple[int, ...]]
) -> tuple[int, NDArray[np.float64]]:
    """The sums of the clusters' shares in the segments of a run of parts without copies, [k]."""
    number, parts = numbered
    sums = np.zeros(k)
    for index in parts:
        shares = read_shares(assigned_path(assigned, index))
        (segment,) = table.read_columns(table.part_path(scores, index), "segment")
        sums += shares[~copies.of(index, segment)].sum(axis=0, dtype=np.float64)
    return number, sums


def allocate(quota: NDArray[np.float64], have: Sequence[int], amount: int) -> list[int]:
    """Allocate an amount to groups by their quotas."""
    # What a small group cannot fill goes to the others in proportion to their quotas
    # (water-filling). A segment counts for its main group; its other shares count only for weights.
    wanted = np.zeros(len(quota))
    available = np.asarray(have, np.float64)
    left = min(float(amount), float(available.sum()))
    while left > 0.5:
        open_ = available - wanted > 0
        share = np.where(open_, quota, 0.0)
        if not share.sum():  # only groups without a quota have segments left
            share = np.where(open_, available - wanted, 0.0)
        added = np.minimum(left * share / share.sum(), available - wanted)
        wanted += added
        left -= float(added.sum())
    # round to whole segments by largest remainders
    whole = np.floor(wanted + 1e-9)
    total = min(int(amount), int(available.sum()))
    short = total - int(whole.sum())
    order = np.lexsort((np.arange(len(whole)), -(wanted - whole)))
    for group in [i for i in order if whole[i] < available[i]][:short]:
        whole[group] += 1
    return [int(n) for n in whole]


def ratios(quota: NDArray[np.float64], sums: NDArray[np.float64], n: int) -> NDArray[np.float64]:
    """Weight of each group's segments relative to the mean group, float64 [k]."""
    return np.asarray(quota / (np.maximum(sums, 1.0) / max(1, n)))
