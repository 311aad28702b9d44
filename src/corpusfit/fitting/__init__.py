"""The command `fit`: from a task to a verdict, in the time that the user has."""

from corpusfit.fitting.api import estimate_fit, fit

__all__ = ["estimate_fit", "fit"]
