"""The input formats, one file each; see `text/contract.py`."""
