"""Units become embeddings."""

from corpusfit.embed.contract import Encoder
from corpusfit.embed.load import has_network, load, prepare, reads_whole, wants_gpu

__all__ = ["Encoder", "has_network", "load", "prepare", "reads_whole", "wants_gpu"]
