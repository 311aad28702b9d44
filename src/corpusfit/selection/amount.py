"""Decides `--fraction auto`: held-out bits against the amount that is selected."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from corpusfit.core.artifacts import write_bytes
from corpusfit.core.errors import bad_setting
from corpusfit.core.plan import AUTO, DEFAULT_FRACTION, ChoosePlan, MethodPlan
from corpusfit.kernels.chance import bottom_k
from corpusfit.scoring import registry
from corpusfit.scoring.contract import LabelMethod
from corpusfit.scoring.heldout_bits import compare
from corpusfit.selection.bits import evaluate
from corpusfit.selection.bits_job import EvaluateBits
from corpusfit.selection.fit import Sample
from corpusfit.selection.folder import SelectionFolder
from corpusfit.selection.samples import read_background
from corpusfit.selection.scoring import tallies
from corpusfit.text.context import Run

GRID = tuple(float(f) for f in np.geomspace(0.01, 1, 13).round(3))
"""Shares of the words of the corpus sample that are tried."""


def decide_fraction(run: Run, folder: SelectionFolder, used: MethodPlan) -> dict[str, Any]:
    """The smallest share whose held-out bits are not distinguishable from the fewest.

    Folds, fits and bits are as for `auto`, on the target and the corpus sample that the run stored.
    The result is stored in the run's folder.
    """
    check_fraction(run.plan.choose, used)
    path = folder.fit / "amount.json"
    if not path.exists():
        write_bytes(path, json.dumps(_decided(run, folder, used)).encode())
    found: dict[str, Any] = json.loads(path.read_bytes())
    return found


def check_fraction(amount: ChoosePlan, used: MethodPlan) -> None:
    """Check that the amount can be decided for a method."""
    if amount.fraction != AUTO or used.name == "auto":
        return
    method = registry.load(used.name)
    if issubclass(method, LabelMethod) or not method.exact:
        raise bad_setting(
            "`choose.fraction`",
            f"a number with {used.name}",
            AUTO,
            "auto is for methods that score texts and train no network.",
        )


def _decided(run: Run, folder: SelectionFolder, used: MethodPlan) -> dict[str, Any]:
    target, background = Sample(folder.fit, "target"), Sample(folder.fit, "background")
    if not background.texts.exists():  # scores of an earlier version
        units = ((shard, tally.units) for shard, tally in tallies(folder))
        read_background(run, background, bottom_k(units, run.plan.fit.background, run.plan.seed))
    job = EvaluateBits.of(run.plan, target, background, GRID, named=True)
    held = job.held()
    with run.stage("evaluate amounts", held.count):
        evaluation = evaluate(run, job, held, [used], {})
    if evaluation.held is None:
        why = "because too few texts of the target are left to compare amounts on"
        reason = f"auto selects {_percent(DEFAULT_FRACTION)}, the default, {why}."
        return {"fraction": DEFAULT_FRACTION, "reason": reason, "curve": []}
    names = [f"{i:02d}" for i in range(len(GRID))]
    sums = dict(zip(names, evaluation.bits(used.name), strict=True))
    found = {b.method: b for b in compare(held, sums, seed=run.plan.seed)}
    curve = [
        {
            "fraction": share,
            "bits": found[name].bits,
            **dict(zip(("behind", "low", "high"), found[name].behind, strict=True)),
        }
        for name, share in zip(names, GRID, strict=True)
    ]
    chosen = next(p for p in curve if p["low"] <= 0)
    return {"fraction": chosen["fraction"], "reason": _reason(chosen, curve), "curve": curve}


def _reason(chosen: Mapping[str, float], curve: list[dict[str, float]]) -> str:
    """The decision in a sentence."""
    fewest = min(curve, key=lambda p: (p["behind"], p["fraction"]))
    said = (
        f"auto selects {_percent(chosen['fraction'])}: {chosen['bits']:.2f} bits per "
        "word on held-out target text"
    )
    if chosen["fraction"] == fewest["fraction"]:
        return f"{said}, the fewest of {len(curve)} amounts."
    return (
        f"{said}, not distinguishable from the fewest, {fewest['bits']:.2f} at "
        f"{_percent(fewest['fraction'])} (95 % interval of the difference {chosen['low']:.2f} to "
        f"{chosen['high']:.2f})."
    )


def _percent(fraction: float) -> str:
    return f"{100 * fraction:g} % of the text"
