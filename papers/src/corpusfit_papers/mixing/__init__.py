"""A multilingual corpus from specific and general text."""

from corpusfit.mixing.api import compose, estimate_composition

__all__ = ["compose", "estimate_composition"]
