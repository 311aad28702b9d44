"""The command `clusters`: finds the domains of a corpus without labels."""

from __future__ import annotations

import dataclasses
import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from corpusfit.artifacts import read_arrays, write_bytes
from corpusfit.errors import EmptyInputError, bad_setting
from corpusfit.explore.domains import Domains, read_domains, write_domains
from corpusfit.explore.folder import ClustersFolder
from corpusfit.explore.plan import ClustersPlan
from corpusfit.explore.proximity import proximity
from corpusfit.explore.purity import confusion, majority, purity
from corpusfit.explore.traits import own_words, traits
from corpusfit.jobs.clusters import (
    Baseline,
    DrawKnown,
    FitDomains,
    Fitted,
    Known,
)
from corpusfit.jobs.fit import PrepareEncoder, Sample
from corpusfit.jobs.labels import NONE
from corpusfit.jobs.reading import Reasons
from corpusfit.jobs.sample import ALL, Drawn, first_bound, merge
from corpusfit.manifest import Finished, source_as_dict, source_identity, versions
from corpusfit.score.contract import SOURCE
from corpusfit.score.table import write_parquet
from corpusfit.workflows.context import Machine, Run
from corpusfit.workflows.corpus_embedding import add_vectors, assign
from corpusfit.workflows.reproduce import absolute, command_words

TRIED = (1, 2, 3, 4, 5, 6, 8, 10, 12, 15, 20, 25, 30)
"""Numbers of clusters that BIC chooses from."""

_UNITS_PER_DIMENSION = 2
"""Least number of units per dimension of each cluster: with fewer, a cluster's covariance is
singular, its likelihood unbounded, and BIC meaningless."""

WORD_VECTORS = "static"
"""The embedder used as averaged word vectors: the mean of its words' vectors."""

_SPARE = 2
"""Units drawn per unit wanted, so that copies can be left out."""

_EXAMPLES, _LONGEST = 5, 2_000
"""Example units per cluster or pair of domains, and characters of each."""

_NUMBERS = 2**26
"""Most numbers in the covariances of all clusters: half a GB, and several copies are in memory."""


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

    Args:
        plan: every setting that can change the result.
        corpus_inputs: files, folders, globs, URLs or `hub:NAME` datasets.
        out: a new or empty folder, or one of the same run to resume.
        assign_all: also write the shares of each cluster in every segment of the corpus.
        machine: where it runs.
        overwrite: replace a different run in `out`.

    Raises:
        EmptyInputError: the corpus has no usable unit.
        UsageError: there are more clusters than units.
        CorpusfitError: see `errors.py`.
    """
    plan = plan.check()
    if plan.draw.truth != SOURCE:
        read = dataclasses.replace(plan.read, id_field=plan.draw.truth)
        plan = dataclasses.replace(plan, read=read)
    folder = ClustersFolder(out)
    folder.claim()
    with machine.running(folder.work) as context:
        sources = context.find(corpus_inputs, plan.read, "corpus")
        run = Run.of(context, plan.reading(), [], sources)
        run.engine.require_shared(run.cache, "<.cache>")
        with run.stage("prepare encoder"):
            run.encoder = run.one(PrepareEncoder(run.cache), plan.embed)
        folder.begin(_identity(plan, run), overwrite=overwrite)
        run.engine.require_shared(folder.work, "<.out>")
        manifest = folder.finished()
        if manifest is None:
            manifest = _find(plan, run, folder)
            manifest["given"] = absolute(corpus_inputs)
        elif bool(manifest["assigned"]) or not assign_all:
            return Clustered(out, manifest)
        if assign_all:
            folder.reopen()
            manifest["assigned"] = assign(
                run, folder.domains, folder.assigned, plan.cut.gamma, plan.embed, run.encoder
            )
        run.require_unchanged()
        inputs = {"corpus": manifest["given"]}
        repeat = command_words("clusters", inputs, {}, _overrides(plan))
        repeat += ["--assign"] if manifest["assigned"] else []
        seconds = {**manifest["seconds"], **run.seconds}
        folder.finish({**manifest, "repeat": repeat, "seconds": seconds})
    return Clustered(out, {**manifest, "repeat": repeat, "seconds": seconds})


def _identity(plan: ClustersPlan, run: Run) -> dict[str, Any]:
    """What must be the same for a run to be resumed."""
    settings = plan.as_dict()
    del settings["read"]["strict"]
    return {
        "command": "clusters",
        **settings,
        "corpus": source_identity(run.sources),
        "encoder": run.encoder,
        "versions": {"corpusfit": versions()["corpusfit"]},
    }


def _overrides(plan: ClustersPlan) -> list[str]:
    """The settings as the user gave them, without the id field that `--truth` sets."""
    if plan.draw.truth == SOURCE:
        return plan.overrides()
    plain = dataclasses.replace(plan.read, id_field=ClustersPlan().read.id_field)
    return dataclasses.replace(plan, read=plain).overrides()


def _find(plan: ClustersPlan, run: Run, folder: ClustersFolder) -> dict[str, Any]:
    """Draw, fit and describe; returns the manifest."""
    sample = Sample(folder.drawn, "sample")
    units = _drawn(plan, run, folder, sample)
    if not sample.vectors.exists():
        add_vectors(run, sample)
    names = _domains(run, plan, units)
    number = {name: i for i, name in enumerate(names)}
    known = np.array([number.get(unit.domain, 0) for unit in units], np.int64)
    vectors = read_arrays(sample.vectors)[0]["vectors"]
    tried, best = _fit(plan, run, sample, vectors.shape[1], known, len(names), folder)
    domains = read_domains(best)
    write_domains(folder.domains, domains)
    shares = domains.shares(vectors)
    of = shares.argmax(axis=1).astype(np.int64)
    _write_sample(folder.sample, units, of, shares, domains.projection.place(vectors)[:, :2])
    counts = confusion(of, known, domains.k, len(names))
    baselines = _baselines(plan, run, sample, known, len(names), domains.k, folder)
    return {
        "corpusfit": versions()["corpusfit"],
        "versions": versions(),
        "command": "clusters",
        "plan": plan.as_dict(),
        "corpus": [source_as_dict(s) for s in run.sources],
        "encoder": run.encoder,
        "units": len(units),
        "domains": {
            name: int(n) for name, n in zip(names, counts.sum(axis=0).tolist(), strict=True)
        },
        "k": domains.k,
        "tried": tried,
        "baselines": baselines,
        "clusters": _described(units, of, shares, domains, counts, names),
        "outliers": _outliers(units, of, known, counts, names),
        "proximity": np.round(proximity(vectors, known, len(names)), 4).tolist(),
        "ellipses": [np.round(e, 4).tolist() for e in domains.ellipses()],
        "assigned": None,
        "warnings": run.warnings,
        "seconds": {},
    }


def _domains(run: Run, plan: ClustersPlan, units: Sequence[Known]) -> list[str]:
    """The names of the known domains; one for all if there are too many."""
    names = sorted({unit.domain for unit in units})
    if plan.draw.truth != SOURCE and names == [NONE]:
        run.warn(
            f"No unit of the sample has the field {plan.draw.truth!r}, so clusters are not "
            "compared with domains. Name another field with --truth."
        )
    if len(names) <= _DOMAINS:
        return names
    run.warn(
        f"The units have {len(names):,} different domains by {plan.draw.truth}, too many to "
        f"compare clusters with ({_DOMAINS} at most). Name a field with fewer values with --truth."
    )
    return ["all"]


_DOMAINS = 200
"""Most known domains that clusters are compared with."""


def _drawn(plan: ClustersPlan, run: Run, folder: ClustersFolder, sample: Sample) -> list[Known]:
    """The sampled units in the order of their shards, stored for a resumed command."""
    path = folder.drawn / "known.json"
    if path.exists():
        return [Known(*fields) for fields in json.loads(path.read_bytes())]
    wanted = plan.draw.per_source or plan.draw.sample
    by_source = plan.draw.per_source is not None
    spare = _SPARE * wanted
    job = DrawKnown(
        plan.read, plan.cut, run.names, spare, plan.seed, plan.draw.words, plan.draw.truth
    )
    sizes = {i: s.size if by_source else run.size for i, s in enumerate(run.sources)}
    bounds = {i: first_bound(size, spare, plan.cut) for i, size in sizes.items()}
    found, rejected = _below(run, job, bounds, by_source=by_source)
    groups = {i: found.get(i if by_source else 0, []) for i in bounds}
    short = {i for i, group in groups.items() if len(_different(group, wanted)) < wanted}
    if any(bounds[i] < ALL for i in short):  # fewer than could be expected
        found, rejected = _below(
            run, job, {i: ALL if i in short else b for i, b in bounds.items()}, by_source=by_source
        )
    units = [unit for group in sorted(found) for unit in _different(found[group], wanted)]
    if not units:
        raise EmptyInputError(
            f"<.corpus> has no unit of {plan.draw.words} words or more ({rejected}). Name the text "
            "field with <read.text_field>, or give other files to <.corpus>."
        )
    sample.write_texts([unit.text for unit in units])
    write_bytes(path, json.dumps([dataclasses.astuple(unit) for unit in units]).encode())
    return units


def _below(
    run: Run, job: DrawKnown, bounds: dict[int, int], *, by_source: bool
) -> tuple[dict[int, list[Drawn[Known]]], Reasons]:
    """The units with the smallest keys: of each source, or of all (as source 0)."""
    found: dict[int, list[Drawn[Known]]] = {}
    rejected = Reasons()
    with run.stage("draw", run.size):
        pieces = ((shard, bounds[shard.source]) for shard in run.shards())
        for part, tally in run.engine.map(job, pieces):
            rejected.add(tally.rejects)
            group = found.setdefault(tally.source if by_source else 0, [])
            group.append(part)
            if sum(len(drawn.texts) for drawn in group) > 2 * job.k:
                group[:] = merge(group, job.k)
    return {group: merge(parts, job.k) for group, parts in found.items()}, rejected


def _different(parts: list[Drawn[Known]], wanted: int) -> list[Known]:
    """The units with the smallest keys, one per text, in the order of their shards."""
    units = [unit for part in parts for unit in part.texts]
    keys = np.concatenate([part.keys for part in parts]) if parts else np.empty(0, np.uint64)
    first: dict[str, int] = {}
    for place in np.argsort(keys, kind="stable").tolist():
        first.setdefault(units[place].text, place)
    return [units[place] for place in sorted(list(first.values())[:wanted])]


def _fit(
    plan: ClustersPlan,
    run: Run,
    sample: Sample,
    width: int,
    known: NDArray[np.int64],
    t: int,
    folder: ClustersFolder,
) -> tuple[list[dict[str, Any]], Path]:
    """Fit every k; returns the figures of each k, and the path of the best fit."""
    n, asked = len(known), plan.mixture.numbers()
    dimensions = min(plan.mixture.components or width, width)
    if asked and asked[-1] * dimensions**2 > _NUMBERS:
        raise bad_setting(
            "<mixture.k>",
            f"at most {_NUMBERS // dimensions**2} in {dimensions} dimensions, because all "
            "covariances are in memory",
            asked[-1],
            "Lower <mixture.k> or <mixture.components>.",
        )
    if asked and asked[-1] > n:
        raise bad_setting(
            "<mixture.k>",
            f"at most {n:,}, the number of different units in the sample",
            asked[-1],
            "Lower <mixture.k>, or raise <draw.sample>.",
        )
    job = FitDomains(
        sample, tuple(known.tolist()), t, plan.mixture.components, plan.mixture.steps, folder.fits
    )
    seeds = range(plan.seed, plan.seed + plan.mixture.fits)
    largest = max(1, n // (_UNITS_PER_DIMENSION * dimensions))
    numbers = asked or tuple(k for k in TRIED if k <= largest)
    first = list(run.over("choose k", job, [(k, seeds[0]) for k in numbers])) if not asked else []
    if not asked:
        numbers = (min(first, key=_criterion).k,)
    fitted = list(run.over("fit", job, [(k, seed) for k in numbers for seed in seeds]))
    by_k = {k: sorted((f for f in fitted if f.k == k), key=lambda f: f.seed) for k in numbers}
    likeliest = {k: max(fits, key=lambda f: f.likelihood or 0.0) for k, fits in by_k.items()}
    best = min(likeliest.values(), key=_criterion)
    slow = sum(not f.converged for f in fitted)
    if slow:
        run.warn(
            f"{slow} of {len(fitted)} fits did not converge in {plan.mixture.steps} steps. Allow "
            f"more with --set mixture.steps={2 * plan.mixture.steps}."
        )
    others = [_figures([f], t) for f in first if f.k not in numbers]
    tried = [*others, *(_figures(fits, t) for fits in by_k.values())]
    return sorted(tried, key=lambda row: row["k"]), job.path(best.k, best.seed)


def _criterion(fit: Fitted) -> tuple[float, int]:
    """Sort key of a fit: BIC (lower is better), then fewer clusters."""
    return (fit.bic if fit.bic is not None else 0.0, fit.k)


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


def _baselines(
    plan: ClustersPlan,
    run: Run,
    sample: Sample,
    known: NDArray[np.int64],
    t: int,
    k: int,
    folder: ClustersFolder,
) -> list[dict[str, Any]]:
    """Purity of the baselines (random, LDA, word vectors) for each k."""
    if not plan.mixture.baselines or t < 2:
        return []
    numbers = plan.mixture.numbers() or (k,)
    seeds = range(plan.seed, plan.seed + plan.mixture.fits)
    domains = tuple(known.tolist())
    pieces = [(which, k, s) for which in ("random", "lda") for k in numbers for s in seeds]
    done = list(run.over("baselines", Baseline(sample, domains, t), pieces))
    words = Sample(folder.drawn, "words")
    words.write_texts(sample.read_texts())
    static = dataclasses.replace(plan.embed, embedder=WORD_VECTORS)
    with run.stage("prepare encoder"):
        run.one(PrepareEncoder(run.cache), static)
    add_vectors(run, words, static)
    job = FitDomains(
        words, domains, t, plan.mixture.components, plan.mixture.steps, folder.fits / "words"
    )
    of_words = run.over("word vectors", job, [(k, seed) for k in numbers for seed in seeds])
    done += [("word vectors", fit) for fit in of_words]
    return [
        {"of": which, **_figures([f for name, f in done if name == which and f.k == number], t)}
        for which in ("random", "lda", "word vectors")
        for number in numbers
    ]


def _described(
    units: Sequence[Known],
    of: NDArray[np.int64],
    shares: NDArray[np.float32],
    domains: Domains,
    counts: NDArray[np.int64],
    names: Sequence[str],
) -> list[dict[str, Any]]:
    """Each cluster: its size, domains, words and most typical units."""
    words = own_words((unit.text for unit in units), of, domains.k)
    found = []
    for number in range(domains.k):
        inside = np.flatnonzero(of == number)
        surest = inside[np.argsort(-shares[inside, number], kind="stable")]
        typical = sorted(surest[: 40 * _EXAMPLES].tolist(), key=lambda i: -len(units[i].text))
        named = zip(names, counts[number], strict=True)
        by_domain = Counter({name: int(n) for name, n in named if n})
        found.append(
            {
                "cluster": number + 1,
                "units": len(inside),
                "share": float(shares[:, number].mean(dtype=np.float64)),
                "words": words[number],
                "domains": dict(by_domain.most_common()),
                "examples": [units[i].text[:_LONGEST] for i in typical[:_EXAMPLES]],
            }
        )
    return found


def _outliers(
    units: Sequence[Known],
    of: NDArray[np.int64],
    known: NDArray[np.int64],
    counts: NDArray[np.int64],
    names: Sequence[str],
) -> dict[str, Any] | None:
    """Units in a cluster of another domain, and their common traits (Table 2)."""
    if len(names) < 2:
        return None
    taken_for = majority(counts)[of]
    outside = np.flatnonzero(taken_for != known)
    texts = [unit.text for unit in units]
    pairs: dict[tuple[int, int], list[str]] = {}
    attracted: dict[int, list[str]] = {}
    for place, own, other in zip(
        outside.tolist(), known[outside].tolist(), taken_for[outside].tolist(), strict=True
    ):
        pairs.setdefault((own, other), []).append(texts[place])
        attracted.setdefault(other, []).append(texts[place])
    return {
        "all": dataclasses.asdict(traits(texts)),
        "outliers": dataclasses.asdict(traits([texts[i] for i in outside])),
        "attracted": [
            {"domain": names[other], **dataclasses.asdict(traits(attracted[other]))}
            for other in sorted(attracted)
        ],
        "pairs": [
            {
                "domain": names[own],
                "taken_for": names[other],
                "texts": len(found),
                "examples": [text[:_LONGEST] for text in found[:_EXAMPLES]],
            }
            for (own, other), found in sorted(pairs.items(), key=lambda p: (-len(p[1]), p[0]))
        ],
    }


def _write_sample(
    path: Path,
    units: Sequence[Known],
    of: NDArray[np.int64],
    shares: NDArray[np.float32],
    places: NDArray[np.float32],
) -> None:
    """Write the units with their clusters (from 1), shares and places on the map."""
    places = np.pad(places, ((0, 0), (0, 2 - places.shape[1])))
    rows = [
        {
            **dataclasses.asdict(unit),
            "cluster": int(cluster) + 1,
            "shares": own.tolist(),
            "x": float(place[0]),
            "y": float(place[1]),
        }
        for unit, cluster, own, place in zip(units, of, shares, places, strict=True)
    ]
    write_parquet(path, pa.Table.from_pylist(rows))
