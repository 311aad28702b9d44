"""The tables of benchmarks/benefit.py: correlations within targets, regrets, mean gains."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata

from correlation import Within, correlation_within

Numbers = NDArray[np.float64]
BASELINE = "random"
EARLIER = "domain_moore_lewis"
ROUNDS = 9_999
PREDICTORS = {
    "bits per word of unseen target text": ("cells", "bits", -1),
    "bits per word by `rank`": ("verdicts", "bits", -1),
    "agreement by `rank`": ("verdicts", "agreement", 1),
    "F1 by `rank`": ("verdicts", "f1", 1),
    "domain precision": ("cells", "precision", 1),
}
"""What is known before adaptation: where it is stored, its name, and 1 if more is better."""


@dataclass(frozen=True)
class Block:
    """Cells of every method for every group, averaged over the seeds of a target.

    Attributes:
        methods: m names.
        targets: t names.
        seeds: number of seeds of each target.
        fall: float64 [t, m], loss before minus loss after adaptation, in nats.
        known: float64 [t, m] by predictor, higher is better; NaN where there is none.
    """

    methods: list[str]
    targets: list[str]
    seeds: list[int]
    fall: Numbers
    known: dict[str, Numbers]

    @classmethod
    def of(cls, found: Mapping[str, Any]) -> Block:
        """The largest block of finished cells."""
        methods, groups = largest_block(key.rsplit("/", 2) for key in found["cells"])
        targets = list(dict.fromkeys(target for target, _ in groups))
        seeds = {t: [s for target, s in groups if target == t] for t in targets}

        def mean(value: Any) -> Numbers:
            of = [[np.mean([value(t, m, s) for s in seeds[t]]) for m in methods] for t in targets]
            return np.array(of, float).reshape(len(targets), len(methods))

        def known(kind: str, name: str, sign: int) -> Any:
            def value(target: str, method: str, seed: str) -> float:
                if kind == "cells":
                    return sign * float(found[kind][f"{target}/{method}/{seed}"][name])
                ranked = found[kind].get(f"{target}/{seed}", {})
                return sign * float(ranked.get(method, {}).get(name, np.nan))

            return mean(value)

        predictors = {name: known(*of) for name, of in PREDICTORS.items()}
        return cls(
            methods,
            targets,
            [len(seeds[t]) for t in targets],
            mean(lambda *key: fall_of(found["cells"]["/".join(key)])),
            {name: values for name, values in predictors.items() if not np.isnan(values).all()},
        )


def fall_of(cell: Mapping[str, float]) -> float:
    """Nats by which adaptation lowered the loss on unseen target text."""
    return cell["loss_before"] - cell["loss_after"]


def largest_block(cells: Iterable[Sequence[str]]) -> tuple[list[str], list[tuple[str, str]]]:
    """The methods with the most cells whose common groups give the most cells.

    Args:
        cells: (target, method, seed) of each finished cell.

    Returns:
        Methods; groups (target, seed) in which all of them have a cell; both in order of
        appearance.
    """
    having: dict[str, set[tuple[str, str]]] = {}
    order: dict[tuple[str, str], None] = {}
    for target, method, seed in cells:
        having.setdefault(method, set()).add((target, seed))
        order[target, seed] = None
    fullest = sorted(having, key=lambda m: -len(having[m]))
    best: tuple[int, int] = (0, 0)
    for k in range(1, len(fullest) + 1):
        common = set.intersection(*(having[m] for m in fullest[:k]))
        best = max(best, (k * len(common), k))
    chosen = set(fullest[: best[1]])
    common = set.intersection(*(having[m] for m in chosen)) if chosen else set()
    return [m for m in having if m in chosen], [group for group in order if group in common]


def within_targets(known: Numbers, fall: Numbers) -> Within | None:
    """Correlation of ranks within targets: Spearman's, p by permutation within targets.

    Args:
        known: float64 [t, m], NaN left out.
        fall: float64 [t, m].
    """
    groups: list[int] = []
    x: list[float] = []
    y: list[float] = []
    for target, (a, b) in enumerate(zip(known, fall, strict=True)):
        there = ~np.isnan(a)
        groups += [target] * int(there.sum())
        x += rankdata(a[there]).tolist()
        y += rankdata(b[there]).tolist()
    return correlation_within(groups, x, y)


def chosen(known: Numbers) -> NDArray[np.int64]:
    """int64 [t]: the best method by what is known; the first of equal ones.

    Raises:
        ValueError: nothing is known for some target.
    """
    return np.asarray(np.nanargmax(known, axis=1), np.int64)


def regret(fall: Numbers, picked: NDArray[np.int64]) -> Numbers:
    """float64 [t]: nats that the best method of each target would have lowered the loss more."""
    return fall.max(1) - fall[np.arange(len(fall)), picked]


def interval(values: Numbers) -> tuple[float, float]:
    """95 % percentile interval of the mean, by 9,999 bootstrap samples of the targets."""
    rng = np.random.default_rng(0)
    means = values[rng.integers(0, len(values), (ROUNDS, len(values)))].mean(1)
    low, high = np.quantile(means, [0.025, 0.975])
    return float(low), float(high)


def tables(found: Mapping[str, Any], title: str) -> str:
    """A part of benefit.md: what was measured, and what follows from it."""
    block = Block.of(found)
    parts = [f"## {title}"]
    if block.targets and len(block.methods) > 1:
        parts += [f"**{conclusion(block)}**"]
    parts += [introduction(found, block)]
    if block.targets and len(block.methods) > 1:
        parts += ["### Which choice of a method is best", choices(block)]
        parts += ["### What predicts the fall of the loss", correlations(block)]
        parts += ["### Mean gain of each method", gains(block)]
    for heading, text, value in (
        ("Fall of the loss", "Nats by which adaptation lowered it; higher is better.", fall_of),
        ("Bits per word", "Of unseen target text; lower is better.", lambda c: c["bits"]),
        (
            "Domain precision",
            "Share of the selected words from the target's domain.",
            lambda c: c["precision"],
        ),
    ):
        parts += [f"### {heading}", text, by_target(found, value)]
    return "\n\n".join([*parts, made(found)]) + "\n"


def introduction(found: Mapping[str, Any], block: Block) -> str:
    """The set-up in sentences."""
    p = found["protocol"]
    earlier = "Agreement and F1 are those of earlier versions of `corpusfit rank`. "
    earlier *= "F1 by `rank`" in block.known
    seeds = sorted({key.rsplit("/", 1)[1] for key in found["cells"]})
    sizes = ", ".join(
        f"{key.rsplit('/', 1)[0]} ({of['train']:,}, {of['evaluated']:,})"
        for key, of in found["targets"].items()
        if key.endswith(f"/{seeds[0] if seeds else ''}")
    )
    return (
        f"Each method selects {p['share']:.0%} of the words (separated by white space) of a third "
        "of the corpus: the segments with the highest scores, in the default units. So every "
        f"method gets the same number of words. `{p['model']}` is adapted on the selection for "
        f"{p['steps']} steps of {p['batch']} x {p['length']} tokens with a learning rate of "
        f"{p['rate']:g}. Its masked-LM loss in nats is measured on up to {p['heldout']} sequences "
        "of the target's dev texts. Bits per word are those of an interpolated Kneser-Ney trigram "
        "model, trained on the selection and measured on all these dev texts, with the vocabulary "
        "of the third of the corpus. The methods see only train texts. Dev texts that occur in "
        "train or inside the corpus are left out, and the others are normalized (no tokenization, "
        "no entity marks). The seed decides the third of the corpus, the texts, the fit and the "
        f"training. Methods that need embeddings use `{p['embedder']}`. {earlier}"
        "Methods named `peer_…` are other tools and papers as published, on the same segments and "
        "the normalized target (`benchmarks/peers.py`); `rank` does not compare them.\n\n"
        f"There are {counted(len(found['cells']), 'training')} with "
        f"{counted(len(seeds), 'seed')}. Compared are the methods and targets of which all "
        f"combinations are there: {counted(len(block.methods), 'method')}, "
        f"{counted(len(block.targets), 'target')}, "
        f"{counted(sum(block.seeds), 'pair')} of target and seed. The seeds of a target are "
        f"averaged first. Texts of a target (train, dev): {sizes}."
    )


def counted(n: int, what: str) -> str:
    """A number of things."""
    return f"{n} {what}{'' if n == 1 else 's'}"


def choices(block: Block) -> str:
    """Regret of each way to choose a method."""
    lines = []
    best = block.fall.max(1)
    ways = {f"by {name}": chosen(known) for name, known in block.known.items() if full(known)}
    for m, method in enumerate(block.methods):
        ways[f"always `{method}`"] = np.full(len(best), m)
    measured = {name: regret(block.fall, picked) for name, picked in ways.items()}
    for name, lost in sorted(measured.items(), key=lambda item: float(item[1].mean())):
        low, high = interval(lost)
        lines.append(
            f"| {name} | {(best - lost).mean():.3f} | {lost.mean():.3f} ({low:.3f} to {high:.3f}) "
            f"| {lost.sum() / best.sum():.0%} | {lost.max():.3f} | {int((lost == 0).sum())} |"
        )
    head = (
        "| choice | fall of the loss | regret | of the best fall | largest regret | "
        "targets with the best |\n|---|---|---|---|---|---|"
    )
    oracle = f"| the best of each target (oracle) | {best.mean():.3f} | 0 | 0% | 0 | {len(best)} |"
    return (
        f"Means over {len(best)} targets, in nats. Regret: how much more the best method for the "
        "target lowers the loss than the chosen one (lower is better), with a 95 % interval over "
        "targets. A choice by `rank` is among the methods that `rank` compares. The best method is "
        "known only from the same sequences, so part of every regret is noise of training.\n\n"
        + "\n".join([head, oracle, *lines])
    )


def conclusion(block: Block) -> str:
    """Which method helps most, and which choice gives away least."""
    falls = block.fall.mean(0)
    best, then = np.argsort(-falls, kind="stable")[:2]
    lost = {
        name: float(regret(block.fall, chosen(known)).sum() / block.fall.max(1).sum())
        for name, known in block.known.items()
        if full(known)
    }
    said = (
        f"`{block.methods[best]}` lowers the loss most ({falls[best]:.3f} nats over "
        f"{counted(len(block.targets), 'target')}), before `{block.methods[then]}` "
        f"({falls[then]:.3f})."
    )
    if lost:
        least, *others = sorted(lost, key=lambda name: lost[name])
        gives = "; ".join(f"by {name} {lost[name]:.0%}" for name in others)
        said += (
            f" Choosing by {least} loses {lost[least]:.0%} of the fall by each target's best method"
            f"{f' ({gives})' if gives else ''}. TADPOLE and DANA choose their detector by F1 "
            "against Wikipedia; their models, corpora and tasks are not those of this table."
        )
    return said


def full(known: Numbers) -> bool:
    """Whether something is known for every target."""
    return bool((~np.isnan(known)).any(1).all())


def correlations(block: Block) -> str:
    """Spearman's correlation within targets, with and without the baseline."""
    lines = []
    apart = [m for m, name in enumerate(block.methods) if name != BASELINE]
    for name, known in block.known.items():
        cells = [shown(within_targets(known[:, of], block.fall[:, of])) for of in (..., apart)]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    head = f"| known before training | all methods | without `{BASELINE}` |\n|---|---|---|"
    return (
        "Spearman's correlation with the fall of the loss, over methods within targets; positive "
        "if methods that are better before are better after (fewer bits count as better). "
        "p is from permutations within targets.\n\n" + "\n".join([head, *lines])
    )


def shown(of: Within | None) -> str:
    """A correlation with its size."""
    return "–" if of is None else f"{of.pearson:+.2f} (n = {of.n}, p = {of.p:.4f})"


def gains(block: Block) -> str:
    """Mean fall of the loss by method, and its difference to the baselines'."""
    against = [m for m in (BASELINE, EARLIER) if m in block.methods]
    lines = []
    for m in np.argsort(-block.fall.mean(0), kind="stable"):
        cells = [f"`{block.methods[m]}`", f"{block.fall[:, m].mean():.3f}"]
        for other in against:
            more = block.fall[:, m] - block.fall[:, block.methods.index(other)]
            low, high = interval(more)
            same = other == block.methods[m]
            spread = f"{more.mean():+.3f} ({low:+.3f} to {high:+.3f})"
            cells += ["–", "–"] if same else [spread, f"{int((more > 0).sum())}"]
        lines.append(f"| {' | '.join(cells)} |")
    heads = ["method", "fall of the loss"]
    for other in against:
        heads += [f"more than `{other}`", f"targets above `{other}`"]
    head = f"| {' | '.join(heads)} |\n|{'---|' * len(heads)}"
    return (
        f"Nats, means over {len(block.targets)} targets with 95 % intervals over targets.\n\n"
        + "\n".join([head, *lines])
    )


def by_target(found: Mapping[str, Any], value: Any) -> str:
    """One number of every finished cell, means over seeds (as many as in brackets, if several)."""
    of: dict[tuple[str, str], list[float]] = {}
    for key, cell in found["cells"].items():
        target, method, _ = key.rsplit("/", 2)
        of.setdefault((target, method), []).append(value(cell))
    targets, methods = (list(dict.fromkeys(k[i] for k in of)) for i in (0, 1))
    lines = [f"| method | {' | '.join(targets)} |", "|---|" + "---|" * len(targets)]
    for method in methods:
        cells = []
        for target in targets:
            values = of.get((target, method), [])
            many = f" ({len(values)})" if len(values) > 1 else ""
            cells.append(f"{np.mean(values):.3f}{many}" if values else "–")
        lines.append(f"| `{method}` | {' | '.join(cells)} |")
    return "\n".join(lines)


def made(found: Mapping[str, Any]) -> str:
    """The command, the commits and the machine."""
    here = found.get("machine", {})
    cells = found["cells"].values()
    commits = ", ".join(sorted({cell["commit"] for cell in cells}))
    checked = Counter((cell["checked"], cell["same"]) for cell in cells if "checked" in cell)
    again = ", ".join(
        f"{n} {'the same' if same else 'not'} at commit {commit}"
        for (commit, same), n in sorted(checked.items(), reverse=True)
    )
    said = f"Selections made again by `--check`: {again}. " if again else ""
    return (
        "Made by `benchmarks/benefit.py DATA MODEL WORK --steps "
        f"{found['protocol']['steps']}`; trainings at commit {commits or '–'}, the last on "
        f"{here.get('cpu', '–')}, {here.get('date', '–')[:10]}. {said}".rstrip()
    )
