"""The journey as a few calls: `select`, `adapt`, `evaluate` and those around them.

What: the order of the steps; each step is a file beside this one.
Why: this package alone knows every stage.
Trade-off: every step leaves files and begins by asking which are missing; that is what makes a
killed run resumable.
Reference: TADPOLE, Algorithm 1.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
