"""What a worker does: one file per job, each a few stages in a row over one piece of work."""
