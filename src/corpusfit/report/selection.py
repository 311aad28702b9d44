"""A selection as its part of the page needs it: figures by cut, examples, ranking, in plain values.

What: reads the folder of one `select` and gives what the page's script draws and lists.
Why: everything that is counted is counted here, once; the page only shows it.
Trade-off: it is text of the corpus as it stands, hostile or not; the page makes it harmless.
"""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import numpy as np

from corpusfit.errors import InputError
from corpusfit.manifest import RunFolder
from corpusfit.report.examples import Examples, read_examples
from corpusfit.report.spread import Spread, spread_of

__all__ = ["selection_data"]


def selection_data(path: Path) -> dict[str, Any]:
    """All that is shown of a selection.

    Raises:
        InputError: the folder holds no finished selection, or one without examples.
    """
    folder = RunFolder(path)
    manifest = folder.finished()
    if manifest is None or not manifest["selected"]:
        raise InputError(
            f"{path} holds no finished selection. Run `corpusfit select` or `corpusfit choose` "
            "with that folder first."
        )
    if not folder.examples.exists():
        raise InputError(
            f"{path} has no {folder.examples.name}: an older version of corpusfit wrote it. Choose "
            f"again with `corpusfit choose {path}` and the same amount."
        )
    selected, seed = manifest["selected"], manifest["plan"]["seed"]
    spread = spread_of(folder.scores, seed=seed, threshold=selected["threshold"])
    examples = read_examples(folder.examples)
    return {
        "kind": "selection",
        "method": manifest["method"]["name"],
        "remark": manifest["remark"],
        "counts": manifest["counts"],
        "selected": {k: selected[k] for k in ("segments", "tokens", "threshold")},
        "policy": manifest["plan"]["choose"]["policy"],
        "warnings": manifest["warnings"],
        "seconds": manifest["seconds"],
        "command": _command(manifest, path),
        "plan": manifest["plan"],
        "versions": manifest["versions"],
        "inputs": [
            {"role": role, **{k: s[k] for k in ("name", "size", "fingerprint")}}
            for role in ("target", "corpus")
            for s in manifest[role]
        ],
        "sources": _sources(manifest, spread),
        "cuts": _cuts(spread, selected["threshold"]),
        "scores": _scores(spread, examples),
        "examples": _examples(examples),
        "targets": examples.target,
        "map": _map(examples),
        "nearest_by": examples.by,
        "ranking": manifest["ranking"],
        "cascade": manifest["cascade"],
    }


def _command(manifest: dict[str, Any], out: Path) -> str:
    """A command that makes the run again; settings that are not the defaults go in one by one."""
    from corpusfit.plan import Plan

    plan, plain = manifest["plan"], Plan().as_dict()
    words = ["corpusfit", "select"]
    for role in ("target", "corpus"):
        for source in manifest[role]:
            words += [f"--{role}", source["url"]]
    for group, values in plan.items():
        if not isinstance(values, dict):
            if values != plain[group]:
                words += ["--set", f"{group}={values}"]
            continue
        for name, value in values.items():
            if value != plain[group][name] and not isinstance(value, dict):
                words += ["--set", f"{group}.{name}={value}"]
    for name, value in plan["method"]["options"].items():
        words += ["--set", f"method.{name}={value}"]
    return shlex.join([*words, "--out", str(out)])


def _sources(manifest: dict[str, Any], spread: Spread) -> list[dict[str, Any]]:
    """Each source before and after: its part of the corpus, and of what was taken."""
    by_source = manifest["selected"]["by_source"]
    nothing = {"selected": 0, "tokens": 0}
    return [
        {
            "name": name,
            "segments": int(spread.of_source[i]),
            "tokens": int(spread.tokens_of_source[i]),
            "selected": int(by_source.get(name, nothing)["selected"]),
            "selected_tokens": int(by_source.get(name, nothing)["tokens"]),
        }
        for i, name in enumerate(spread.sources)
    ]


def _cuts(spread: Spread, threshold: float | None) -> dict[str, Any]:
    """Every possible cut: where it is, what it takes in all and of each source."""
    total = max(1, int(spread.of_source.sum()))
    taken = spread.segments.sum(axis=0)
    at = spread.thresholds
    own = [] if threshold is None else np.flatnonzero(at == np.float32(threshold)).tolist()
    return {
        "threshold": at.astype(float).tolist(),
        "share": (taken / total).round(6).tolist(),
        "segments": taken.tolist(),
        "tokens": spread.tokens.sum(axis=0).tolist(),
        "by_source": spread.segments.T.tolist(),
        "own": own[0] if own else len(at) // 2,
    }


def _scores(spread: Spread, examples: Examples) -> dict[str, Any]:
    """Histograms: of each source's segments, and of the target's units as far as they have scores."""
    target = [unit["score"] for unit in examples.target if unit["score"] is not None]
    clipped = np.clip(np.array(target, float), spread.bins[0], spread.bins[-1])
    return {
        "bins": spread.bins.astype(float).round(5).tolist(),
        "sources": spread.heights.tolist(),
        "target": np.histogram(clipped, spread.bins)[0].tolist(),
    }


def _examples(examples: Examples) -> list[dict[str, Any]]:
    """The segments, best first, each with the target texts nearest to it."""
    return [
        {**row, "nearest": nearest}
        for row, nearest in zip(examples.corpus, examples.nearest, strict=True)
    ]


def _map(examples: Examples) -> dict[str, Any]:
    return {
        "corpus": examples.of_corpus.round(4).tolist(),
        "target": examples.of_target.round(4).tolist(),
    }
