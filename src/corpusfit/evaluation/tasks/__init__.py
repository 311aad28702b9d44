"""One kind of task per file; `evaluation/registry.py` finds them."""
