"""The commands as functions: `select`, `adapt`, `evaluate` and others; each step is one module."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
