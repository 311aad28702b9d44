"""What other packages may build on; `contracts.pyi` lists the names, each is loaded when used.

A package names the modules of its scoring methods under the entry-point group `corpusfit.methods`,
and checks them by `check_method`. All other modules of corpusfit may change in any version.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub("corpusfit", __file__)
