"""What every encoder is: texts in, one vector each out.

What: the abstract `Encoder` and the digest that names it.
Why: methods, the store and the engine work with any encoder, and stored vectors are reused only
under the fingerprint of the encoder that made them.
Trade-off: no generator and no device tensors; a shard's vectors fit in memory by construction.
Reference: the fingerprints of OLMo-core's data sources.
"""

from __future__ import annotations

import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from corpusfit.types import Vectors

Progress = Callable[[int], None]
"""Told how many more texts are done since it was last told."""


class Encoder(ABC):
    """Turns texts into vectors.

    Attributes:
        name: what the user called it.
        dim: length of a vector.
        fingerprint: hex digest of all that changes a vector (weights, tokenizer, pooling,
            precision, batching), and of nothing else: no path, no clock.
    """

    name: str
    dim: int
    fingerprint: str

    @abstractmethod
    def encode(self, texts: Sequence[str], on_progress: Progress | None = None) -> Vectors:
        """One finite vector a text, in the order given.

        Args:
            texts: n texts; an empty text has a vector too.
            on_progress: called now and then with the number of texts done since the last call;
                the numbers add up to n.

        Returns:
            float32 [n, dim]; [0, dim] for no texts.
        """


def digest(identity: Mapping[str, Any]) -> str:
    """Hex SHA-256 of plain values, whatever their order."""
    return hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()


def file_digest(path: Path) -> str:
    """Hex SHA-256 of a file's bytes."""
    with open(path, "rb") as f:
        return hashlib.file_digest(f, "sha256").hexdigest()
