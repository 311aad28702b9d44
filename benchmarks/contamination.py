"""Search for held-out texts in a corpus: corpusfit and datasketch's MinHash with LSH.

Both search the same corpus in memory for the same held-out texts, on one thread. corpusfit
sketches and scans as `corpusfit contamination` does; datasketch makes 128 permutations of each
text's word 5-grams (as text-dedup does) and an index of resemblance 0.8. Preparing the held-out
texts and scanning are timed separately. Also reports the recall of planted copies: exact, with
one word in fifty replaced, and inside a text three times as long, which resemblance cannot find.
datasketch gets every 50th text of the corpus; the ratio is one of rates.
Reference: Broder (1997); datasketch; ChenghaoMou/text-dedup.

Run: .venv/bin/python benchmarks/contamination.py [RUNS]
The texts are random words of the standard library's docstrings; text that shares many 5-grams with
the held-out texts is scanned more slowly (docs/benchmarks.md).
"""

from __future__ import annotations

import random
import re
import sys

import numpy as np
from datasketch import MinHash, MinHashLSH

from corpusfit.core.types import text_array
from corpusfit.demo import FAMILIES, docstrings
from corpusfit.evaluation.decontamination.finder import (
    CONTAINMENT,
    ContaminationFinder,
    HeldoutIndex,
)
from harness import paired

WATCHED, CORPUS, NTH = 2_000, 40_000, 50
PERMUTATIONS = 128
_WORD = re.compile(r"\w+")


def main(runs: int) -> None:
    """Measure both steps."""
    chance = random.Random(0)
    found = docstrings(" ".join(FAMILIES.values()).split())
    words = [word for text in found for word in text.split() if word.isalpha()]
    watched = [_text(chance, words) for _ in range(WATCHED)]
    corpus = [_text(chance, words) for _ in range(CORPUS)]
    part = corpus[::NTH]
    columns = text_array(corpus)
    ours, theirs = ContaminationFinder(HeldoutIndex.of_texts(watched)), _index(watched)
    planted = _planted(chance, words, watched)
    planted_found = {
        kind: {
            "ours": float(np.mean([_found(ours, text, i) for i, text in enumerate(texts)])),
            "peer": float(np.mean([i in theirs.query(_hash(t)) for i, t in enumerate(texts)])),
        }
        for kind, texts in planted.items()
    }
    note = "words of docstrings, drawn one by one; one thread, texts in memory; "
    paired(
        "contamination_watch",
        lambda: ContaminationFinder(HeldoutIndex.of_texts(watched)),
        lambda: _index(watched),
        runs=runs,
        note=note + "preparing the watched texts",
        work=_size(watched),
        unit="mb",
    )
    paired(
        "contamination_scan",
        lambda: ours.find(columns),
        lambda: [theirs.query(_hash(text)) for text in part],
        runs=runs,
        note=note + f"looking through the corpus, theirs every {NTH}th text",
        work=_size(corpus),
        peer_work=_size(part),
        unit="mb",
        extra={"planted_found": planted_found},
    )
    print(planted_found)


def _text(chance: random.Random, words: list[str]) -> str:
    """Some 200 words."""
    return " ".join(chance.choices(words, k=chance.randint(100, 300)))


def _planted(chance: random.Random, words: list[str], watched: list[str]) -> dict[str, list[str]]:
    """Copies of the first 200 held-out texts, of three kinds."""
    some = watched[:200]
    return {
        "same": some,
        "edited": [
            " ".join("xyz" if chance.random() < 0.02 else w for w in text.split()) for text in some
        ],
        "inside": [f"{_text(chance, words)} {text} {_text(chance, words)}" for text in some],
    }


def _found(watch: ContaminationFinder, text: str, number: int) -> bool:
    return number in watch.find(text_array([text])).watched


def _hash(text: str) -> MinHash:
    words = _WORD.findall(text.lower())
    made = MinHash(num_perm=PERMUTATIONS)
    made.update_batch({" ".join(words[i : i + 5]).encode() for i in range(len(words) - 4)})
    return made


def _index(texts: list[str]) -> MinHashLSH:
    index = MinHashLSH(threshold=CONTAINMENT, num_perm=PERMUTATIONS)
    for number, text in enumerate(texts):
        index.insert(number, _hash(text))
    return index


def _size(texts: list[str]) -> float:
    """Size of the texts in MB."""
    return sum(len(text.encode()) for text in texts) / 1e6


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 5)
