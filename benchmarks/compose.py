"""Speed and resident memory of `compose` at several sizes.

Composes some millions of different sentences of three languages (smoothed shares, specific and
general text) from half as many again. Reports text per second and the peak memory of all
processes. Memory per document (some hundred bytes) grows with the text; documents have about
eight sentences, so the peak includes it. Resident sets are summed, so shared pages count several
times.

Run: .venv/bin/python benchmarks/compose.py [MILLIONS …]
"""

from __future__ import annotations

import json
import random
import sys
import tempfile
from pathlib import Path

from corpusfit.demo import FAMILIES, docstrings
from harness import RESULTS, machine
from memory import peak_of

SIZES = (1.0, 10.0)
LANGUAGES = {"en": 0.6, "de": 0.3, "fr": 0.1}
SPECIFIC = 0.3
RECIPE = """
composition = "M_D+M_WIKI"
budget = {budget}
[[sources]]
""" + "[[sources]]\n".join(
    f'name = "{kind}_{code}"\nkind = "{kind}"\nlanguage = "{code}"\npath = "{kind}_{code}.jsonl"\n'
    for code in LANGUAGES
    for kind in ("specific", "general")
)


def main(sizes: list[float]) -> None:
    """Measure all sizes and write the result."""
    found = {}
    for millions in sizes:
        with tempfile.TemporaryDirectory() as scratch:
            folder = Path(scratch)
            megabytes = write_sources(folder, int(millions * 1e6))
            found[millions] = measured(folder, millions, megabytes)
    result = {
        "name": "compose",
        "note": "peak resident MB of all processes, and MB of text (UTF-8) read a second",
        "by_millions_of_sentences": found,
        "machine": machine(),
    }
    (RESULTS / "compose.json").write_text(json.dumps(result, indent=1) + "\n")


def write_sources(folder: Path, budget: int) -> float:
    """Write distinct documents of about eight sentences; returns the MB of text."""
    words = sorted({w for m in FAMILIES.values() for t in docstrings(m.split()) for w in t.split()})
    words = [w for w in words if w.isalpha()]
    chance = random.Random(0)
    written = number = 0
    for code, share in LANGUAGES.items():
        for kind, part in (("specific", SPECIFIC), ("general", 4 / 3 - SPECIFIC)):
            left = int(budget * share * part) + 8
            left *= 3 if (kind, code) == ("general", "fr") else 1  # as it is up-sampled most
            with (folder / f"{kind}_{code}.jsonl").open("w") as out:
                while left > 0:
                    sentences = []
                    for _ in range(chance.randint(2, 14)):
                        number += 1
                        some = " ".join(chance.choices(words, k=chance.randint(5, 25)))
                        sentences.append(f"{some.capitalize()} in {number:x}a.")
                    left -= len(sentences)
                    text = " ".join(sentences)
                    written += len(text)
                    out.write(json.dumps({"text": text}) + "\n")
    (folder / "recipe.toml").write_text(RECIPE.format(budget=budget))
    return written / 1e6


def measured(folder: Path, millions: float, megabytes: float) -> dict[str, float]:
    """One composition: seconds, MB per second, peak memory."""
    command = [sys.executable, "-m", "corpusfit", "compose", str(folder / "recipe.toml")]
    seconds, peak = peak_of([*command, "--out", str(folder / "out")])
    manifest = json.loads((folder / "out" / "manifest.json").read_text())
    documents = sum(c["documents"] for c in manifest["counts"].values())
    assert manifest["budget"]["taken"] == manifest["budget"]["asked"]
    found = {
        "text_mb": round(megabytes),
        "documents": documents,
        "seconds": round(seconds, 1),
        "stages": manifest["seconds"],
        "mb_per_s": round(megabytes / seconds, 1),
        "peak_mb": round(peak),
    }
    print(f"{millions:g} million sentences: {found}", flush=True)
    return found


if __name__ == "__main__":
    main([float(size) for size in sys.argv[1:]] or list(SIZES))
