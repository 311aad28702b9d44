"""Stage 9, report: one HTML page of results, made only from the files that runs wrote."""

from corpusfit.reporting.writing import write_report

__all__ = ["write_report"]
