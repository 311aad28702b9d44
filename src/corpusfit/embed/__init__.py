"""Stage 3: units become vectors."""

from corpusfit.embed.contract import Encoder
from corpusfit.embed.load import load, prepare

__all__ = ["Encoder", "load", "prepare"]
