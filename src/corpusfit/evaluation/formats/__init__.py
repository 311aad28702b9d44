"""Formats of labelled tasks: rows with a label field, CoNLL columns, brat."""
