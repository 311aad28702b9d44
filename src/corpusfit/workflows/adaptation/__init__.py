"""Adapt a language model: adapt."""
