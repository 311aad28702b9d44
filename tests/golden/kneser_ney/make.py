"""Make the golden files of this folder: a text of invented words, and what KenLM makes of it.

Run: python make.py PATH_OF_LMPLZ, with the Python module `kenlm` installed. See README.md.
"""

import json
import subprocess
import sys
from pathlib import Path

import kenlm
import numpy as np

HERE = Path(__file__).parent
FIRST = ("ba", "ke", "li", "mo", "nu", "pa", "ri", "so", "tu", "vi", "wa", "ze", "cho", "dra")
LAST = ("fle", "n", "r", "s", "l", "m", "x", "d", "t", "ko", "na", "re", "mi", "lu", "ta", "gri")
LINES, HELD_OUT, LONGEST = 170, 40, 12


def lines(rng: np.random.Generator, n: int, words: list[str]) -> list[str]:
    """Sentences whose words follow Zipf's law and half the time depend on the word before."""
    weight = 1.0 / np.arange(1, len(words) + 1)
    weight /= weight.sum()
    out = []
    for _ in range(n):
        line: list[int] = []
        for _ in range(rng.integers(1, LONGEST + 1)):
            if line and rng.random() < 0.5:
                line.append((7 * line[-1] + int(rng.integers(3))) % len(words))
            else:
                line.append(int(rng.choice(len(words), p=weight)))
        out.append(" ".join(words[i] for i in line))
    return out


def main() -> None:
    """Write train.txt, test.txt, order1.arpa to order5.arpa and sentences.json."""
    rng = np.random.default_rng(20)
    words = [a + b for a in FIRST for b in LAST]
    rng.shuffle(words)
    train, test = lines(rng, LINES, words), lines(rng, HELD_OUT, words)
    test = [" ".join(w if rng.random() > 0.1 else "neverseen" for w in t.split()) for t in test]
    (HERE / "train.txt").write_text("\n".join(train) + "\n", "utf-8")
    (HERE / "test.txt").write_text("\n".join(test) + "\n", "utf-8")
    sentences = {}
    for order in range(1, 6):
        arpa = HERE / f"order{order}.arpa"
        command = [sys.argv[1], "-o", str(order), "-S", "100M", "--discount_fallback"]
        with open(HERE / "train.txt", "rb") as text, open(arpa, "wb") as out:
            subprocess.run(command, stdin=text, stdout=out, check=True)
        if order > 1:  # the Python module refuses models of single words
            model = kenlm.Model(str(arpa))
            sentences[order] = [round(model.score(t, bos=True, eos=True), 5) for t in test]
    (HERE / "sentences.json").write_text(json.dumps(sentences, indent=0) + "\n", "utf-8")


if __name__ == "__main__":
    main()
