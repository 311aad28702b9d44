"""Stage 2, cut: documents into units, units into segments."""

from corpusfit.segments.segments import join_units, segment_scores
from corpusfit.segments.units import cut_units

__all__ = ["cut_units", "join_units", "segment_scores"]
