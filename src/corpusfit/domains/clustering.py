"""The command `clusters`: finds the domains of a corpus without labels."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from corpusfit import text as corpus
from corpusfit.core.artifacts import read_arrays
from corpusfit.core.errors import bad_setting
from corpusfit.core.lock import locked
from corpusfit.core.manifest import Finished, source_as_dict, source_identity, versions
from corpusfit.core.plan import AUTO
from corpusfit.domains.cluster_contents import described, outliers, write_sample
from corpusfit.domains.cluster_sample import draw_units
from corpusfit.domains.clusters_job import Baseline, FitDomains, Fitted, Known, TrainWords
from corpusfit.domains.domains import read_domains, write_domains
from corpusfit.domains.folder import ClustersFolder
from corpusfit.domains.plan import ClustersPlan
from corpusfit.domains.proximity import proximity
from corpusfit.domains.purity import confusion, purity
from corpusfit.embed.minilm import default_embedder
from corpusfit.scoring.contract import SOURCE
from corpusfit.selection.corpus_embedding import add_vectors, assign
from corpusfit.selection.fit import PrepareEncoder, Sample
from corpusfit.selection.labels_job import NONE
from corpusfit.text.context import Machine, Run
from corpusfit.text.pair_languages import sampled, warn_english_only, with_side
from corpusfit.text.reproduce import absolute, command_words

TRIED = (1, 2, 3, 4, 5, 6, 8, 10, 12, 15, 20, 25, 30)
"""Numbers of clusters that BIC chooses from."""

_UNITS_PER_DIMENSION = 2
"""Least number of units per dimension of each cluster: with fewer, a cluster's covariance is
singular, its likelihood unbounded, and BIC meaningless."""

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
    """
    plan = plan.check()
    if plan.embed.embedder == AUTO:
        plan = plan.with_value("embed.embedder", default_embedder())
    if plan.draw.truth != SOURCE:
        read = dataclasses.replace(plan.read, id_field=plan.draw.truth)
        plan = dataclasses.replace(plan, read=read)
    folder = ClustersFolder(out)
    folder.claim()
    with contextlib.ExitStack() as stack, machine.running(folder.work) as context:
        sources = context.find(corpus_inputs, plan.read, "corpus")
        stack.enter_context(locked(folder.work, "clusters", make=True))
        texts = sampled(sources, plan.read)
        read = with_side(plan.read, plan.embed.embedder, machine.progress.note, texts)
        plan = dataclasses.replace(plan, read=read)
        run = Run.of(context, plan.reading(), [], sources)
        run.engine.require_shared(run.cache, "`cache`")
        with run.stage("prepare encoder"):
            run.encoder = run.one(PrepareEncoder(run.cache), plan.embed)
        folder.begin(_identity(plan, run), overwrite=overwrite)
        run.engine.require_shared(folder.work, "`out`")
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
    settings = {**plan.as_dict(), "read": plan.read.stated()}
    del settings["read"]["strict"]
    return {
        "command": "clusters",
        **settings,
        "corpus": source_identity(run.sources),
        **corpus.layout(run.sources, run.plan.read),
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
    warn_english_only(plan.embed.embedder, run.sources, plan.read, "the corpus", run.warn)
    sample = Sample(folder.drawn, "sample")
    units = draw_units(plan, run, folder, sample)
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
    write_sample(folder.sample, units, of, shares, domains.projection.place(vectors)[:, :2])
    counts = confusion(of, known, domains.k, len(names))
    empty = domains.k - len(np.unique(of))
    if empty:
        different = len(np.unique(vectors, axis=0))
        run.warn(
            f"{empty} of {domains.k} clusters have no unit: the embeddings of the sample's "
            f"{len(units):,} units have {different:,} different values. Lower `mixture.k`, or name "
            "an encoder that knows the corpus's language with `embed.embedder`."
            if different < domains.k
            else f"{empty} of {domains.k} clusters have no unit. Lower `mixture.k`."
        )
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
        "clusters": described(units, of, shares, domains, counts, names),
        "outliers": outliers(units, of, known, counts, names),
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
            "compared with domains. Name another field with `draw.truth`."
        )
    if len(names) <= _DOMAINS:
        return names
    run.warn(
        f"The units have {len(names):,} different domains by {plan.draw.truth}, too many to "
        f"compare clusters with ({_DOMAINS} at most). Name a field with fewer values with "
        "`draw.truth`."
    )
    return ["all"]


_DOMAINS = 200
"""Most known domains that clusters are compared with."""


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
            "`mixture.k`",
            f"at most {_NUMBERS // dimensions**2} in {dimensions} dimensions, because all "
            "covariances are in memory",
            asked[-1],
            "Lower `mixture.k` or `mixture.components`.",
        )
    if asked and asked[-1] > n:
        raise bad_setting(
            "`mixture.k`",
            f"at most {n:,}, the number of different units in the sample",
            asked[-1],
            "Lower `mixture.k`, or raise `draw.sample`.",
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
            f"more with `mixture.steps={2 * plan.mixture.steps}`."
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
    """Purity of the baselines (random, LDA, word2vec) for each k."""
    if not plan.mixture.baselines or t < 2:
        return []
    numbers = plan.mixture.numbers() or (k,)
    seeds = range(plan.seed, plan.seed + plan.mixture.fits)
    domains = tuple(known.tolist())
    pieces = [(which, k, s) for which in ("random", "lda") for k in numbers for s in seeds]
    done = list(run.over("baselines", Baseline(sample, domains, t), pieces))
    words = Sample(folder.drawn, "words")
    if not words.vectors.exists():
        with run.stage("word2vec"):
            run.one(TrainWords(sample), (words, plan.seed))
    job = FitDomains(
        words, domains, t, plan.mixture.components, plan.mixture.steps, folder.fits / "words"
    )
    of_words = run.over("word2vec", job, [(k, seed) for k in numbers for seed in seeds])
    done += [("word2vec", fit) for fit in of_words]
    return [
        {"of": which, **_figures([f for name, f in done if name == which and f.k == number], t)}
        for which in ("random", "lda", "word2vec")
        for number in numbers
    ]
