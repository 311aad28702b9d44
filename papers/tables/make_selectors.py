"""Average precision of every method for a target's domain, on words and on two encoders.

Slow methods (graphs, PyOD, fine-tuning) have one seed.
Reference: Aharoni and Goldberg (2020), section 4.4; TADPOLE, section 3.1.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import numpy as np

import data
from corpusfit.scoring import registry
from corpusfit.scoring.contract import LabelMethod
from corpusfit.scoring.names import names as method_names
from data import ENCODERS, TARGETS, Setting
from measure import average_precision, scored
from report import Report, cell, first, of_seeds, percent, spread, standing, table

PYOD = "pyod:HBOS"
"""One of PyOD's detectors; others, as ECOD, take minutes for a target of 384 dimensions."""
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
    """Average precision by method, and the share of the domain that `consensus` estimates."""
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


def report(s: Setting, found: dict[Piece, dict[str, Any]]) -> Report:
    """One table for each encoder, one for words, one of estimated shares."""
    ap: dict[tuple[str, str], dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for (name, _, kind), result in found.items():
        for method, value in result["ap"].items():
            ap["words" if kind == "finetune" else kind, method][name].append(value)
    estimated = {
        (kind, name): [r["estimated"] for (n, _, k), r in found.items() if (n, k) == (name, kind)]
        for kind in ENCODERS
        for name in TARGETS
    }
    shares = {name: found[name, 0, ENCODERS[0]]["share"] for name in TARGETS}
    parts = [_text(s, len(data.documents(s)[0]), shares)]
    means = {}
    for kind in (*ENCODERS, "words"):
        of = {method: by for (k, method), by in ap.items() if k == kind}
        means[kind] = _means(of)
        parts += [f"## {kind}", _table(of)]
        if kind in ENCODERS:
            own = {name: estimated[kind, name] for name in TARGETS}
            parts += [f"The domain's share with {kind}:", _shares_table(own, shares)]
    figures = {
        "share": shares,
        "average_precision": {
            kind: {
                m: {n: spread(v) for n, v in by.items()} for (k, m), by in ap.items() if k == kind
            }
            for kind in (*ENCODERS, "words")
        },
        "estimated": {k: {n: spread(estimated[k, n]) for n in TARGETS} for k in ENCODERS},
    }
    return Report(figures, "\n\n".join(parts), _conclusion(means))


def _conclusion(means: dict[str, dict[str, float]]) -> str:
    """Which method finds the domain."""
    return " ".join(
        f"On {kind}, {first(means[kind], 'mean average precision')}; "
        f"{standing(means[kind], 'isolation_forest')}, while TADPOLE and DANA rank it first of "
        "their detectors, on BERT-base's vectors and against Wikipedia."
        for kind in ENCODERS
    )


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


def _shares_table(own: dict[str, list[float]], shares: dict[str, float]) -> str:
    rows = [
        [name, percent(estimated), f"{100 * shares[name]:.1f}"] for name, estimated in own.items()
    ]
    return table(["target", "% estimated by `consensus`", "% true"], rows)


def _text(s: Setting, n: int, shares: dict[str, float]) -> str:
    chance = ", ".join(f"{name} {share:.3f}" for name, share in shares.items())
    return (
        f"Average precision over {n:,} documents for those of the true domain: the first "
        f"{data.WORDS} words of up to {s.documents:,} documents of each source. Targets are "
        f"{s.target} texts, normalized and each different; methods have their defaults and are "
        f"fitted on a background of {min(s.background, n):,} documents. The seed draws target and "
        f"background and is the fit's. {of_seeds(s.seeds)}; `{PYOD}`, "
        "graphs and `domain_finetune` (where it was asked for) have seed 0 only. A random order "
        f"has the domain's share: {chance}.\n\n"
        "The papers have no such table: they evaluate a selection by a translation's or a "
        "classifier's quality after training on it; the nearest are `tadpole_figure5` and `table7`."
    )
