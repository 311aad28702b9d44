"""From scores to the selected segments: select, choose, rank, explain."""

from corpusfit.selection.api import choose, estimate, explain, rank, select

__all__ = ["choose", "estimate", "explain", "rank", "select"]
