"""Continued pre-training of a language model on selected text."""

from corpusfit.training.api import adapt, estimate_adaptation

__all__ = ["adapt", "estimate_adaptation"]
