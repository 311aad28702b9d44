"""The command `tune`: successive halving over selections, for one model and one target."""
