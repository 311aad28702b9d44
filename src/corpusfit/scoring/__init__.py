"""Stage 4, score: how similar each unit of the corpus is to the target."""
