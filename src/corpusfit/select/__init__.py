"""Stage 5, choose: from scores to the segments taken and their weights."""
