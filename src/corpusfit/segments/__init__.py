"""Stage 2, cut: documents into units, units into segments."""
