"""Continued pre-training of a language model on selected text."""
