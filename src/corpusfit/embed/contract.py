"""The embedder contract: one embedding per text, and a fingerprint of what decides it."""

from __future__ import annotations

import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from corpusfit.core.types import Texts, Vectors

Progress = Callable[[int], None]
"""Callback with the number of texts done since its last call, weighted by length."""


class Encoder(ABC):
    """Turns texts into embeddings.

    Stored embeddings are reused only under the fingerprint of the encoder that computed them.

    Attributes:
        name: the embedder as the user named it.
        dim: dimensions of an embedding.
        fingerprint: hex digest of everything that changes an embedding (weights, tokenizer,
            pooling, precision, batching), and of nothing else, such as paths or times.
    """

    name: str
    dim: int
    fingerprint: str

    @abstractmethod
    def encode(self, texts: Sequence[str] | Texts, on_progress: Progress | None = None) -> Vectors:
        """Return one finite embedding per text, in the given order.

        Args:
            texts: n texts, strings or one Arrow array; an empty text has an embedding too.
            on_progress: called from time to time with the number of texts done since the last call;
                the numbers add up to n.

        Returns:
            float32 [n, dim]; [0, dim] for no texts.
        """


def digest(identity: Mapping[str, Any]) -> str:
    """Hex SHA-256 of plain values, independent of their order."""
    return hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()


def file_digest(path: Path) -> str:
    """Hex SHA-256 of a file's bytes."""
    with open(path, "rb") as f:
        return hashlib.file_digest(f, "sha256").hexdigest()
