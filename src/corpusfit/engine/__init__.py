"""Where the work runs: map a job over shards."""

from corpusfit.engine.contract import Engine, Job
from corpusfit.engine.local import LocalEngine
from corpusfit.engine.progress import Progress
from corpusfit.engine.ray import RayEngine

__all__ = ["Engine", "Job", "LocalEngine", "Progress", "RayEngine"]
