"""See which domains a corpus holds before choosing from it (Aharoni and Goldberg 2020)."""
