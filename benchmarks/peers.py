"""Other tools and papers as published, for benchmarks/benefit.py: one float for each text.

All of them score the segments that our methods score, and see the target's texts normalized as for
our methods, so that a task's tokenisation and marks do not decide.
`peer_dsir` and `peer_fasttext` need requirements-bench.txt.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from corpusfit.text import normalize

Numbers = NDArray[np.float64]
Peer = Callable[[Sequence[str]], Numbers]
"""Scores of n texts, float64 [n]; the first taken has the highest."""


def dsir(texts: Sequence[str], wanted: Sequence[str], seed: int) -> Numbers:
    """Log importance weights plus Gumbel noise, as `HashedNgramDSIR.resample` takes them.

    Defaults of the package; texts below its least length of 100 tokens come last.
    Source: Xie et al. (2023), https://github.com/p-lambda/dsir (data-selection 1.0.3).
    """
    from data_selection import HashedNgramDSIR

    sides = {"raw": texts, "target": wanted}

    def read(side: str) -> Any:
        return ({"text": text} for text in sides[side])

    with tempfile.TemporaryDirectory() as cache:
        made = HashedNgramDSIR(["raw"], ["target"], cache, read, target_load_dataset_fn=read)
        made.num_proc = 1
        made.fit_importance_estimator()
        made.compute_importance_weights()
        weights = np.load(made.log_importance_weights_dir / "0.npy")
        lengths = np.load(made.perexample_metadata_dir / "0.npy")
    noisy = weights + np.random.default_rng(seed).gumbel(size=len(weights))
    short = ~made.perexample_metadata_filter(lengths)
    return np.where(short, noisy - np.ptp(noisy) - 1, noisy)


def fasttext(texts: Sequence[str], wanted: Sequence[str], seed: int) -> Numbers:
    """Probability of the target by a classifier against as many random texts, as DCLM's.

    Words and pairs of words, otherwise the defaults of fastText, on one thread as its result
    depends on their number; training texts in seeded order.
    Source: Li et al. (2024), arXiv 2406.11794, section 4.4; its train_fasttext_classifier.py.
    """
    from fasttext import train_supervised

    rng = np.random.default_rng(seed)
    drawn = rng.choice(len(texts), min(len(wanted), len(texts)), replace=False)
    rows = [f"__label__hq {line(text)}\n" for text in wanted]
    rows += [f"__label__cc {line(texts[i])}\n" for i in drawn]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "train.txt"
        path.write_text("".join(rows[i] for i in rng.permutation(len(rows))), "utf-8")
        model = train_supervised(str(path), wordNgrams=2, thread=1, seed=seed, verbose=0)
    found = zip(*model.predict([line(text) for text in texts]), strict=True)
    return np.array([p if name == "__label__hq" else 1 - p for (name,), (p,) in found], np.float64)


def line(text: str) -> str:
    """A text in one line, as DCLM gives it to fastText."""
    return " ".join(text.strip().splitlines())


PEERS = {
    "peer_dsir": dsir,
    "peer_fasttext": fasttext,
}
"""Names as methods of benchmarks/benefit.py: (n texts, target texts, seed) -> float64 [n]."""


def peer_of(method: str, wanted: Sequence[str], seed: int) -> Peer | None:
    """The peer of a name, for a target's texts; None if none has that name."""
    if method not in PEERS:
        return None
    shown = [normalize(text) for text in wanted]
    return lambda texts: PEERS[method](texts, shown, seed)
