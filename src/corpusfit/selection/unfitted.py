"""The error of an estimator before its fit, in a file of its own, as it imports scikit-learn."""

from sklearn.exceptions import NotFittedError

from corpusfit.core.errors import UsageError


class UnfittedError(UsageError, NotFittedError):  # type: ignore[misc]
    """A Scorer was used before `fit`."""
