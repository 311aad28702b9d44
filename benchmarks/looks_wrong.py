"""What a reader would call wrong in a selection by `cynical`, with a figure for each.

The corpus has equally many words of sixteen sources; a source that is a target's domain is a
sixteenth of it, documents of the target kept apart. For each target of 100 texts:
- bits a word of unseen texts under an independent trigram (trigram.py) of the first .1, 1 and 10 %
  of the words, for `cynical` and `moore_lewis`;
- salad: documents of 50 to 300 of the target's words are .4 % of the corpus: drawn at random from
  its 30 or 300 most frequent words or from all, or a list of 12 words over and over; share of the
  first .1 % and 1 % of the selected words;
- copies: 300 copies of a good text, unseen texts of the target of 60 words or more, in which 5 %
  of the words are exchanged for random words of the corpus; share of the first .1 % and 1 %;
- domain: how much of the target's own source the first 5 and 10 % of the words hold.

Run: python benchmarks/looks_wrong.py DATA WORK [--pieces 64 --gamma 1] [--only TARGET,...]
Adds the figures of a commit and a cut to results/looks_wrong.json.
"""

from __future__ import annotations

import argparse
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import orjson

import corpusfit
from benefit_cells import lines, outside, store, texts_of
from corpusfit.core.types import buffers, text_array
from corpusfit.kernels.characters import table as characters
from corpusfit.kernels.kneser_ney import number_words
from corpusfit.text.context import Machine
from cuts import cut
from harness import machine
from trigram import judged

RESULTS = Path(__file__).parent / "results" / "looks_wrong.json"
SHARES = (0.001, 0.01, 0.1)
WORDS_OF_SOURCE, APART, FITTED, JUDGED, JUDGED_WORDS = 140_000, 5, 100, 400, 20_000
TARGETS = {
    "titles": ("tasks_more/stackoverflow_titles", "rows"),
    "tweets": ("pile_more/tweets", "rows"),
    "comments": ("tasks_more/python_comments", "rows"),
    "powershell": ("pile/it_powershell", "passages"),
    "php": ("pile/it_php_en", "sentences"),
    "law": ("pile/legal_austlii", "sentences"),
    "medical": ("pile/bio_medquad", "sentences"),
    "proteins": ("tasks/chemprot", "rows"),
    "citations": ("tasks/acl_arc", "rows"),
    "news": ("tasks/ag_news", "rows"),
    "books": ("pile/books_gutenberg", "passages"),
    "abstracts": ("pile/cs_arxiv", "rows"),
}
"""Where they are, and what is a text."""


@dataclass(frozen=True)
class Prepared:
    """A folder with the corpus by source, and the words and vocabulary of it."""

    data: Path
    folder: Path

    def _documents(self, source: str) -> Iterator[tuple[bool, str]]:
        """The texts of a source, and whether they are kept apart."""
        for i, row in enumerate(lines(self.data / f"{source}.jsonl.zst")):
            apart = any(source == of for of, _ in TARGETS.values()) and i % APART == APART - 1
            yield apart, orjson.loads(row)["text"]

    def corpus(self) -> Path:
        """The corpus, a file for each source."""
        folder = self.folder / "corpus"
        for place in ("pile", "pile_more"):
            for path in sorted((self.data / place).glob("*.jsonl.zst")):
                name, kept, left = path.name.split(".")[0], [], WORDS_OF_SOURCE
                if (folder / f"{name}.jsonl").exists():
                    continue
                for apart, text in self._documents(f"{place}/{name}"):
                    if not apart and left > 0:
                        kept.append(text)
                        left -= len(text.split())
                store(folder / f"{name}.jsonl", kept)
        return folder

    def documents(self) -> dict[str, list[str]]:
        """The corpus's texts by source."""
        return {p.stem: texts_of(p) for p in sorted(self.corpus().glob("*.jsonl"))}

    def target(self, name: str) -> tuple[list[str], list[str]]:
        """The texts of a target, and unseen ones that no document of the corpus contains."""
        folder = self.folder / "targets" / name
        if not (folder / "unseen.jsonl").exists():
            source, form = TARGETS[name]
            if source.startswith("pile"):
                found = [t for a, text in self._documents(source) if a for t in cut(text, form)]
            else:
                rows = lines(self.data / source / "train.jsonl.zst")
                found = [orjson.loads(row)["text"] for row in rows]
            found = list(dict.fromkeys(t for t in found if len(t.split()) > 2))
            drawn = [found[i] for i in np.random.default_rng(0).permutation(len(found))]
            store(folder / "fit.jsonl", drawn[:FITTED])
            clean = outside(drawn[FITTED : FITTED + 2 * JUDGED], self.documents())[:JUDGED]
            words = np.cumsum([len(text.split()) for text in clean])
            store(folder / "unseen.jsonl", clean[: int(np.searchsorted(words, JUDGED_WORDS)) + 1])
        return texts_of(folder / "fit.jsonl"), texts_of(folder / "unseen.jsonl")


def salad(fit: list[str], words: int) -> list[str]:
    """Documents of 50 to 300 of the target's words in random order, four kinds in turn."""
    draw = np.random.default_rng(1)
    counted = Counter(re.findall(r"\w+", " ".join(fit).lower())).most_common()
    made: list[str] = []
    while words > 0:
        n = int(draw.integers(50, 300))
        from_first = (30, 300, len(counted), 12)[len(made) % 4]
        first = [word for word, _ in counted[:from_first]]
        shares = np.array([float(count) for _, count in counted[:from_first]])
        if len(made) % 4 == 3:
            listed = draw.permutation(first)
            made.append(" ".join(listed[i % len(listed)] for i in range(n)))
        else:
            made.append(" ".join(draw.choice(first, n, p=shares / shares.sum())))
        words -= n
    return made


def copies(unseen: list[str], vocabulary: list[str], number: int = 300) -> list[str]:
    """Copies of a good text, with a twentieth of its words exchanged."""
    draw = np.random.default_rng(2)
    good: list[str] = []
    for text in unseen:
        good += text.split()
        if len(good) >= 60:
            break
    made = []
    for _ in range(number):
        new = list(good)
        for i in np.flatnonzero(draw.random(len(good)) < 0.05):
            new[i] = vocabulary[int(draw.integers(len(vocabulary)))]
        made.append(" ".join(new))
    return made


def number_of_words(texts: list[str]) -> int:
    """Words of texts, as the judge counts them."""
    numbers, _ = number_words(*buffers(text_array(texts)), characters(), False)
    return int(np.count_nonzero(numbers > 2))


def by_score(
    prepared: Prepared, fit: list[str], method: str, cut_as: tuple[int, int], more: dict[str, Any]
) -> tuple[list[str], np.ndarray, np.ndarray]:
    """What `select` takes, in falling order of the score: texts, their words and sources.

    Args:
        more: further sources of the corpus, with their texts.
    """
    target = prepared.folder / "target.jsonl"
    store(target, fit)
    corpus = [str(prepared.corpus())]
    for name, texts in more.items():
        store(prepared.folder / f"{name}.jsonl", texts)
        corpus.append(str(prepared.folder / f"{name}.jsonl"))
    run = corpusfit.select(
        target,
        corpus,
        out=prepared.folder / "selection",
        method=method,
        fraction=SHARES[-1] * 1.6,  # a share of word pieces, not of words
        settings=(f"cut.pieces={cut_as[0]}", f"cut.gamma={cut_as[1]}"),
        overwrite=True,
        machine=Machine("inline", 1, prepared.folder / "cache"),
    )
    rows = list(run)
    ties = np.random.default_rng(0).permutation(len(rows))
    order = np.lexsort((ties, [-row["score"] for row in rows]))
    texts = [rows[i]["text"] for i in order]
    lengths = np.array([number_of_words([text]) for text in texts])
    sources = np.array([Path(rows[i]["source"]).name.split(".")[0] for i in order])
    return texts, lengths, sources


def of_first(own: np.ndarray, lengths: np.ndarray, words: float) -> float:
    """Percent of the first words that are of some texts, bool [n]."""
    first = np.cumsum(lengths) <= words
    return round(100 * float(lengths[first & own].sum() / max(1, lengths[first].sum())), 1)


def measure(prepared: Prepared, name: str, cut_as: tuple[int, int]) -> dict[str, Any]:
    """The figures of a target."""
    fit, unseen = prepared.target(name)
    documents = prepared.documents()
    everything = [text for texts in documents.values() for text in texts]
    total = number_of_words(everything)
    numbers = number_words(*buffers(text_array([*everything, *fit, *unseen])), characters(), False)
    found: dict[str, Any] = {}
    for method in ("cynical", "moore_lewis"):
        texts, lengths, sources = by_score(prepared, fit, method, cut_as, {})
        found[method] = [
            round(judged(texts, unseen, len(numbers[1]), round(share * total)), 3)
            for share in SHARES
        ]
        of, _ = TARGETS[name]
        if method == "cynical" and of.startswith("pile"):
            own = sources == of.split("/")[1]
            size = number_of_words(documents[of.split("/")[1]])
            found["domain"] = [
                round(of_first(own, lengths, share * total) * share * total / size, 1)
                for share in (0.05, 0.1)
            ]
    vocabulary = sorted({word for text in everything[::50] for word in text.split()})
    added = {"salad": salad(fit, round(0.004 * total)), "copies": copies(unseen, vocabulary)}
    for kind, more in added.items():
        _, lengths, sources = by_score(prepared, fit, "cynical", cut_as, {kind: more})
        found[kind] = [of_first(sources == kind, lengths, s * total) for s in SHARES[:2]]
    return found


def main() -> None:
    """Measure each target, and print what is found."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("data", type=Path)
    parser.add_argument("work", type=Path)
    parser.add_argument("--pieces", type=int, default=64)
    parser.add_argument("--gamma", type=int, default=1)
    parser.add_argument("--only", type=lambda given: given.split(","), default=list(TARGETS))
    parser.add_argument("--name", default=machine()["commit"], help="what is measured")
    asked = parser.parse_args()
    prepared = Prepared(asked.data, asked.work)
    known = orjson.loads(RESULTS.read_bytes()) if RESULTS.exists() else {}
    of_run = known.setdefault(f"{asked.name}, {asked.pieces} x {asked.gamma}", {})
    for name in asked.only:
        of_run[name] = measure(prepared, name, (asked.pieces, asked.gamma))
        print(name, of_run[name], flush=True)
        RESULTS.write_bytes(orjson.dumps(known, option=orjson.OPT_INDENT_2))


if __name__ == "__main__":
    main()
