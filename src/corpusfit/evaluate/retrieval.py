"""Whether a model puts a sentence next to its translation: precision at 1 by cosine.

What: for each sentence of one side the nearest of the other by cosine, over all of them; it is
found if that is its own translation.
Why: no label and no fine-tuning is needed, so what is judged is the encoder alone: whether its
vectors mean the same in several languages.
Trade-off: the search is exact, in blocks of bounded memory, so its time grows with the square of
the number of sentences (1,000 pairs take milliseconds, 100,000 minutes). Sentences that are there
twice are one sentence. What is only as near as another one, to twelve digits, is not found: a model
that gives all sentences one vector finds none, and not by luck of the order one of them.
Reference: mDAPT, section 6 and Table 6; Artetxe and Schwenk (2019), section 4.3.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from corpusfit.embed.contract import Progress
from corpusfit.evaluate.resampling import SAME
from corpusfit.types import Vectors

_BLOCK = 2**23  # cosines that are held at once: 64 MiB


@dataclass(frozen=True, eq=False)
class Numbered:
    """n sentences as numbers of the different ones among them.

    Attributes:
        texts: the u different sentences, as they first come.
        places: int64 [n], which of them each sentence is.
    """

    texts: list[str]
    places: NDArray[np.int64]


def numbered(texts: Sequence[str]) -> Numbered:
    """Number the different ones of n sentences."""
    numbers: dict[str, int] = {}
    places = [numbers.setdefault(text, len(numbers)) for text in texts]
    return Numbered(list(numbers), np.array(places, np.int64))


def nearest(
    queries: Vectors,
    others: Vectors,
    block: int = _BLOCK,
    on_progress: Progress | None = None,
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """The nearest other of each query by cosine, and by how much it leads.

    Args:
        queries: float32 [n, d].
        others: float32 [m, d]; two at least. A vector of zeros has cosine 0 with all.
        block: cosines that are held at once.
        on_progress: told how many more queries are answered.

    Returns:
        int64 [n], the place of the nearest; float64 [n], its cosine less that of the next nearest,
        0 where two are equally near.
    """
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
    """float64 [n, d], each of length 1, or 0 where it has none."""
    wide = vectors.astype(np.float64)
    lengths = np.linalg.norm(wide, axis=1, keepdims=True)
    wide /= np.where(lengths > 0, lengths, 1)
    return wide


def found(
    source: Numbered,
    target: Numbered,
    queries: Vectors,
    others: Vectors,
    on_progress: Progress | None = None,
) -> NDArray[np.bool_]:
    """Whether the nearest sentence of the other side is the translation, and it alone; bool [n].

    Args:
        source: n sentences to look from.
        target: their translations, in the same order.
        queries: float32 [u, d], of the different sentences of `source`.
        others: float32 [v, d], of those of `target`; v is 2 at least.
        on_progress: told how many more of the u are answered.
    """
    place, lead = nearest(queries, others, on_progress=on_progress)
    is_own: NDArray[np.bool_] = place[source.places] == target.places
    return is_own & (lead[source.places] > SAME)


def tallies(hits: NDArray[np.bool_]) -> NDArray[np.int64]:
    """int64 [n, 3, 1], whose metric `accuracy` is the precision at 1 (`metrics.tallies`)."""
    counts = np.ones((len(hits), 3, 1), np.int64)
    counts[:, 0, 0] = hits
    return counts
