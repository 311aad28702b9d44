"""Engines, which map a job over pieces of work on workers."""

from corpusfit.engine.contract import Engine, Job
from corpusfit.engine.local import LocalEngine
from corpusfit.engine.progress import Progress
from corpusfit.engine.ray import RayEngine

__all__ = ["Engine", "Job", "LocalEngine", "Progress", "RayEngine"]
