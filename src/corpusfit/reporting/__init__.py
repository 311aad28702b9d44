"""One HTML page of results, made only from the files that runs wrote."""

from corpusfit.reporting.api import open, report

__all__ = ["open", "report"]
