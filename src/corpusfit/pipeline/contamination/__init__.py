"""Held-out texts of a task in text to train on: found, reported, and left out."""
