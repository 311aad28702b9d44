"""When has a corpus little like a target? What `likeness` says where the answer is known.

Each target is measured on the whole pile, on the pile without the sources of its own domain, and on
corpora of two manuals of software and of film reviews alone. Of targets whose domain is in the pile
none may be called foreign there; targets in other languages must be. `LITTLE` is chosen by that.
The corpus is cut as `select` cuts it for the target, and once in 256 word pieces, as for methods
on embeddings.

Run: .venv/bin/python benchmarks/foreign.py DATA
DATA has pile/*.jsonl.zst, tasks/NAME and tasks_more/NAME/train.jsonl.zst. Writes
results/foreign.json.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import numpy as np

from benefit_cells import some, texts_of
from corpusfit import text as corpus
from corpusfit.core.plan import CutPlan
from corpusfit.core.types import Documents, Texts, take_texts, text_array
from corpusfit.scoring.likeness import LITTLE, likeness
from corpusfit.selection.resolving import _LENGTHS
from corpusfit.text.reading import cut_units
from harness import RESULTS, machine

EVERY = 10
"""Every so many documents of a source are read."""
UNITS = 10_000
"""As many of the corpus as `fit.background`."""
SIZES = ((30, 0), (100, 0), (500, 0), (2_000, 0), (500, 256))
"""Texts of the target, and word pieces of a unit; 0 as for the target."""
NONE = "-"
# the prefixes of the sources of each target's domain
TARGETS = {
    "chemprot": ("bio",),
    "ade": ("bio",),
    "hallmarks": ("bio",),
    "covid_questions": ("bio",),
    "acl_arc": ("cs",),
    "scierc": ("cs",),
    "csabstruct": ("cs",),
    "sst2": ("reviews",),
    "imdb": ("reviews",),
    "ag_news": ("news", "finance_reuters"),
    "hyperpartisan": ("news", "finance_reuters"),
    "bbc_news": ("news", "finance_reuters"),
    "financial_phrasebank": ("finance",),
    "court_issue": ("legal",),
    "stackoverflow_titles": ("it_",),
    "python_comments": ("it_",),
    # halves of sources of the pile
    "legal_austlii": ("legal",),
    "it_php_en": ("it_",),
    "bio_medquad": ("bio",),
    "finance_fed": ("finance",),
    # no source is of their domain
    **dict.fromkeys(("tweet_sentiment", "goemotions", "swda", "banking77", "privacy_policy"), ()),
    **dict.fromkeys(("atis", "product_titles", "job_titles"), ()),
    # other languages
    **dict.fromkeys(("hatebr", "germeval21_fact", "smsa_id", "tweet_sentiment_fr"), (NONE,)),
}
ALONE = {"manuals": ("it_",), "reviews": ("reviews",)}


def units(texts: list[str], pieces: int) -> tuple[np.ndarray, Texts]:
    """The units of texts, and the number of the text of each."""
    cut, found = cut_units(
        Documents(np.arange(len(texts)), text_array(texts)), CutPlan("window", pieces)
    )
    return cut.row, found


def followed(target: list[str]) -> int:
    """The word pieces of a unit that `select` takes for a target."""
    whole = Documents(np.arange(len(target)), text_array(target))
    median = np.median(cut_units(whole, CutPlan("document"))[0].pieces)
    return min(_LENGTHS, key=lambda length: (abs(length - median), -length))


def target_of(data: Path, pile: dict[str, list[str]], name: str) -> list[str]:
    """The different texts of a task, or half of a source."""
    if name in pile:
        return some(pile[name], len(pile[name]) // 2, 0)
    (path,) = data.glob(f"tasks*/{name}/train.jsonl.zst")
    return list(dict.fromkeys(filter(None, map(corpus.normalize, texts_of(path)))))


def measured(target: list[str], documents: list[str], pieces: int) -> dict[str, Any]:
    """The likeness of a target and a corpus, and its processor seconds."""
    _, cut = units(documents, pieces)
    places = np.random.default_rng(1).permutation(len(cut))[:UNITS]
    sample = take_texts(cut, np.sort(places))
    numbers, texts = units(target, pieces)
    begin = time.process_time()
    found = likeness(texts, sample, numbers, seed=0)
    seconds = time.process_time() - begin
    if found is None:
        return {}
    bits = [round(each, 2) for each in (found.drawn, found.selected, found.target)]
    closed = None if found.closed is None else round(found.closed, 3)
    said = {"words": found.words, "bits": bits, "closed": closed, "foreign": found.foreign}
    return {**said, "seconds": round(seconds, 2)}


def main() -> None:
    """Measure every target, print the table, store it."""
    parser = argparse.ArgumentParser()
    parser.add_argument("data", type=Path)
    asked = parser.parse_args()
    pile = {
        path.name.split(".")[0]: texts_of(path)[::EVERY]
        for path in sorted(asked.data.glob("pile/*.jsonl.zst"))
    }
    rows = []
    for name, own in TARGETS.items():
        every = target_of(asked.data, pile, name)
        apart = {*every} if name in pile else set()
        kept = {source: [t for t in texts if t not in apart] for source, texts in pile.items()}
        corpora = {"pile": ("",), **ALONE}
        for n, longest in SIZES:
            target = some(every, n, n)
            pieces = longest or followed(target)
            row: dict[str, Any] = {"target": name, "texts": len(target), "pieces": pieces}
            if any(row.items() <= other.items() for other in rows):
                continue
            for label, prefixes in corpora.items():
                documents = [t for s in kept if s.startswith(prefixes) for t in kept[s]]
                if not own or label == "pile" or not set(own) & set(prefixes):
                    row[label] = measured(target, documents, pieces)
            if own and own != (NONE,):
                others = [t for s in kept if not s.startswith(own) for t in kept[s]]
                row["without"] = measured(target, others, pieces)
            rows.append(row)
            print(line(row), flush=True)
    said = {"little": LITTLE, **machine(), "rows": rows}
    (RESULTS / "foreign.json").write_text(json.dumps(said) + "\n")


def line(row: dict[str, Any]) -> str:
    """A row of the table: the part closed in each corpus, `F` where it is called foreign."""
    cells = [f"{row['target']:20s} {row['texts']:5d} {row['pieces']:4d}"]
    for label in ("pile", "without", *ALONE):
        found = row.get(label, {})
        closed = found.get("closed")
        share = "  –  " if closed is None else f"{closed:5.2f}"
        cells.append(f"{label} {share} {'F' if found.get('foreign') else ' '}")
    return " | ".join(cells)


if __name__ == "__main__":
    main()
