"""The systems, baselines and tables of five papers: methods, commands and functions."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
