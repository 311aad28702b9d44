"""One file per adapter, named like the adapter."""
