"""The systems, baselines and tables of five papers, as methods of corpusfit."""
