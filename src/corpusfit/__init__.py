"""Find the part of a corpus that is like your task, and show that it is."""
