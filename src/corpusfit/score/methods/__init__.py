"""One file a scoring method; the file's name is the method's name. See `score/contract.py`."""
