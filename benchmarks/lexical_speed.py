"""Scoring speed of methods on word statistics, one thread each: corpusfit and scikit-learn.

TF-IDF cosines to the target's mean and to the nearest of 4,000 target texts, and n-gram coverage.
Reports MB of text per second and the difference of the scores. scikit-learn finds words by a
regular expression that splits some non-ASCII words differently, so scores differ by more than
rounding; on equal tokens they do not (`papers/tests/test_tfidf.py`).

Run: python benchmarks/lexical_speed.py TASK PILE
TASK is a .jsonl.zst with a target's texts, PILE a folder of .jsonl files.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import sys
from pathlib import Path
from typing import Any

import numpy as np
from lexical_quality import documents, target
from sklearn.feature_extraction.text import CountVectorizer, TfidfVectorizer

from corpusfit.core.types import text_array
from corpusfit.scoring import registry
from harness import paired


def main(task: Path, pile: Path) -> None:
    """Compare the three."""
    wanted = target(task, 4_000).to_pylist()
    texts = documents(pile)[0]
    size = sum(len(t.encode()) for t in texts) / 1e6
    words = {"token_pattern": r"(?u)\w+"}
    vectorizer = TfidfVectorizer(**words).fit([*wanted, *texts])
    vectorizer.idf_ = vectorizer.idf_ - 1.0  # ours: ln((1 + N) / (1 + df))
    known = vectorizer.transform(wanted)
    mean = np.asarray(known.mean(axis=0)).ravel()
    mean /= np.linalg.norm(mean)

    def nearest() -> Any:
        cosines = (vectorizer.transform(texts) @ known.T).toarray()
        return np.partition(cosines, -20, axis=1)[:, -20:].mean(axis=1)

    grams = CountVectorizer(ngram_range=(3, 3), max_features=10_000, **words)
    frequency = np.asarray(grams.fit_transform(wanted).sum(axis=0), np.float64).ravel()
    for name, settings, peer in (
        ("tfidf", {}, lambda: vectorizer.transform(texts) @ mean),
        ("tfidf", {"compare": "nearest"}, nearest),
        ("ngram_coverage", {}, lambda: grams.transform(texts) @ frequency),
    ):
        compare(name, settings, peer, (wanted, texts), size)


def compare(
    name: str, settings: dict[str, Any], peer: Any, both: tuple[list[str], list[str]], size: float
) -> None:
    """Time one method and its peer, which omits coverage's division by length."""
    wanted, texts = (text_array(t) for t in both)
    scorer = registry.build(name, settings).fit(wanted, texts, seed=0)
    extra = {}
    if name == "tfidf":
        extra = {"largest_difference": float(np.abs(scorer.score(texts) - peer()).max())}
    paired(
        "_".join(["lexical", name, *settings.values()]),
        lambda: scorer.score(texts),
        peer,
        runs=3,
        note=f"ours against scikit-learn; {len(wanted)} target texts, {len(texts)} documents",
        work=size,
        unit="MB",
        extra=extra,
    )
    print("   ", extra)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
