"""The input formats, one file each; see `corpus/contract.py`."""
