"""Stage 3: units become vectors."""

from corpusfit.embed.contract import Encoder
from corpusfit.embed.load import load, prepare, wants_gpu

__all__ = ["Encoder", "load", "prepare", "wants_gpu"]
