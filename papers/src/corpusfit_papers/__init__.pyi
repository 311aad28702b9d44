"""Public names; `__init__.py` loads each when it is first used."""

from .experiments.api import run
from .experiments.running import Ran
from .mixing.api import compose
from .mixing.composing import Composition

__all__ = ["Composition", "Ran", "compose", "run"]
