"""Recipes with `[separation]`: how well methods separate target texts from corpus texts."""
