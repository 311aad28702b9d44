"""The Python API: the commands with the command line's words.

What: each command as a function with keyword settings, by the part of the journey.
Why: the command line is one door to the library, this is the other; both build a `Plan`
(`plans.py`).
Trade-off: only the settings that people change often have a keyword here; `settings` reaches the
rest as `"cut.gamma=5"`.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
