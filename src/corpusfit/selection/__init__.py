"""From scores to the selected segments: select, score, choose, rank, explain, audit."""
