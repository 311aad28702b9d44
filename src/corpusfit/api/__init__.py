"""The Python API: each command as a function, with the options' names as keywords."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
