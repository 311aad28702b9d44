"""Average precision of every method for a target's domain, on words and on two encoders.

For `auto`: the method that held-out bits make it use, its bits and its average precision. Slow
methods (graphs, PyOD, fine-tuning) and the decisions of `auto` have one seed.
Reference: Aharoni and Goldberg (2020), section 4.4; TADPOLE, section 3.1.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import Any

import numpy as np

import data
from corpusfit.core.plan import MethodPlan
from corpusfit.core.types import Paired, read_as, take_units
from corpusfit.scoring import registry
from corpusfit.scoring.contract import LabelMethod
from corpusfit.scoring.heldout_bits import compare, fit_to_sample, held_out
from corpusfit.scoring.names import names as method_names
from corpusfit.selection import auto
from corpusfit.selection.ranking import BASELINE
from data import ENCODERS, TARGETS, Setting
from measure import average_precision, scored
from report import Report, cell, first, of_seeds, percent, spread, standing, table

PYOD = "pyod:HBOS"
"""One of PyOD's detectors; others, as ECOD, take minutes for a target of 384 dimensions."""
AUTO = "auto"
HEAVY = ("domain_finetune",)
"""Methods measured only on request, and with one seed."""
NEEDS_A_MODEL = ("conditional_loss",)
"""Methods that are not measured."""

Piece = tuple[str, int, str]
"""A target, a seed, and the kind of measurement: an encoder's name, `words` or `finetune`."""


def pieces(s: Setting) -> list[Piece]:
    """Pieces that can be measured in parallel."""
    kinds = [(seed, kind) for seed in range(s.seeds) for kind in (*ENCODERS, "words")]
    heavy = [(0, "finetune")] if s.finetune else []
    return [(name, *kind) for kind in [*kinds, *heavy] for name in TARGETS]


def measure(s: Setting, piece: Piece) -> dict[str, Any]:
    """Average precision by method, and the method of `auto`."""
    name, seed, kind = piece
    embedder = kind if kind in ENCODERS else ""
    target, units = data.target(s, name, seed, embedder), data.units(s, embedder)
    background = units.take(data.drawn(len(units), s.background, seed))
    truth = data.inside(s, TARGETS[name][2])
    found = {
        method: scored((method, ()), target, background, units, embedder=embedder, seed=seed)
        for method in _methods(kind, seed)
    }
    ap = {method: average_precision(of, truth) for method, of in found.items()}
    result: dict[str, Any] = {"ap": ap, "share": float(truth.mean())}
    if embedder:
        result["estimated"] = found["consensus"].share
    if embedder and not seed:
        result["auto"] = _auto_of(target, background, embedder, seed)
    return result


def _methods(kind: str, seed: int) -> list[str]:
    """Methods by input; `random` with the words."""
    if kind == "finetune":
        return list(HEAVY)
    known = {
        n: registry.load(n) for n in method_names() if n not in ("pyod", *HEAVY, *NEEDS_A_MODEL)
    }
    known = {n: m for n, m in known.items() if not issubclass(m, LabelMethod)}
    encode = {n for n, m in known.items() if {m.reads, getattr(m, "learns", None)} - {"text", None}}
    ours = [n for n in known if (n in encode) == (kind != "words")]
    if seed:
        return [n for n in ours if known[n].family != "graph"]
    return ours if kind == "words" else [*ours, PYOD]


def _auto_of(target: Paired, background: Paired, embedder: str, seed: int) -> dict[str, Any]:
    """What `auto` decides on these samples, its sentence, and the bits of its candidates."""
    names = auto.contenders()
    held = held_out(target.texts, background.texts, seed=seed)
    sums = {}
    for name in (*names, BASELINE):
        plan = registry.with_embedder(MethodPlan(name), embedder)
        method = registry.build(plan.name, plan.options)
        learned, sample = (read_as(part, method.fits_on) for part in (target, background))
        sums[name] = sum(
            held.bits(
                fit_to_sample(method, take_units(learned, held.fitted(fold)), sample, seed=seed)(),
                fold,
                held.budget(),
            )
            for fold in range(held.count)
        )
    found = [{**vars(v), "cost": 0.0} for v in compare(held, sums, seed=seed, best_of=names)]
    decided = auto.decide_by_bits(found, names)
    bits = {of["method"]: of["bits"] for of in found}
    return {"taken": decided.method.name, "reason": decided.reason, "bits": bits}


def report(s: Setting, found: dict[Piece, dict[str, Any]]) -> Report:
    """One table for each encoder, one for words, one for `auto`."""
    ap: dict[tuple[str, str], dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for (name, _, kind), result in found.items():
        for method, value in result["ap"].items():
            ap["words" if kind == "finetune" else kind, method][name].append(value)
    decided = {(k, n): found[n, 0, k]["auto"] for k in ENCODERS for n in TARGETS}
    estimated = {
        (kind, name): [r["estimated"] for (n, _, k), r in found.items() if (n, k) == (name, kind)]
        for kind in ENCODERS
        for name in TARGETS
    }
    for (kind, name), of in decided.items():
        taken = of["taken"]
        ap[kind, AUTO][name] = ap[(kind if (kind, taken) in ap else "words"), taken][name]
    shares = {name: found[name, 0, ENCODERS[0]]["share"] for name in TARGETS}
    parts = [_text(s, len(data.documents(s)[0]), shares)]
    means = {}
    for kind in (*ENCODERS, "words"):
        of = {method: by for (k, method), by in ap.items() if k == kind}
        means[kind] = _means(of)
        parts += [f"## {kind}", _table(of)]
        if kind in ENCODERS:
            own = {n: (decided[kind, n], ap[kind, AUTO][n], estimated[kind, n]) for n in TARGETS}
            parts += [f"What `auto` takes with {kind}:", _auto_table(own, shares)]
    figures = {
        "share": shares,
        "average_precision": {
            kind: {
                m: {n: spread(v) for n, v in by.items()} for (k, m), by in ap.items() if k == kind
            }
            for kind in (*ENCODERS, "words")
        },
        "auto": {kind: {name: decided[kind, name] for name in TARGETS} for kind in ENCODERS},
        "estimated": {k: {n: spread(estimated[k, n]) for n in TARGETS} for k in ENCODERS},
    }
    return Report(figures, "\n\n".join(parts), _conclusion(means, decided))


def _conclusion(
    means: dict[str, dict[str, float]], decided: dict[tuple[str, str], dict[str, Any]]
) -> str:
    """Which method finds the domain, and what `auto`, which asks for something else, takes."""
    said = []
    for kind in ENCODERS:
        taken = Counter(of["taken"] for (k, _), of in decided.items() if k == kind)
        named = ", ".join(f"`{name}` for {n} of {len(TARGETS)}" for name, n in taken.most_common())
        said.append(
            f"On {kind}, {first(means[kind], 'mean average precision')}; "
            f"{standing(means[kind], 'isolation_forest')}, while TADPOLE and DANA rank it first of "
            f"their detectors, on BERT-base's vectors and against Wikipedia. `{AUTO}` takes "
            f"{named} "
            f"and {standing(means[kind], AUTO)}: it chooses by the bits of a model of the "
            "selection, not by the domain."
        )
    return " ".join(said)


def _means(by_method: dict[str, dict[str, list[float]]]) -> dict[str, float]:
    """The mean over targets of each method."""
    return {
        method: float(np.mean([np.mean(values) for values in by.values()]))
        for method, by in by_method.items()
    }


def _table(by_method: dict[str, dict[str, list[float]]]) -> str:
    means = _means(by_method)
    order = sorted(means, key=lambda method: (-means[method], method))
    rows = [
        [f"`{m}`", *(cell(by_method[m].get(name, ())) for name in TARGETS), f"**{means[m]:.3f}**"]
        for m in order
    ]
    return table(["method", *TARGETS, "mean"], rows)


def _auto_table(
    own: dict[str, tuple[dict[str, Any], list[float], list[float]]], shares: dict[str, float]
) -> str:
    rows = []
    for name, (of, ap, estimated) in own.items():
        bits = f"{of['bits'][of['taken']]:.2f}", f"{of['bits'][BASELINE]:.2f}"
        share = f"{100 * shares[name]:.1f}"
        rows.append([name, f"`{of['taken']}`", *bits, cell(ap), percent(estimated), share])
    head = ["target", "`auto` takes", "bits per word", "of `random`", "average precision"]
    return table([*head, "% estimated by `consensus`", "% true"], rows)


def _text(s: Setting, n: int, shares: dict[str, float]) -> str:
    chance = ", ".join(f"{name} {share:.3f}" for name, share in shares.items())
    return (
        f"Average precision over {n:,} documents for those of the true domain: the first "
        f"{data.WORDS} words of up to {s.documents:,} documents of each source. Targets are "
        f"{s.target} texts, normalized and each different; methods have their defaults and are "
        f"fitted on a background of {min(s.background, n):,} documents. The seed draws target and "
        f"background and is the fit's. {of_seeds(s.seeds)}; `{PYOD}`, "
        "graphs, `domain_finetune` (where it was asked for) and the decisions of `auto` (by bits "
        "per word of held-out target texts, on target and background) "
        "have seed 0 only. A random order has the "
        f"domain's share: {chance}.\n\n"
        "The papers have no such table: they evaluate a selection by a translation's or a "
        "classifier's quality after training on it; the nearest are `tadpole_figure5` and `table7`."
    )
