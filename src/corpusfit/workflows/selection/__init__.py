"""Score a corpus, decide on method and amount, write the selection: select, score, choose, rank."""
