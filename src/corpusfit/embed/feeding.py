"""Encoding on GPUs: workers tokenise, and the process of each GPU has a model."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from corpusfit.core.engine import Job
from corpusfit.core.engine.devices import device_name
from corpusfit.core.engine.worker import on_device
from corpusfit.core.plan import EmbedPlan
from corpusfit.core.types import Vectors
from corpusfit.embed.contract import Progress
from corpusfit.embed.folders import transformer_folder
from corpusfit.embed.hardware import use
from corpusfit.embed.transformer import Ids, TransformerEncoder, load_tokenizer, loading

Tokens = tuple[NDArray[np.int32], NDArray[np.int64]]
"""Token ids of n texts, one after the other, and the lengths of the texts, int64 [n]."""


@dataclass(frozen=True)
class Encode(Job[Tokens | None, Any]):
    """On a device: embeddings of tokenised texts; for None the encoder without its model."""

    embed: EmbedPlan

    def start(self) -> Callable[[Tokens | None], Any]:
        """Load the encoder."""
        from corpusfit.embed import load  # which imports this module

        use(device_name())
        encoder = load(self.embed)
        assert isinstance(encoder, TransformerEncoder)  # noqa: S101

        def work(tokens: Tokens | None) -> Any:
            if tokens is None:
                return replace(encoder, model=None, tokenizer=None)
            flat, lengths = tokens
            ids = np.split(flat, np.cumsum(lengths)[:-1])
            return encoder.encode_ids(ids)

        return work


@dataclass(frozen=True, eq=False)
class FedEncoder(TransformerEncoder):
    """A transformer that tokenises here; its model is in the process of the piece's device."""

    job: Encode = field(kw_only=True)

    def encode_ids(self, ids: Ids, on_progress: Progress | None = None) -> Vectors:
        """One embedding per list of token ids; see `TransformerEncoder.encode_ids`."""
        lengths = np.fromiter(map(len, ids), np.int64, len(ids))
        flat = np.fromiter(chain.from_iterable(ids), np.int32, int(lengths.sum()))
        vectors: Vectors = _ask(self.job, (flat, lengths))
        if on_progress is not None:
            on_progress(len(ids))
        return vectors


def load_fed(folder: Path, plan: EmbedPlan) -> FedEncoder:
    """In a worker that feeds a device: the tokenizer of an encoder that the device loads."""
    job = Encode(plan)
    about: TransformerEncoder = _ask(job, None)
    subject = f"`embed.embedder`: the model in {folder}"
    with loading(subject):
        tokenizer = load_tokenizer(transformer_folder(folder), subject)
    return FedEncoder(**vars(about) | {"tokenizer": tokenizer, "job": job})


def _ask(job: Encode, piece: Tokens | None) -> Any:
    device = on_device()
    assert device is not None  # noqa: S101  a job that loads this encoder feeds a device
    return device(job, piece)
