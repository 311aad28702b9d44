"""Decides `--method auto` and `--fraction auto` by held-out bits."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from corpusfit.core.artifacts import write_bytes
from corpusfit.core.manifest import digest, read_kept, versions
from corpusfit.core.plan import DEFAULT_FRACTION, MethodPlan
from corpusfit.kernels.chance import bottom_k
from corpusfit.kernels.characters import VERSION as TOKENS
from corpusfit.scoring import registry
from corpusfit.scoring.contract import Method
from corpusfit.scoring.heldout_bits import compare
from corpusfit.selection.embedding import require_vectors
from corpusfit.selection.fit import Sample
from corpusfit.selection.folder import SelectionFolder, tallies
from corpusfit.selection.ranking import BASELINE, EvaluateBits, Ranked, evaluate, rank_methods
from corpusfit.selection.resolving import check_fraction
from corpusfit.selection.samples import read_background
from corpusfit.text.context import Run

CONTENDERS = ("dsir", "moore_lewis", "cynical", "bm25", "betr", "domain_classifier", "knn")
"""The candidates of `auto`, cheapest first: on words, then on embeddings by the time of their fit.

Of methods that held-out bits do not distinguish, `auto` takes the first in this order.
"""
FALLBACK = ("cynical", "moore_lewis")
"""What `auto` takes without a verdict: the first that it may use (`alone`: not `cynical`)."""


class Pick(NamedTuple):
    """The choice of `auto`, and the reason, a sentence."""

    method: MethodPlan
    reason: str


def contenders(*, alone: bool = False) -> list[str]:
    """The candidates of `auto`; with `alone`, those that score each unit on its own."""
    return [n for n in CONTENDERS if not alone or issubclass(registry.load(n), Method)]


def pick(
    run: Run, folder: SelectionFolder, target: Sample, background: Sample, *, alone: bool = False
) -> Pick:
    """The method that `auto` uses: the one with the fewest held-out bits a word."""
    # Of the methods whose bits are not distinguishable from the best one's it takes the cheapest,
    # by the order of `CONTENDERS`. The ranking is stored in the run's folder.
    path = folder.fit / "ranking.json"
    if not path.exists():
        write_bytes(path, json.dumps(_ranking(run, target, background, alone=alone)).encode())
    return decide_by_bits(ranking_of(folder), contenders(alone=alone))


def _ranking(run: Run, target: Sample, background: Sample, *, alone: bool) -> list[dict[str, Any]]:
    """The ranking of the candidates; kept in the cache for the next command on the same samples."""
    names = contenders(alone=alone)
    # everything that decides the ranking is part of the cache key
    content = [sample.texts.read_bytes() for sample in (target, background)]
    identity = {
        "samples": [hashlib.sha256(data).hexdigest() for data in content],
        "names": names,
        "encoders": [run.encoder, run.encoders],
        "seed": run.plan.seed,
        "normalized": run.plan.fit.normalize,
        "version": [versions()["corpusfit"], TOKENS],
    }
    cached = run.cache / "rankings" / f"{digest(identity)}.json"
    fields = {field.name for field in dataclasses.fields(Ranked)}
    stored = read_kept(
        cached,
        lambda value: (
            isinstance(value["warnings"], list)
            and all(verdict.keys() == fields for verdict in value["ranking"])
        ),
    )
    if stored is not None:
        run.progress.note(
            "The ranking of methods is from the cache: the same target and sample of the corpus."
        )
        for warning in stored["warnings"]:
            run.warn(warning)
        ranking: list[dict[str, Any]] = stored["ranking"]
        return ranking
    earlier = len(run.warnings)
    if any(registry.build(name, {}).encodes for name in names):
        require_vectors(run, target, background)
    verdicts = rank_methods(run, names, target, background, 0, named=False)
    ranking = [dataclasses.asdict(v) for v in verdicts]
    stored = {"ranking": ranking, "warnings": run.warnings[earlier:]}
    write_bytes(cached, json.dumps(stored).encode())
    return ranking


def decide_by_bits(ranking: Sequence[Mapping[str, Any]], names: Sequence[str]) -> Pick:
    """Decide by a ranking."""
    rows = {v["method"]: v for v in ranking}
    candidates = [rows[name] for name in names if name in rows]
    if not candidates or candidates[0]["bits"] is None:
        name = next(n for n in FALLBACK if n in names)
        why = "because too few texts of the target are left to compare methods on"
        return Pick(MethodPlan(name), f"auto uses {name}, {why}.")
    used = next(v for v in candidates if v["behind"][1] <= 0)
    others = sorted((v for v in candidates if v is not used), key=lambda v: v["bits"])

    def beside(other: Mapping[str, Any]) -> str:
        bits = used["bits"] - other["bits"]
        return f"{abs(bits):.2f} {'more' if bits > 0 else 'fewer'} than {other['method']}"

    compared = [beside(rows[BASELINE])]
    if others:  # one of the two is the best of all, and the other has an interval
        _, low, high = max(used["behind"], others[0]["behind"])
        interval = " to ".join(f"{round(bound, 2) + 0.0:.2f}" for bound in (low, high))
        if low <= 0:
            interval += f": not distinguishable, and {others[0]['method']} takes longer per GB"
        compared.insert(0, f"{beside(others[0])} (95 % interval {interval})")
    reason = f"auto uses {used['method']}: {used['bits']:.2f} bits per word on held-out target text"
    return Pick(MethodPlan(used["method"]), f"{reason}, {' and '.join(compared)}.")


def ranking_of(folder: SelectionFolder) -> list[dict[str, Any]]:
    """The ranking behind `auto`, as plain values; empty if the user named a method."""
    path = folder.fit / "ranking.json"
    ranking: list[dict[str, Any]] = json.loads(path.read_bytes()) if path.exists() else []
    return ranking


GRID = tuple(float(f) for f in np.geomspace(0.01, 1, 13).round(3))
"""Shares of the words of the corpus sample that are tried."""


def decide_fraction(run: Run, folder: SelectionFolder, used: MethodPlan) -> dict[str, Any]:
    """The smallest share whose held-out bits are not distinguishable from the fewest."""
    # Folds, fits and bits are as for `auto`, on the target and the corpus sample that the run
    # stored. The result is stored in the run's folder.
    check_fraction(run.plan.choose, used)
    path = folder.fit / "amount.json"
    if not path.exists():
        write_bytes(path, json.dumps(_decided(run, folder, used)).encode())
    decision: dict[str, Any] = json.loads(path.read_bytes())
    return decision


def _decided(run: Run, folder: SelectionFolder, used: MethodPlan) -> dict[str, Any]:
    target, background = Sample(folder.fit, "target"), Sample(folder.fit, "background")
    if not background.texts.exists():  # scores of an earlier version
        units = ((shard, tally.units) for shard, tally in tallies(folder))
        read_background(run, background, bottom_k(units, run.plan.fit.background, run.plan.seed))
    plan = run.plan
    job = EvaluateBits(target, background, GRID, plan.seed, plan.fit.normalize, named=True)
    held = job.held()
    with run.stage("evaluate amounts", held.count):
        evaluation = evaluate(run, job, held, [used], {})
    why = "because too few texts of the target are left to compare amounts on"
    if used.name in evaluation.unfit:  # on a part of the target, such as one without words
        why = f"because amounts cannot be compared: {used.name} {evaluation.unfit[used.name]}"
    if used.name not in evaluation.folds:
        reason = f"auto selects {_percent(DEFAULT_FRACTION)}, the default, {why}."
        return {"fraction": DEFAULT_FRACTION, "reason": reason, "curve": []}
    names = [f"{i:02d}" for i in range(len(GRID))]
    sums = dict(zip(names, evaluation.bits(used.name), strict=True))
    by_amount = {b.method: b for b in compare(held, sums, seed=run.plan.seed)}
    curve = [
        {
            "fraction": share,
            "bits": by_amount[name].bits,
            **dict(zip(("behind", "low", "high"), by_amount[name].behind, strict=True)),
        }
        for name, share in zip(names, GRID, strict=True)
    ]
    chosen = next(p for p in curve if p["low"] <= 0)
    fewest = min(curve, key=lambda p: (p["behind"], p["fraction"]))
    reason = (
        f"auto selects {_percent(chosen['fraction'])}: {chosen['bits']:.2f} bits per "
        "word on held-out target text"
    )
    if chosen["fraction"] == fewest["fraction"]:
        reason += f", the fewest of {len(curve)} amounts."
    else:
        reason += (
            f", not distinguishable from the fewest, {fewest['bits']:.2f} at "
            f"{_percent(fewest['fraction'])} (95 % interval of the difference {chosen['low']:.2f} "
            f"to {chosen['high']:.2f})."
        )
    return {"fraction": chosen["fraction"], "reason": reason, "curve": curve}


def _percent(fraction: float) -> str:
    return f"{100 * fraction:g} % of the text"
