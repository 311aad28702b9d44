"""See which domains a corpus holds, without labels (Aharoni and Goldberg, 2020)."""
