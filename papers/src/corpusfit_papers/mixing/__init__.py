"""A multilingual corpus from specific and general text."""

from corpusfit_papers.mixing.api import compose, estimate_composition

__all__ = ["compose", "estimate_composition"]
