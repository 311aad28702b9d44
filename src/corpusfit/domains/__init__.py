"""Unsupervised domain clusters of a corpus (Aharoni and Goldberg, 2020)."""

from corpusfit.domains.api import clusters

__all__ = ["clusters"]
