"""The command `rank`: which method selects best for a target from a corpus."""

from corpusfit.ranking.api import rank

__all__ = ["rank"]
