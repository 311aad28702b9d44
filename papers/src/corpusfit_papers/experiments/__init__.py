"""The command `run`: from a recipe's tasks and corpus to its tables of results."""

from corpusfit_papers.experiments.api import missing, run

__all__ = ["missing", "run"]
