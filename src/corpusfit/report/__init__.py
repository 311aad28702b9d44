"""Stage 9, tell: one page that shows what runs did, made from what they wrote and nothing else."""
