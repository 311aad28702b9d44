"""Stage 9, tell: one page that shows what runs did, made from what they wrote and nothing else."""

from corpusfit.report.writing import write_report

__all__ = ["write_report"]
