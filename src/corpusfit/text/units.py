"""Cut documents into units: windows, sentences, paragraphs, fixed windows or whole documents."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from corpusfit.core.plan import CutPlan
from corpusfit.core.types import Documents, Texts, Units, buffers
from corpusfit.kernels import cut

_MODES = {
    "window": cut.WINDOW,
    "sentence": cut.SENTENCE,
    "paragraph": cut.PARAGRAPH,
    "fixed": cut.FIXED,
    "document": cut.WHOLE,
}


def cut_units(documents: Documents, plan: CutPlan) -> tuple[Units, Texts]:
    """Cut n documents into k units, in reading order; no unit crosses a document.

    Units tile a document exactly (white space belongs to the unit before it), so offsets point into
    the original text and no text is copied; units can end in spaces.

    Reference: TADPOLE, section 3.2 and appendix D (its "sentences").
    """
    data, offsets = buffers(documents.texts)
    counts, ends, lengths, pieces = cut.cut_points(
        data, offsets, cut.class_table(), _MODES[plan.unit], plan.pieces
    )
    through = np.concatenate(([0], np.cumsum(lengths)))
    before = np.repeat(through[np.cumsum(counts) - counts], counts)
    units = Units(
        np.repeat(documents.row, counts), through[:-1] - before, through[1:] - before, pieces
    )
    places = pa.py_buffer(np.concatenate((offsets[:1], ends)))
    return units, pa.LargeStringArray.from_buffers(len(units), places, pa.py_buffer(data))
