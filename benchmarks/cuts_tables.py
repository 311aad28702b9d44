"""The tables of benchmarks/cuts.py: differences to today's cut, with intervals over targets."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from score_cells import Record
from score_tables import mean_interval

SHARES = ("0.001", "0.01", "0.1")
TODAY = "256x15"
FOLLOW = "follow"
BASE = "base"
UNITS = {"masked": "nats", "decoder": "bits per byte"}
Values = dict[tuple[str, int], dict[str, float]]
"""Of each target and draw the number by cut; lower is better."""


def tables(records: Sequence[Record], sizes: Sequence[int]) -> str:
    """The study's cells as Markdown.

    Args:
        records: the cells.
        sizes: by which the cut that follows a target is rounded.
    """
    parts: list[str] = []
    bits = [r for r in records if r["setting"] == "bits"]
    groups = dict.fromkeys((r["column"].split("@")[0], r["rung"]) for r in bits)
    order = sorted(groups, key=lambda g: (g[0] != "cynical", g[1] != "100", g))
    for method, texts in order:
        own = [r for r in bits if r["rung"] == texts and r["column"].startswith(f"{method}@")]
        by_share = [values_of(own, share, sizes) for share in SHARES]
        parts += [
            f"### `{method}`, targets of {texts} texts: bits a word against today's cut",
            means(by_share, [f"{float(share):.1%}" for share in SHARES]),
        ]
        if (method, texts) == ("cynical", "100"):
            for share, values in zip(SHARES, by_share, strict=True):
                parts += [f"#### Each target, {float(share):.1%}", each(own, values, 2)]
    for kind, unit in UNITS.items():
        own = [r for r in records if r["setting"] == kind]
        if own:
            values = values_of(own, "", sizes)
            parts += [
                f"### {kind} model: {unit} against today's cut",
                means([values], [unit]),
                each(own, values, 3),
            ]
    if own := [r for r in records if r["setting"] == "cost"]:
        parts += ["### What a cut costs", costs(own)]
    return "\n\n".join(parts)


def costs(records: Iterable[Record]) -> str:
    """A line for each cut: processor seconds, memory, and bytes for each GB of the corpus."""
    commands = ("select", "choose", "embed")
    lines = [
        f"| cut | segments | {' | '.join(f'{c}: s, MB' for c in commands)} | scores, MB a GB "
        "| vectors, MB a GB |",
        "|---" * 7 + "|",
    ]
    for r in records:
        of = r["result"]
        used = (f"{of[c]['cpu_s']:.1f}, {of[c]['peak_mb']}" for c in commands)
        stored = (of[f"{w}_bytes"] / of["corpus_bytes"] * 1000 for w in ("scores", "vectors"))
        cells = [r["column"].split("@")[1], f"{of['segments']:,}", *used]
        lines.append(f"| {' | '.join([*cells, *(f'{mb:,.0f}' for mb in stored)])} |")
    return "\n".join(lines)


def values_of(records: Iterable[Record], share: str, sizes: Sequence[int]) -> Values:
    """The numbers by target and draw, with that of the cut which follows the target."""
    found: Values = {}
    for r in records:
        result = r["result"]
        number = result[share] if share else result.get("nats", result.get("bits_per_byte"))
        own = found.setdefault((r["task"], r["seed"]), {})
        name = BASE if r["column"].startswith(f"{BASE}@") else r["column"].split("@")[1]
        own[name] = number
        if name == f"{followed(r['median'], sizes)}x1":
            own[FOLLOW] = number
    return found


def followed(median: int, sizes: Sequence[int]) -> int:
    """The size nearest to a median."""
    return min(sizes, key=lambda size: abs(math.log(size / median)))


def means(columns: Sequence[Values], titles: Sequence[str]) -> str:
    """A line for each cut: the mean difference to today's, its interval, and the worst target."""
    lines = [
        f"| cut | {' | '.join(f'{t}: mean (95 %), worst' for t in titles)} | targets |",
        "|---" * (len(titles) + 2) + "|",
    ]
    for cut in cuts_of(columns[0])[1:]:
        shown = []
        for values in columns:
            gain = differences(values, cut)
            low, high = mean_interval(gain)
            own = np.nanmean(gain, 1)
            shown.append(f"{own.mean():+.3f} ({low:+.3f} to {high:+.3f}), {own.max():+.3f}")
        lines.append(f"| {cut} | {' | '.join(shown)} | {len(gain)} |")
    return "\n".join(lines)


def each(records: Sequence[Record], values: Values, digits: int) -> str:
    """A line for each target: today's number, and the differences, with their error over draws."""
    medians = {r["task"]: r["median"] for r in records}
    cuts = cuts_of(values)
    lines = [f"| target | pieces | {' | '.join(cuts)} |", "|---" * (len(cuts) + 2) + "|"]
    for target in sorted(medians, key=medians.__getitem__):
        own = {draw: of for (name, draw), of in values.items() if name == target}
        shown = []
        for cut in cuts:
            paired = [of[cut] - of[TODAY] for of in own.values() if cut in of and TODAY in of]
            now = [of[cut] for of in own.values() if cut in of]
            if cut == TODAY or not paired:
                shown.append(f"{statistics.fmean(now):.{digits}f}" if now else "")
                continue
            error = statistics.stdev(paired) / math.sqrt(len(paired)) if len(paired) > 1 else None
            more = "" if error is None else f" ± {error:.{digits}f}"
            shown.append(f"{statistics.fmean(paired):+.{digits}f}{more}")
        lines.append(f"| {target} | {medians[target]} | {' | '.join(shown)} |")
    return "\n".join(lines)


def differences(values: Values, cut: str) -> np.ndarray:
    """float64 [targets, draws]: a cut's number minus today's, NaN where one is missing."""
    targets = list(dict.fromkeys(target for target, _ in values))
    draws = sorted({draw for _, draw in values})
    found = np.full((len(targets), len(draws)), np.nan)
    for (target, draw), own in values.items():
        if cut in own and TODAY in own:
            found[targets.index(target), draws.index(draw)] = own[cut] - own[TODAY]
    return found[~np.isnan(found).all(1)]


def cuts_of(values: Mapping[tuple[str, int], Mapping[str, float]]) -> list[str]:
    """Today's cut, the model before training, the cut that follows, the others from long on."""
    every = {cut for own in values.values() for cut in own}
    first = [cut for cut in (TODAY, BASE, FOLLOW) if cut in every]
    others = every - {*first}
    return first + sorted(others, key=lambda cut: [-int(n) for n in cut.split("x")])
