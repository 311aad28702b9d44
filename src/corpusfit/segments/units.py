"""Cut documents into units, the papers' "sentences".

What: by default windows of sentences up to about 256 word pieces; sentences, paragraphs, fixed
windows or whole documents on request.
Why: a unit is what a method scores; a window has enough text to show its domain and fits an
encoder.
Trade-off: units tile a document exactly (white space belongs to the unit before it), so offsets
always point back into the original text and nothing is lost, at the price of units that end in
spaces.
Reference: TADPOLE, section 3.2 and appendix D.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from corpusfit.kernels import cut
from corpusfit.plan import CutPlan
from corpusfit.types import Document, Texts, Units

__all__ = ["cut_units", "unit_texts"]

_MODES = {
    "window": cut.WINDOW,
    "sentence": cut.SENTENCE,
    "paragraph": cut.PARAGRAPH,
    "fixed": cut.FIXED,
    "document": cut.WHOLE,
}


def cut_units(documents: Sequence[Document], plan: CutPlan) -> Units:
    """The units of documents with text, in reading order; none crosses a document."""
    table, mode = cut.class_table(), _MODES[plan.unit]
    rows, starts, ends, pieces = [], [], [], []
    for document in documents:
        codes = np.frombuffer(document.text.encode("utf-32-le", "surrogatepass"), "<u4")
        end, piece = cut.cut_points(codes, table, mode, plan.pieces)
        rows.append(np.full(len(end), document.row, np.int64))
        starts.append(np.concatenate(([0], end[:-1])))
        ends.append(end)
        pieces.append(piece)
    if not rows:
        none = np.empty(0, np.int64)
        return Units(none, none, none, np.empty(0, np.int32))
    return Units(
        np.concatenate(rows), np.concatenate(starts), np.concatenate(ends), np.concatenate(pieces)
    )


def unit_texts(documents: Sequence[Document], units: Units) -> Texts:
    """The text of every unit, as one Arrow array [n]."""
    text_of = {d.row: d.text for d in documents}
    return pa.array(
        [
            text_of[row][start:end]
            for row, start, end in zip(
                units.row.tolist(), units.start.tolist(), units.end.tolist(), strict=True
            )
        ],
        pa.large_string(),
    )
