"""Stage 7, train: continued pre-training of a language model on what was selected."""
