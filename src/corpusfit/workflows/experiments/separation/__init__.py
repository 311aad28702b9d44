"""Recipes with `[separation]`: how well methods tell target texts from corpus texts."""
