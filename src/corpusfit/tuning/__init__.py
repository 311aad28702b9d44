"""The command `tune`: successive halving over selections, for one model and one target."""

from corpusfit.tuning.api import estimate_tuning, tune

__all__ = ["estimate_tuning", "tune"]
