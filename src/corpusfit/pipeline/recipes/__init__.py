"""The command `run`: from a recipe's tasks and pile to its tables of results."""
