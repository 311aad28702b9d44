"""Static embeddings: the mean of one vector per token, without a network."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import numba
import numpy as np
from numpy.typing import NDArray

from corpusfit.embed.contract import Encoder, Progress, digest, file_digest
from corpusfit.errors import MissingDependencyError, ModelError
from corpusfit.types import Vectors

CHUNK = 2_048  # texts at once: token lists stay small, and the tokenizer can use all cores


@dataclass(frozen=True, eq=False)
class StaticEncoder(Encoder):
    """A table of token vectors and its tokenizer, from a model2vec model.

    Sums run in float32, token by token, so a text's embedding has the same bits in any batch.
    model2vec rounds to the table's type, so float16 tables agree with it only to float16.

    Attributes:
        table: float32 [tokens, dim], weights multiplied in.
        tokenizer: a `tokenizers.Tokenizer` that truncates and does not pad.
        skip: id of the unknown token, excluded from the mean; -1 for none.
        normalise: scale embeddings to length 1.
        characters: most characters of a text that are read; None for all.

    Reference: model2vec (https://github.com/MinishLab/model2vec); Arora et al. 2017 for the
    weights.
    """

    name: str
    dim: int
    fingerprint: str
    table: NDArray[np.float32]
    tokenizer: Any
    skip: int
    normalise: bool
    characters: int | None

    def encode(self, texts: Sequence[str], on_progress: Progress | None = None) -> Vectors:
        """One embedding per text; zeros if no token is known; see `Encoder.encode`."""
        out = np.empty((len(texts), self.dim), dtype=np.float32)
        for start in range(0, len(texts), CHUNK):
            cut = [text[: self.characters] for text in texts[start : start + CHUNK]]
            coded = self.tokenizer.encode_batch_fast(cut, add_special_tokens=False)
            rows = [one.ids for one in coded]
            offsets = np.zeros(len(rows) + 1, dtype=np.int64)
            np.cumsum([len(row) for row in rows], out=offsets[1:])
            ids = np.fromiter(chain.from_iterable(rows), dtype=np.int32, count=offsets[-1])
            vectors = _bag(self.table, ids, offsets, self.skip, self.normalise)
            out[start : start + CHUNK] = vectors
            if on_progress is not None:
                on_progress(len(rows))
        return out


@numba.njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def _bag(
    table: NDArray[np.float32],
    ids: NDArray[np.int32],
    offsets: NDArray[np.int64],
    skip: int,
    normalise: bool,
) -> NDArray[np.float32]:
    """Mean of each text's rows of `table`, optionally scaled to length 1; float32 [n, d]."""
    out = np.zeros((len(offsets) - 1, table.shape[1]), dtype=np.float32)
    for i in range(len(out)):
        total = out[i]
        count = 0
        for k in range(offsets[i], offsets[i + 1]):
            if ids[k] != skip:
                count += 1
                row = table[ids[k]]
                for j in range(len(total)):
                    total[j] += row[j]
        scale = np.float32(1.0 / max(count, 1))
        if normalise:
            square = 0.0
            for j in range(len(total)):
                square += np.float64(total[j]) * np.float64(total[j])
            scale = np.float32(1.0 / np.sqrt(square)) if square > 0 else np.float32(0.0)
        for j in range(len(total)):
            total[j] *= scale
    return out


def static_fingerprint(folder: Path) -> str:
    """Fingerprint of a model2vec folder, from its files.

    Raises:
        ModelError: the folder has no safetensors weights.
    """
    weights = sorted(folder.rglob("model.safetensors"))
    if not weights:
        raise ModelError(
            f"<embed.embedder=static>: {folder} has no model.safetensors. Save the model there "
            "with model2vec's save_pretrained."
        )
    files = [*weights, *sorted(folder.rglob("tokenizer.json")), *folder.glob("config.json")]
    return digest({"kind": "static 1", "files": [file_digest(p) for p in files]})


def load_static(folder: Path, name: str) -> StaticEncoder:
    """Load an encoder from a local model2vec folder.

    Args:
        folder: a folder that `save_pretrained` of model2vec or sentence-transformers wrote.
        name: the embedder as the user named it.

    Raises:
        ModelError: the folder does not hold a static model that can be loaded.
        MissingDependencyError: model2vec is not installed.
    """
    identity = static_fingerprint(folder)
    try:
        from model2vec import StaticModel
    except ImportError as e:
        raise MissingDependencyError("<embed.embedder=static>", "embed") from e
    try:
        model = StaticModel.from_pretrained(folder)
    except Exception as e:  # a broken folder raises many kinds of errors
        reason = (str(e).strip() or type(e).__name__).splitlines()[0]
        raise ModelError(
            f"<embed.embedder>: the model in {folder} cannot be loaded: {reason}"
        ) from e
    longest = model.max_length
    return StaticEncoder(
        name=name,
        dim=int(model.dim),
        fingerprint=identity,
        table=_table(model),
        tokenizer=model.tokenizer,
        skip=-1 if model.unk_token_id is None else int(model.unk_token_id),
        normalise=bool(model.normalize),
        characters=None if longest is None else longest * model.median_token_length,
    )


def _table(model: Any) -> NDArray[np.float32]:
    """Vector of each token id as float32 [tokens, dim], without quantisation and with weights."""
    table = np.asarray(model.embedding, dtype=np.float32)
    if model.token_mapping is not None:
        table = table[model.token_mapping]
    if model.weights is not None:
        table = table * np.asarray(model.weights, dtype=np.float32)[:, None]
    return np.ascontiguousarray(table)
