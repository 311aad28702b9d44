"""How the splits of a task are stored: rows with a field for the label, CoNLL columns, brat."""
