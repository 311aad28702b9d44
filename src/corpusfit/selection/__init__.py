"""From scores to the selected segments: select, choose, explain."""

from corpusfit.selection.api import choose, estimate, explain, select

__all__ = ["choose", "estimate", "explain", "select"]
