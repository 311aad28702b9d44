"""How similar each unit of the corpus is to the target."""
