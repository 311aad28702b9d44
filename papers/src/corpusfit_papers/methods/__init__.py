"""One file per scoring method, named like the method."""
