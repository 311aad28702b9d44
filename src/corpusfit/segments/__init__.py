"""Stage 2, cut: documents become units, and units become segments."""

from corpusfit.segments.segments import join_units, joined_scores, segment_scores
from corpusfit.segments.units import cut_units

__all__ = ["cut_units", "join_units", "joined_scores", "segment_scores"]
