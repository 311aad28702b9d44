"""Stage 6, compose: a multilingual corpus from specific and general text."""
