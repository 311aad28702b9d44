"""The command `run`: from a recipe's tasks and corpus to its tables of results."""
