"""One kind of task per file; `evaluate/registry.py` finds them."""
