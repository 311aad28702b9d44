"""Where the work runs: map a function over shards, with resume."""
