"""The command `clusters`: finds the domains of a corpus without labels."""

from __future__ import annotations

import contextlib
import dataclasses
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from corpusfit import text as corpus
from corpusfit.core.artifacts import read_arrays, write_bytes
from corpusfit.core.errors import EmptyInputError, bad_setting
from corpusfit.core.languages import count_words
from corpusfit.core.manifest import Finished, locked, source_as_dict, source_identity, versions
from corpusfit.core.plan import AUTO, CutPlan, EmbedPlan, ReadPlan, kind_of
from corpusfit.core.types import Shard, file_of, in_file
from corpusfit.domains.describe import (
    LabeledUnit,
    confusion,
    describe_clusters,
    purity,
    write_sample,
)
from corpusfit.domains.fitting import FitClusters, Fitted
from corpusfit.domains.plan import ClustersPlan
from corpusfit.domains.tables import write_tables
from corpusfit.embed.folders import default_embedder
from corpusfit.scoring.clusters import ClustersFolder, read_cluster_model, write_cluster_model
from corpusfit.scoring.contract import SOURCE
from corpusfit.selection.embedding import add_vectors, assign
from corpusfit.selection.fit import Sample, pin_encoder
from corpusfit.selection.labels import NONE, labels_at
from corpusfit.selection.samples import (
    ALL,
    SampledUnits,
    below,
    first_bound,
    lowest,
    merge,
    strings,
)
from corpusfit.text.context import Machine, Run, absolute, at_commit, command_words
from corpusfit.text.input import Input
from corpusfit.text.pairs import warn_english_only
from corpusfit.text.reading import Reasons, Tally

TRIED = (1, 2, 3, 4, 5, 6, 8, 10, 12, 15, 20, 25, 30)  # numbers of clusters for BIC
# Least units per dimension of a cluster: with fewer, its covariance is singular, its likelihood
# unbounded, and BIC meaningless.
_UNITS_PER_DIMENSION = 2
_MAX_COVARIANCE_ENTRIES = (
    2**26
)  # most numbers in the covariances of all clusters: half a GB, times several copies
_MAX_DOMAINS = 200  # known domains that clusters are compared with
_SPARE = 2  # units sampled per unit wanted, so that copies can be left out


class Clustered(Finished):
    """A finished run of `clusters`."""


def clusters(
    plan: ClustersPlan,
    corpus_inputs: Sequence[str],
    out: Path,
    *,
    assign_all: bool = False,
    machine: Machine,
    overwrite: bool = False,
) -> Clustered:
    """Find the domains of a corpus.

    Clusters are fitted on a sample of units; a domain that the sample lacks is not found.

    Reference: Aharoni and Goldberg (2020), sections 2 and 3.2, appendix A.3.
    """
    folder = ClustersFolder(out)
    folder.claim()
    with contextlib.ExitStack() as stack, machine.running(folder.work) as run:
        resolved = resolve(run, plan, corpus_inputs)
        stack.enter_context(locked(folder.work, "clusters", make=True))
        folder.begin(resolved.identity(), overwrite=overwrite)
        run.engine.require_shared(folder.work, "`out`")
        manifest = folder.finished()
        if manifest is None:
            manifest = _find(run, resolved, folder)
            manifest["given"] = absolute(corpus_inputs)
        elif bool(manifest["assigned"]) or not assign_all:
            return Clustered(out, manifest)
        # a finished run without assignments gets them now
        if assign_all:
            folder.reopen()
            manifest["assigned"] = assign(
                run,
                resolved.corpus,
                resolved.plan.cut,
                resolved.embed,
                resolved.encoder,
                folder.model,
                folder.assigned,
            )
        resolved.corpus.require_unchanged()
        inputs = {"corpus": manifest["given"]}
        repeat = command_words("clusters", inputs, {}, resolved.overrides())
        repeat += ["--assign"] if manifest["assigned"] else []
        manifest |= {"repeat": repeat, "seconds": {**manifest["seconds"], **run.seconds}}
        folder.finish(manifest)
    return Clustered(out, manifest)


@dataclass(frozen=True)
class Resolved:
    """A plan without open questions, its corpus, and what else decides the clusters."""

    plan: ClustersPlan  # final, as the manifest states it
    corpus: Input
    encoder: str  # its fingerprint
    commits: Mapping[str, str]  # of an encoder of the hub, by its name

    @property
    def embed(self) -> EmbedPlan:
        """The settings of the encoder, at its commit, so that every worker loads the same one."""
        return at_commit(self.plan.embed, self.commits)

    def identity(self) -> dict[str, Any]:
        """What must be equal to resume a run; `strict` can change."""
        settings = {**self.plan.as_dict(), "read": self.plan.read.identity()}
        settings["embed"]["device"] = kind_of(self.plan.embed.device)
        return {
            "command": "clusters",
            **settings,
            "corpus": source_identity(self.corpus.sources),
            **corpus.layout(self.corpus.sources, self.plan.read),
            "encoder": self.encoder,
            "versions": {"corpusfit": versions()["corpusfit"]},
        }

    def overrides(self) -> list[str]:
        """The settings that differ from the defaults, as a command line repeats them."""
        plan = self.plan
        if plan.draw.truth != SOURCE:  # the id field that `draw.truth` set is not repeated
            plan = plan.with_value("read.id_field", ClustersPlan().read.id_field)
        return plan.overrides()


def resolve(run: Run, plan: ClustersPlan, corpus_inputs: Sequence[str]) -> Resolved:
    """Resolve a clustering: the embedder, the corpus, and the fingerprint of the encoder."""
    plan = plan.check()
    if plan.embed.embedder == AUTO:
        plan = plan.with_value("embed.embedder", default_embedder())
    # known domains are read through the id field, in the place of the ids
    if plan.draw.truth != SOURCE:
        plan = plan.with_value("read.id_field", plan.draw.truth)
    texts = Input(run.find(corpus_inputs, plan.read, "corpus"), plan.read)
    run.engine.require_shared(run.cache, "`cache`")
    run.engine.needs_gpu = plan.embed.needs_gpu
    return Resolved(plan, texts, *pin_encoder(run, plan.embed))


def _find(run: Run, resolved: Resolved, folder: ClustersFolder) -> dict[str, Any]:
    """Draw, fit and describe; returns the manifest."""
    plan = resolved.plan
    sample = Sample(folder.drawn, "sample")
    units = _sample_units(run, plan, resolved.corpus, folder, sample)
    warn_english_only(plan.embed.embedder, sample.read_texts(), run.warn)
    if not sample.vectors.exists():
        add_vectors(run, sample, resolved.embed)
    # known domains are for comparison only: clusters never see them
    names = sorted({unit.domain for unit in units})
    if plan.draw.truth != SOURCE and names == [NONE]:
        run.warn(
            f"No unit of the sample has a string, a number or a boolean in the field "
            f"{plan.draw.truth!r}, so clusters are not compared with domains. Name another field "
            "with `draw.truth`."
        )
    if len(names) > _MAX_DOMAINS:
        run.warn(
            f"The units have {len(names):,} different domains by {plan.draw.truth}, too many to "
            f"compare clusters with ({_MAX_DOMAINS} at most). Name a field with fewer values with "
            "`draw.truth`."
        )
        names = ["all"]
    number = {name: i for i, name in enumerate(names)}
    labels = np.array([number.get(unit.domain, 0) for unit in units], np.int64)
    vectors = read_arrays(sample.vectors)[0]["vectors"]
    job = FitClusters(
        sample,
        tuple(labels.tolist()),
        len(names),
        plan.mixture.components,
        plan.mixture.steps,
        folder.fits,
    )
    tried, best = _fit(run, plan, job, len(units), vectors.shape[1])
    model = read_cluster_model(best)
    write_cluster_model(folder.model, model)
    shares = model.shares(vectors)
    cluster_of = shares.argmax(axis=1).astype(np.int64)
    coordinates = model.projection.project(vectors)[:, :2]
    write_sample(folder.sample, units, cluster_of, shares, coordinates)
    counts = confusion(cluster_of, labels, model.k, len(names))
    # empty clusters: too few different embeddings, or just too many clusters
    empty = model.k - len(np.unique(cluster_of))
    if empty:
        different = len(np.unique(vectors, axis=0))
        run.warn(
            f"{empty} of {model.k} clusters have no unit: the embeddings of the sample's "
            f"{len(units):,} units have {different:,} different values. Lower `mixture.k`, or name "
            "an encoder that knows the corpus's language with `embed.embedder`."
            if different < model.k
            else f"{empty} of {model.k} clusters have no unit. Lower `mixture.k`."
        )
    found = {
        "corpusfit": versions()["corpusfit"],
        "versions": versions(),
        "command": "clusters",
        "plan": plan.as_dict(),
        "corpus": [source_as_dict(s) for s in resolved.corpus.sources],
        "encoder": resolved.encoder,
        **({"commits": resolved.commits} if resolved.commits else {}),
        "units": len(units),
        "domains": dict(zip(names, counts.sum(axis=0).tolist(), strict=True)),
        "k": model.k,
        "tried": tried,
        "clusters": describe_clusters(units, cluster_of, shares, counts, names),
        "assigned": None,
        "warnings": run.warnings,
        "seconds": {},
    }
    write_tables(folder.path, found, units, cluster_of, coordinates)
    return found


def _draw_from_shard(
    read: ReadPlan,  # its `id_field` is the domain's field unless `truth` is source
    cut: CutPlan,
    names: tuple[str, ...],
    k: int,  # most units to draw
    seed: int,
    words: int,  # least number of words of a unit
    truth: str,  # `source`, or the name of the domain's field
    piece: tuple[Shard, int],
) -> tuple[SampledUnits[LabeledUnit], Tally]:
    """Draw the different units of a shard with the k smallest keys below a bound."""
    shard, bound = piece
    keys, units_below, sampled, tally = below(shard, bound, read, cut, names, seed)
    texts = strings(sampled, np.arange(len(sampled)))
    long = np.array([count_words(text) >= words for text in texts], np.bool_)
    texts = [text.strip() for text, keep in zip(texts, long.tolist(), strict=True) if keep]
    keys = keys[long]
    row = units_below.row[long]
    # keep the copy with the smallest key, so that the order of shards does not matter
    first: dict[str, int] = {}
    for i in np.argsort(keys, kind="stable").tolist():
        first.setdefault(texts[i], i)
    chosen = np.sort(np.fromiter(first.values(), np.int64, len(first)))
    chosen = chosen[lowest(keys[chosen], k)]
    files = [names[shard.source + i] for i in file_of(row[chosen]).tolist()]
    domains = files
    if truth != SOURCE and len(chosen):
        domains = labels_at(shard, read, row[chosen])
    units = [
        LabeledUnit(texts[i], file, int(in_file(row[i])), domain)
        for i, file, domain in zip(chosen.tolist(), files, domains, strict=True)
    ]
    return SampledUnits(shard.index, keys[chosen], units), tally


def _sample_units(
    run: Run, plan: ClustersPlan, texts: Input, folder: ClustersFolder, sample: Sample
) -> list[LabeledUnit]:
    """The sampled units in the order of their shards, stored for a resumed command."""
    path = folder.drawn / "known.json"
    if path.exists():
        return [LabeledUnit(*fields) for fields in json.loads(path.read_bytes())]
    wanted = plan.draw.per_source or plan.draw.sample
    by_source = plan.draw.per_source is not None
    k = _SPARE * wanted
    draw_plan = plan.draw
    job = partial(
        _draw_from_shard,
        plan.read,
        plan.cut,
        texts.names,
        k,
        plan.seed,
        draw_plan.words,
        draw_plan.truth,
    )

    def draw(bounds: dict[int, int]) -> tuple[dict[int, list[SampledUnits[LabeledUnit]]], Reasons]:
        """The units with the smallest keys: of each source, or of all (as source 0)."""
        groups: dict[int, list[SampledUnits[LabeledUnit]]] = {}
        rejected = Reasons()
        with run.stage("draw", texts.size):
            shards = run.shards_of(texts.sources, texts.read) if by_source else run.shards(texts)
            pieces = ((shard, bounds[shard.source]) for shard in shards)
            for part, tally in run.map(job, pieces):
                rejected.add(tally.rejects.counts())
                group = groups.setdefault(tally.source if by_source else 0, [])
                group.append(part)
                if sum(len(sampled.texts) for sampled in group) > 2 * k:
                    group[:] = merge(group, k)
        return {group: merge(parts, k) for group, parts in groups.items()}, rejected

    # keys are uniform, so a bound by size samples about as many units as wanted
    numbers = corpus.numbering(texts.sources)[0]
    sizes = dict.fromkeys(numbers, 0 if by_source else texts.size)
    for i, source in zip(numbers, texts.sources, strict=True):
        sizes[i] += source.size if by_source else 0
    bounds = {i: first_bound(size, k, plan.cut) for i, size in sizes.items()}
    by_group, rejected = draw(bounds)
    groups = {i: by_group.get(i if by_source else 0, []) for i in bounds}
    short = {i for i, group in groups.items() if len(_different(group, wanted)) < wanted}
    if any(bounds[i] < ALL for i in short):  # fewer than could be expected
        by_group, rejected = draw({i: ALL if i in short else b for i, b in bounds.items()})
    units = [unit for group in sorted(by_group) for unit in _different(by_group[group], wanted)]
    if not units:
        raise EmptyInputError(
            f"`corpus` has no unit of {plan.draw.words} words or more ({rejected}). Name the text "
            "field with `read.text_field`, or give other files to `corpus`."
        )
    sample.write_texts([unit.text for unit in units])
    write_bytes(path, json.dumps([dataclasses.astuple(unit) for unit in units]).encode())
    return units


def _different(parts: list[SampledUnits[LabeledUnit]], wanted: int) -> list[LabeledUnit]:
    """The units with the smallest keys, one per text, in the order of their shards."""
    units = [unit for part in parts for unit in part.texts]
    keys = np.concatenate([part.keys for part in parts]) if parts else np.empty(0, np.uint64)
    first: dict[str, int] = {}
    for i in np.argsort(keys, kind="stable").tolist():
        first.setdefault(units[i].text, i)
    return [units[i] for i in sorted(list(first.values())[:wanted])]


def _fit(
    run: Run, plan: ClustersPlan, job: FitClusters, n: int, width: int
) -> tuple[list[dict[str, Any]], Path]:
    """Fit every k; returns the figures of each k, and the path of the best fit."""
    numbers_of_clusters = plan.mixture.numbers()
    dimensions = min(plan.mixture.components or width, width)
    if numbers_of_clusters and numbers_of_clusters[-1] * dimensions**2 > _MAX_COVARIANCE_ENTRIES:
        raise bad_setting(
            "`mixture.k`",
            f"at most {_MAX_COVARIANCE_ENTRIES // dimensions**2} in {dimensions} dimensions, "
            "because all covariances are in memory",
            numbers_of_clusters[-1],
            "Lower `mixture.k` or `mixture.components`.",
        )
    if numbers_of_clusters and numbers_of_clusters[-1] > n:
        raise bad_setting(
            "`mixture.k`",
            f"at most {n:,}, the number of different units in the sample",
            numbers_of_clusters[-1],
            "Lower `mixture.k`, or raise `draw.sample`.",
        )
    seeds = range(plan.seed, plan.seed + plan.mixture.fits)
    numbers = numbers_of_clusters
    first = list[Fitted]()
    if not numbers_of_clusters:  # one fit per k chooses the k to fit with all seeds
        largest = max(1, n // (_UNITS_PER_DIMENSION * dimensions))
        pieces = [(k, seeds[0]) for k in TRIED if k <= largest]
        first = list(run.over("choose k", job, pieces))
        numbers = (min(first, key=_criterion).k,)
    fitted = list(run.over("fit", job, [(k, seed) for k in numbers for seed in seeds]))
    by_k = {k: sorted((f for f in fitted if f.k == k), key=lambda f: f.seed) for k in numbers}
    # EM ends in a local optimum, so the likeliest of several fits counts
    likeliest = [max(fits, key=lambda f: f.likelihood) for fits in by_k.values()]
    best = min(likeliest, key=_criterion)
    slow = sum(not f.converged for f in fitted)
    if slow:
        run.warn(
            f"{slow} of {len(fitted)} fits did not converge in {plan.mixture.steps} steps. Allow "
            f"more with `mixture.steps={2 * plan.mixture.steps}`."
        )
    others = [_figures([f], job.t) for f in first if f.k not in numbers]
    tried = [*others, *(_figures(fits, job.t) for fits in by_k.values())]
    return sorted(tried, key=lambda row: row["k"]), job.path(best.k, best.seed)


def _criterion(fit: Fitted) -> tuple[float, int]:
    """Sort key of a fit: BIC (lower is better), then fewer clusters."""
    return (fit.bic, fit.k)


def _figures(fits: Sequence[Fitted], t: int) -> dict[str, Any]:
    """Figures over several fits of one k; no purity if there is one domain."""
    pure = [purity(fit.counts) for fit in fits]
    best = min(fits, key=_criterion)
    return {
        "k": fits[0].k,
        "fits": len(fits),
        "purity": float(np.mean(pure)) if t > 1 else None,
        "deviation": float(np.std(pure)) if t > 1 and len(pure) > 1 else None,
        "likelihood": best.likelihood,
        "bic": best.bic,
    }
