"""Bitext retrieval: precision at 1 (P@1) of translations by cosine similarity."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from unicodedata import normalize

import numpy as np
from numpy.typing import NDArray

from corpusfit.core.types import Vectors
from corpusfit.embed.contract import Progress
from corpusfit.evaluation.resampling import ROUNDING

_BLOCK = 2**23  # cosines in memory at once: 64 MiB


@dataclass(frozen=True, eq=False)
class UniqueSentences:
    """n sentences, deduplicated.

    Attributes:
        texts: the u distinct sentences, in order of first occurrence.
        places: int64 [n], position in `texts` of each sentence.
    """

    texts: list[str]
    places: NDArray[np.int64]


def deduplicate(texts: Sequence[str]) -> UniqueSentences:
    """Deduplicate n sentences; one in two Unicode forms is one."""
    forms = [normalize("NFC", text) for text in texts]
    first = dict(zip(reversed(forms), reversed(texts), strict=True))
    numbers = {form: number for number, form in enumerate(dict.fromkeys(forms))}
    places = [numbers[form] for form in forms]
    return UniqueSentences([first[form] for form in numbers], np.array(places, np.int64))


def nearest(
    queries: Vectors, others: Vectors, block: int = _BLOCK, on_progress: Progress | None = None
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """The nearest neighbour of each query by cosine, and its margin; exact search."""
    columns = _of_unit_length(others).T
    place = np.empty(len(queries), np.int64)
    lead = np.empty(len(queries), np.float64)
    rows = max(1, block // len(others))
    for start in range(0, len(queries), rows):
        cosines = _of_unit_length(queries[start : start + rows]) @ columns
        at = cosines.argmax(1)
        best = np.take_along_axis(cosines, at[:, None], 1)[:, 0]
        np.put_along_axis(cosines, at[:, None], -np.inf, 1)
        place[start : start + rows] = at
        lead[start : start + rows] = best - cosines.max(1)
        if on_progress is not None:
            on_progress(len(at))
    return place, lead


def _of_unit_length(vectors: Vectors) -> NDArray[np.float64]:
    """float64 [n, d], vectors of length 1; zero vectors stay zero."""
    wide = vectors.astype(np.float64)
    lengths = np.linalg.norm(wide, axis=1, keepdims=True)
    wide /= np.where(lengths > 0, lengths, 1)
    return wide


def retrieved(
    source: UniqueSentences,
    target: UniqueSentences,
    queries: Vectors,
    others: Vectors,
    on_progress: Progress | None = None,
) -> NDArray[np.bool_]:
    """Whether the nearest sentence of the other side is the translation; bool [n].

    Ties count as not retrieved, so a model with one vector for all sentences retrieves none.

    Reference: mDAPT, section 6 and Table 6; Artetxe and Schwenk (2019), section 4.3.
    """
    place, lead = nearest(queries, others, on_progress=on_progress)
    is_own: NDArray[np.bool_] = place[source.places] == target.places
    return is_own & (lead[source.places] > ROUNDING)


def tallies(hits: NDArray[np.bool_]) -> NDArray[np.int64]:
    """int64 [n, 3, 1], counts whose metric `accuracy` is P@1 (`metrics.tallies`)."""
    counts = np.ones((len(hits), 3, 1), np.int64)
    counts[:, 0, 0] = hits
    return counts
