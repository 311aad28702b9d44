"""Stage 5, select: from scores to the selected segments and their weights."""

from corpusfit.select.choose import Choice, ScoredPart, choose

__all__ = ["Choice", "ScoredPart", "choose"]
