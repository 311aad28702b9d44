"""`corpusfit demo`: select and adapt on text that every machine has, and measure the gain."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import corpusfit
from corpusfit.cli.bar import Bar
from corpusfit.cli.options import command, write_report
from corpusfit.cli.select import show_run
from corpusfit.cli.show import as_json, percent, say, table
from corpusfit.core.engine.progress import WarningCollector
from corpusfit.core.offers import Offer
from corpusfit.core.plan import Plan
from corpusfit.demo import FAMILIES, TARGET_FAMILY, write_demo_text

DEMO = Offer(
    Plan,
    ("method", "embed", "seed"),
    differs={"method": {"default": "moore_lewis, or domain_classifier without the extra train"}},
)
METHOD = {"method": "moore_lewis"}
UNTRAINED = {"method": "domain_classifier", "embedder": "static"}
"""Without the extra `train`: nothing is trained, so the selection shows embeddings."""
TOKENS = 20_000
"""Word pieces to select; more than a training reads, so that no text is read twice."""
SEEDS = 4
BASE: dict[str, Any] = {
    "init": "tiny",
    "steps": 60,
    "batch": 8,
    "settings": ["model.vocabulary=2048"],
}
CONTINUED: dict[str, Any] = {
    "steps": 40,
    "batch": 4,
    "rate": 1e-3,
    "settings": ["train.evaluations=1"],
}


@command(plain=True, offer=DEMO)
def demo(
    *,
    out: str = "demo-out",
    workers: int | None = None,
    cache: str | None = None,
    json: bool = False,
    **options: Any,
) -> None:
    """Select, adapt and measure on Python's docstrings (1 min).

    The corpus is the docstrings of the standard library, one file per family of modules; 100
    docstrings of the network modules are the target. The demo selects from the corpus and prints
    precision and recall, as the family of every text is known. Then it trains a tiny language model
    on a random part of the corpus, and continues on the selection and on as many tokens of random
    text, with several seeds. It ends with the difference of the losses on other docstrings of the
    network modules, which no training reads. Without the extra train it ends with the selection, by
    the static embeddings that are in the package, and report.html needs the extra report.

    Example:
      corpusfit demo

    Writes the texts, the selection, the models and report.html to demo-out/.

    Options:
        --out FOLDER: Folder for the demo (default: demo-out)
    """
    from corpusfit.evaluation.significance import paired_difference

    # a tiny model trains more slowly on several threads
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    folder = Path(out)
    seed = options.get("seed", 0)
    trains = find_spec("accelerate") is not None
    defaults = METHOD if trains else UNTRAINED
    options = {**defaults, **options}
    task, corpus = write_demo_text(folder / "text", seed=seed)
    say(
        f"Target: {_rows(task / 'train.jsonl')} docstrings of Python's {TARGET_FAMILY} modules. "
        f"Corpus: docstrings of {len(FAMILIES)} families of modules, "
        f"{_rows(corpus / f'{TARGET_FAMILY}.jsonl')} of them {TARGET_FAMILY}."
    )
    bar = Bar()
    again: dict[str, Any] = {
        "machine": corpusfit.Machine(workers=workers, cache=cache, progress=WarningCollector(bar)),
        "overwrite": True,
    }
    options |= {"target": task / "train.jsonl", "corpus": corpus, "tokens": TOKENS}
    run = corpusfit.select(out=folder / "selection", **options, **again)
    quality = _found(run.manifest)
    if not json:
        show_run(run.path, run.manifest)
        say(
            f"Selection of {TARGET_FAMILY} docstrings: precision "
            f"{percent(quality['precision'], 1)}, recall {percent(quality['recall'], 1)} (chance: "
            f"{percent(quality['chance'], 1)}; higher is better).\n"
        )
    if not trains:
        if json:
            as_json({"out": str(run.path), **quality, **run.manifest})
        else:
            say(
                "The gain is measured, and a report written, with two extras: "
                "pip install 'corpusfit[report,train]'"
            )
        return
    held = task / "test.jsonl"
    with bar.showing("adapt", 1 + 2 * SEEDS):
        losses = _losses(run.path, corpus, held, folder, seed, bar, again)
    gain = paired_difference(losses["random"], losses["selection"])
    if json:
        facts = {**quality, "losses": losses, "gain": dict(zip(_GAIN, gain, strict=True))}
        as_json({"out": str(run.path), **facts, **run.manifest})
    write_report(folder, quiet=json)
    if not json:
        _show_gain(losses, gain, _rows(held))


_GAIN = ("mean", "low", "high")


def _losses(
    selection: Path, corpus: Path, held: Path, out: Path, seed: int, bar: Bar, again: dict[str, Any]
) -> dict[str, list[float]]:
    """Losses on the held-out texts: of the base model, then after each training by its seed."""
    training: dict[str, Any] = {"task": held, "guard": held, "objective": "causal", **again}
    losses: dict[str, list[float]] = {"base": [], "selection": [], "random": []}

    def train(name: str, data: Path, out: Path, seed: int) -> Path:
        model = corpusfit.adapt(data=data, out=out, seed=seed, **training)
        losses[name].append(model.manifest["losses"]["after"]["task"])
        bar.advance(1)
        return model.path

    training |= BASE
    base = train("base", corpus, out / "base", seed)
    training |= {"init": None, "model": base, **CONTINUED}
    for i in range(1, SEEDS + 1):
        for name, data in (("selection", selection), ("random", corpus)):
            train(name, data, out / f"{name}-{i}", SEEDS * seed + i)
    return losses


def _found(manifest: Mapping[str, Any]) -> dict[str, float]:
    """Precision and recall of the target's family."""
    selected = manifest["selected"]
    hits = selected["by_source"][f"{TARGET_FAMILY}.jsonl"]
    return {
        "precision": hits["selected"] / selected["segments"],
        "recall": hits["selected"] / hits["segments"],
        "chance": hits["segments"] / manifest["counts"]["segments"],
    }


def _show_gain(
    losses: Mapping[str, list[float]], gain: tuple[float, float, float], texts: int
) -> None:
    """Print the mean losses, their difference, and what it means."""
    names = {"base": "nothing (base model)", "selection": "selection", "random": "random text"}
    rows = [[names[name], f"{sum(values) / len(values):.3f}"] for name, values in losses.items()]
    title = f"Loss on {texts} held-out {TARGET_FAMILY} docstrings in nats per token"
    table(f"{title} (lower is better)", ["continued on", "mean loss"], rows)
    mean, low, high = gain
    say(
        f"Gain of the selection over as many tokens of random text: {mean:.3f} nats per token "
        f"(95 % interval {low:.3f} to {high:.3f}, {SEEDS} seeds)."
    )
    verdict = "No difference shown between the selection and random text."
    if low > 0 or high < 0:
        verdict = (
            f"The selection {'helps' if low > 0 else 'hurts'}: after it, a token of a new "
            f"{TARGET_FAMILY} docstring is {math.exp(mean):.2f} times as probable as after random "
            "text."
        )
    say(verdict)


def _rows(path: Path) -> int:
    return path.read_bytes().count(b"\n")
