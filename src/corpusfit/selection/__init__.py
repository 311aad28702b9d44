"""From scores to the selected segments: select, score, choose, rank, explain, audit."""

from corpusfit.selection.api import choose, estimate, explain, rank, select

__all__ = ["audit", "choose", "estimate", "explain", "rank", "select"]
