"""One file per scoring method, named like the method; see `scoring/contract.py`."""
