"""An HTML page of a selection or a verdict, made only from the files that runs wrote."""

from corpusfit.reporting.api import open, report

__all__ = ["open", "report"]
