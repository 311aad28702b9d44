"""From scores to the selected segments: select, score, choose, rank, explain, audit."""

from corpusfit.selection.api import audit, choose, doctor, estimate, explain, rank, score, select

__all__ = ["audit", "choose", "doctor", "estimate", "explain", "rank", "score", "select"]
