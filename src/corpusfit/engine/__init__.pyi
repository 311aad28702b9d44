"""The package's names; `__init__.py` loads each when it is first used."""

from .contract import Engine, Job, PlainJob
from .local import LocalEngine
from .progress import Progress, SpelledProgress, WarningCollector
from .ray import RayEngine

__all__ = [
    "Engine",
    "Job",
    "LocalEngine",
    "PlainJob",
    "Progress",
    "RayEngine",
    "SpelledProgress",
    "WarningCollector",
]
