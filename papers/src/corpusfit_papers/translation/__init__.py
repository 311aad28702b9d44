"""Machine translation: an objective, and a task that models answer by beam search."""
