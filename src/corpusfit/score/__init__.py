"""Stage 4, weigh: tell how like the target every unit of the corpus is."""
