"""Average precision of every method for a target's domain, on words and on two encoders.

For `auto` before held-out bits: the method it used, its average precision, and the estimated share
of the domain. Slow methods (graphs, PyOD, fine-tuning) and the trials of `auto` have one seed.
Reference: Aharoni and Goldberg (2020), section 4.4; TADPOLE, section 3.1.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import numpy as np

import data
from corpusfit.score import registry
from corpusfit.score.contract import LabelMethod, Method
from corpusfit.score.names import names as method_names
from corpusfit.score.rank import trial, verdicts
from corpusfit.types import Paired, read_as
from corpusfit.workflows.selection.ranking import SEEDS
from data import ENCODERS, TARGETS, Setting
from measure import average_precision, scored
from report import Report, cell, of_seeds, percent, spread, table

PYOD = "pyod:HBOS"
"""One of PyOD's detectors; others, as ECOD, take minutes for a target of 384 dimensions."""
HEAVY = ("domain_finetune",)
"""Methods measured only on request, and with one seed."""

LEADING = "domain_moore_lewis"

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
        result["ranked"] = _ranked(target, background, seed)
    return result


def _methods(kind: str, seed: int) -> list[str]:
    """Methods by input; `random` with the words."""
    if kind == "finetune":
        return list(HEAVY)
    known = {n: registry.load(n) for n in method_names() if n not in ("pyod", *HEAVY)}
    reads = ("text",) if kind == "words" else ("embedding", "both")
    ours = [n for n, m in known.items() if m.reads in reads and not issubclass(m, LabelMethod)]
    if seed:
        return [n for n in ours if known[n].family != "graph"]
    return ours if kind == "words" else [*ours, PYOD]


def contenders() -> list[str]:
    """The candidates of `auto` before held-out bits: methods on embeddings, and `LEADING`."""
    known = {n: registry.load(n) for n in method_names() if n not in ("pyod", *HEAVY)}
    alone = [n for n, m in known.items() if issubclass(m, Method) and m.family != "baseline"]
    return [n for n in alone if known[n].reads == "embedding" or n == LEADING]


def preferred(ranked: Sequence[str]) -> str:
    """The method that `auto` preferred among methods ranked by agreement."""
    return LEADING if LEADING in ranked else ranked[0]


def _ranked(target: Paired, background: Paired, seed: int) -> list[str]:
    """The methods that `auto` tries on a sample of the corpus, highest agreement first."""
    trials = []
    for name in contenders():
        method = registry.unit_method(name, {})
        parts = [read_as(part, method.fits_on) for part in (target, background)]
        trials += [trial(name, method, *parts, seed=seed + i) for i in range(SEEDS)]
    return [verdict.method for verdict in verdicts(trials)]


def report(s: Setting, found: dict[Piece, dict[str, Any]]) -> Report:
    """One table for each encoder, one for words, one for `auto`."""
    ap: dict[tuple[str, str], dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for (name, _, kind), result in found.items():
        for method, value in result["ap"].items():
            ap["words" if kind == "finetune" else kind, method][name].append(value)
    auto = {
        (kind, name): [r for (n, _, k), r in found.items() if (n, k) == (name, kind)]
        for kind in ENCODERS
        for name in TARGETS
    }
    shares = {name: auto[ENCODERS[0], name][0]["share"] for name in TARGETS}
    parts = [_text(s, len(data.documents(s)[0]), shares)]
    for kind in (*ENCODERS, "words"):
        of = {method: by for (k, method), by in ap.items() if k == kind}
        parts += [f"## {kind}", _table(of)]
        if kind in ENCODERS:
            parts += [f"What `auto` takes on {kind}:", _auto_table(kind, auto)]
    figures = {
        "share": shares,
        "average_precision": {
            kind: {
                m: {n: spread(v) for n, v in by.items()} for (k, m), by in ap.items() if k == kind
            }
            for kind in (*ENCODERS, "words")
        },
        "auto": {kind: {name: _auto(auto[kind, name]) for name in TARGETS} for kind in ENCODERS},
    }
    return Report(figures, "\n\n".join(parts))


def _auto(of: list[dict[str, Any]]) -> dict[str, Any]:
    """A target's results of `auto` by seed."""
    ranked = of[0]["ranked"]
    taken = preferred(ranked)
    return {
        "taken": taken,
        "average_precision": spread([r["ap"][taken] for r in of]),
        "by_agreement": ranked,
        "average_precision_by_agreement": spread([r["ap"][ranked[0]] for r in of]),
        "estimated_share": spread([r["estimated"] for r in of]),
    }


def _table(by_method: dict[str, dict[str, list[float]]]) -> str:
    means = {
        method: float(np.mean([np.mean(values) for values in by.values()]))
        for method, by in by_method.items()
    }
    order = sorted(means, key=lambda method: (-means[method], method))
    rows = [
        [f"`{m}`", *(cell(by_method[m].get(name, ())) for name in TARGETS), f"**{means[m]:.3f}**"]
        for m in order
    ]
    return table(["method", *TARGETS, "mean"], rows)


def _auto_table(kind: str, auto: dict[tuple[str, str], list[dict[str, Any]]]) -> str:
    found = {name: _auto(auto[kind, name]) for name in TARGETS}
    rows = []
    for name, of in found.items():
        taken, first = (cell(of[k]["seeds"]) for k in _KEYS)
        cells = [f"`{of['taken']}`", taken, f"`{of['by_agreement'][0]}`", first]
        share = f"{100 * auto[kind, name][0]['share']:.1f}"
        rows.append([name, *cells, percent(of["estimated_share"]["seeds"]), share])
    taken, first = (f"**{np.mean([of[k]['mean'] for of in found.values()]):.3f}**" for k in _KEYS)
    rows.append(["mean", "", taken, "", first, "", ""])
    head = ["target", "`auto` takes", "average precision", "first by agreement", "its"]
    return table([*head, "% estimated by `consensus`", "% true"], rows)


_KEYS = ("average_precision", "average_precision_by_agreement")


def _text(s: Setting, n: int, shares: dict[str, float]) -> str:
    chance = ", ".join(f"{name} {share:.3f}" for name, share in shares.items())
    return (
        f"Average precision over {n:,} documents for those of the true domain: the first "
        f"{data.WORDS} words of up to {s.documents:,} documents of each source. Targets are "
        f"{s.target} texts, normalised and each different; methods have their defaults and are "
        f"fitted on a background of {min(s.background, n):,} documents. The seed draws target and "
        f"background and is the fit's. {of_seeds(s.seeds)}; `{PYOD}`, "
        "graphs, `domain_finetune` (where it was asked for) and the trials by which `auto` chooses "
        "have seed 0 only. A random order has the "
        f"domain's share: {chance}.\n\n"
        "The papers have no such table: they evaluate a selection by a translation's or a "
        "classifier's quality after training on it; the nearest are `table2` and `table7`."
    )
