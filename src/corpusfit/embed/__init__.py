"""Stage 3, embed: turn units into vectors, once per corpus and model."""
