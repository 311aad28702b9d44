"""TADPOLE, Figure 5 (DANA, Table 2): composition of a union of four corpora after filtering.

News, finance, abstracts of computer science and of biology, in the paper's proportions; 80 % are
filtered out. Proportions are of documents (their beginnings), the papers' of bytes.
Reference: TADPOLE, section 3.1, Figure 5 and appendix B; DANA, Table 2.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

import data
from corpusfit.types import Paired
from data import Setting
from measure import Variant, best, scored, shown
from report import Report, of_seeds, percent, spread, table

ENCODER = "minilm"
RETAINED = 0.2
CORPORA = {
    "News": ("news_allsides", 0.218),
    "Finance": ("finance_", 0.150),
    "CS abstracts": ("cs_arxiv", 0.245),
    "Bio abstracts": ("bio_asreview", 0.387),
}
"""Prefixes of the sources, and the share of the union in the papers."""
PAPER = {"CS tasks": (0.7, 0.3, 78.0, 20.9), "Bio abstracts": (2.0, 0.1, 15.4, 82.4)}
"""The papers' per cent of retained text by corpus, with an isolation forest on this target."""
MIXED = {"CS tasks": ("ACL-ARC", "SciERC"), "ChemProt": ("ChemProt",)}
"""Task texts of a target; `Bio abstracts` are of no task."""
METHODS: tuple[Variant, ...] = (("isolation_forest", ()), ("consensus", ()))

Piece = tuple[str, int]
"""A target and a seed."""


def pieces(s: Setting) -> list[Piece]:
    """Pieces that can be measured in parallel."""
    return [(name, seed) for seed in range(s.seeds) for name in ("CS tasks", *_BIO)]


_BIO = ("Bio abstracts", "ChemProt")


def measure(s: Setting, piece: Piece) -> dict[str, Any]:
    """By method each corpus's share of the retained documents, and the share of it retained."""
    name, seed = piece
    union, corpora = _union(s, seed)
    target = data.paired(_target(s, name, seed), ENCODER)
    background = union.take(data.drawn(len(union), s.background, seed))
    amount = round(RETAINED * len(union))
    result: dict[str, Any] = {
        "input": [float(np.mean(corpora == c)) for c in CORPORA],
        "documents": len(union),
    }
    for variant in METHODS:
        found = scored(variant, target, background, union, embedder=ENCODER, seed=seed)
        kept = corpora[best(found.scores, amount)]
        result[shown(variant)] = {
            "of_retained": [float(np.mean(kept == c)) for c in CORPORA],
            "retained": [float(np.sum(kept == c) / np.sum(corpora == c)) for c in CORPORA],
        }
    return result


def _union(s: Setting, seed: int) -> tuple[Paired, NDArray[np.str_]]:
    """All documents that the papers' proportions allow, and the corpus of each."""
    places = {name: np.flatnonzero(data.inside(s, prefix)) for name, (prefix, _) in CORPORA.items()}
    n = min(len(places[name]) / share for name, (_, share) in CORPORA.items())
    taken = [
        at[data.drawn(len(at), round(n * CORPORA[name][1]), seed)] for name, at in places.items()
    ]
    names = np.repeat(list(CORPORA), [len(at) for at in taken])
    return data.units(s, ENCODER).take(np.concatenate(taken)), names


def _target(s: Setting, name: str, seed: int) -> list[str]:
    """The texts of a target, drawn with a seed."""
    if name in MIXED:
        texts = [t for task in MIXED[name] for t in data.target_texts(s, task, seed)]
    else:
        texts = data.other_texts(s, CORPORA[name][0], 4 * s.target)
    return [texts[i] for i in data.drawn(len(texts), s.target, seed)]


def report(s: Setting, found: dict[Piece, dict[str, Any]]) -> Report:
    """A table for each target, with the papers' results."""
    parts = [_text(s, next(iter(found.values()))["documents"])]
    figures: dict[str, Any] = {}
    for name in ("CS tasks", *_BIO):
        of = [r for (n, _), r in found.items() if n == name]
        methods = list(map(shown, METHODS))
        rows = []
        for i, corpus in enumerate(CORPORA):
            ours = [percent([r[m][k][i] for r in of]) for m in methods for k in _KINDS]
            said = f"{PAPER[name][i]:.1f}" if name in PAPER else "–"
            rows.append([corpus, percent([of[0]["input"][i]]), said, *ours])
        head = ["corpus", "input", "paper: of retained"]
        head += [f"`{m}`: {k.replace('_', ' ')}" for m in methods for k in _KINDS]
        parts += [f"## Target: {name}", table(head, rows)]
        figures[name] = {
            m: {
                k: {c: spread([r[m][k][i] for r in of]) for i, c in enumerate(CORPORA)}
                for k in _KINDS
            }
            for m in methods
        }
    return Report({"found": figures, "paper_percent_of_retained": PAPER}, "\n\n".join(parts))


_KINDS = ("of_retained", "retained")


def _text(s: Setting, n: int) -> str:
    return (
        f"Percent, in a union of {n:,} documents (the first {data.WORDS} words of each) of four "
        "corpora in the papers' proportions: `news_allsides`, `finance_*`, `cs_arxiv`, "
        f"`bio_asreview`. {100 * RETAINED:g} % of the documents are retained. *Of retained*: what "
        "the corpus makes up of them, as in the papers; *retained*: how much of the corpus is "
        f"among them. {of_seeds(s.seeds)}, which draw union, target and background.\n\n"
        f"Targets are {s.target} texts: of ACL-ARC and SciERC together, as in the papers; biology "
        "abstracts that are not in the union, as in the papers; and ChemProt, a task's texts. The "
        "papers fit an isolation forest on BERT-base's vectors, and count bytes of REALNEWS, "
        f"TRC2-financial and Semantic Scholar abstracts; here {ENCODER} encodes, and other sources "
        "of the same kinds stand in. With biology at 38.7 % and 20 % retained, all that is "
        "retained could be of it; with computer science at 24.5 % also."
    )
