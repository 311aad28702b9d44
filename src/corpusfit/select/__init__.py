"""Stage 5, choose: from scores to the segments taken and their weights."""

from corpusfit.select.choose import Choice, ScoredPart, choose

__all__ = ["Choice", "ScoredPart", "choose"]
