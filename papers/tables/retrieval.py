"""P@1 of bitext retrieval: models, and character n-grams as a baseline.

Runs `corpusfit.retrieval` with the named models, and TF-IDF of character n-grams by scikit-learn,
fitted on both sides of the test set; scikit-learn repeats both searches as a check. Sentences of
related languages share names and words, so only a score above the baseline shows something about
meaning.
Reference: mDAPT, section 6 and Table 6; Artetxe and Schwenk (2019) for Tatoeba's sets.

Run: .venv/bin/python benchmarks/retrieval.py PAIRS[,PAIRS…] MODEL…
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
from corpusfit.evaluation.retrieving import Pairs, deduplicate, read_pairs, retrieved
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.neighbors import NearestNeighbors

import corpusfit
from harness import RESULTS, machine


def letters(pairs: Pairs) -> dict[str, Any]:
    """P@1 of character n-grams in both directions, by corpusfit's search and scikit-learn's."""
    sides = [deduplicate(side) for side in pairs.sides]
    vectorizer = TfidfVectorizer(analyzer="char_wb", ngram_range=(2, 4), sublinear_tf=True)
    vectorizer.fit(sides[0].texts + sides[1].texts)
    vectors = [vectorizer.transform(side.texts) for side in sides]
    dense = [v.toarray().astype(np.float32) for v in vectors]
    result = {}
    for own in (0, 1):
        hits = retrieved(sides[own], sides[1 - own], dense[own], dense[1 - own])
        search = NearestNeighbors(n_neighbors=1, metric="cosine", algorithm="brute")
        near = search.fit(vectors[1 - own]).kneighbors(vectors[own], return_distance=False)[:, 0]
        peer = near[sides[own].places] == sides[1 - own].places
        direction = f"{pairs.languages[own]} to {pairs.languages[1 - own]}"
        result[direction] = {"precision": float(hits.mean()), "scikit_learn": float(peer.mean())}
    return result


def main(sets: list[str], models: list[str]) -> None:
    """Measure, write, print."""
    judged = corpusfit.retrieval(model=models, pairs=sets, machine=corpusfit.Machine(workers=1))
    rows: dict[str, Any] = {Path(name).name: {} for name in models}
    for r in judged.results:
        figures = {"precision": r.precision, "low": r.low, "high": r.high, "verdict": r.verdict}
        rows[Path(r.model).name][f"{r.pairs}: {r.source} to {r.target}"] = figures
    rows["character n-grams"] = {
        f"{pairs.name}: {direction}": figures
        for pairs in map(read_pairs, sets)
        for direction, figures in letters(pairs).items()
    }
    chance = {r.pairs: r.chance for r in judged.results}
    whole = {"name": "retrieval", "chance": chance, "results": rows, "machine": machine()}
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "retrieval.json").write_text(json.dumps(whole, indent=1) + "\n", "utf-8")
    for model, figures in rows.items():
        print(f"{model}: " + ", ".join(f"{100 * f['precision']:.1f}" for f in figures.values()))


if __name__ == "__main__":
    main(sys.argv[1].split(","), sys.argv[2:])
