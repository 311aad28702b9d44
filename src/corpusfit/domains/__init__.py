"""Unsupervised domain clusters of a corpus (Aharoni and Goldberg, 2020)."""
