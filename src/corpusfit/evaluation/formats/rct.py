"""Read PubMed RCT: sentences of abstracts with their roles."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from corpusfit.core.errors import EmptyInputError, InputError
from corpusfit.evaluation.formats.labelled import Labelled, lines_of

ABSTRACT = "###"
"""Beginning of the line with an abstract's number, the first of a file."""


def read_rct(places: Sequence[str], split: str) -> Labelled:
    """Read the sentences of a split, each an example: lines of a label, a tab and a sentence.

    Reference: Dernoncourt and Lee (2017), https://github.com/Franck-Dernoncourt/pubmed-rct.
    """
    texts: list[list[str]] = []
    labels: list[list[str]] = []
    for place in places:
        for number, line in lines_of(Path(place)):
            label, _, text = line.partition("\t")
            if not line.strip() or line.startswith(ABSTRACT):
                continue
            if not label.strip() or not text.strip():
                raise InputError(
                    f"{place}, line {number}: must be a label, a tab and a sentence; got "
                    f"{line[:60]!r}."
                )
            texts.append([text.strip()])
            labels.append([label.strip()])
    if not texts:
        raise EmptyInputError(f"The {split} split of `task` must hold sentences; it is empty.")
    return Labelled(texts, labels)
