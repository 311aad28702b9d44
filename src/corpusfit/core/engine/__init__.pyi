"""The package's names; `__init__.py` loads each when it is first used."""

from .contract import Call, Engine, Job, Work
from .local import InlineEngine, LocalEngine
from .progress import Meter, Progress, WarningCollector
from .ray import RayEngine
from .worker import counting, report

__all__ = [
    "Call",
    "Engine",
    "InlineEngine",
    "Job",
    "LocalEngine",
    "Meter",
    "Progress",
    "RayEngine",
    "WarningCollector",
    "Work",
    "counting",
    "report",
]
