"""The package's names; `__init__.py` loads each when it is first used."""

from .contract import Engine, Job
from .local import LocalEngine
from .progress import Progress, SpelledProgress
from .ray import RayEngine

__all__ = ["Engine", "Job", "LocalEngine", "Progress", "RayEngine", "SpelledProgress"]
