"""Static embeddings: the mean of one vector per token, without a network."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from corpusfit.embed.contract import Encoder, Progress, digest, file_digest
from corpusfit.embed.word_tokens import BLOCK, WordTokens, token_ids
from corpusfit.errors import MissingDependencyError, ModelError
from corpusfit.kernels.pieces import means
from corpusfit.types import Texts, Vectors, buffers, taken, text_array

_NO_LIMIT = 2**62


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
        words: the tokens of words seen before; None if the tokenizer does not cut texts into words
            as BERT's does, so that it reads every text whole.

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
    words: WordTokens | None

    def encode(self, texts: Sequence[str] | Texts, on_progress: Progress | None = None) -> Vectors:
        """One embedding per text; zeros if no token is known; see `Encoder.encode`."""
        every = texts if isinstance(texts, pa.LargeStringArray) else text_array(texts)
        out = np.empty((len(every), self.dim), dtype=np.float32)
        for start, end in _blocks(buffers(every)[1]):
            out[start:end] = self._encode(every[start:end])
            if on_progress is not None:
                on_progress(end - start)
        return out

    def _encode(self, texts: Texts) -> Vectors:
        """Embeddings of a block of texts."""
        data, offsets = buffers(texts)
        if self.words is None or offsets[-1] - offsets[0] > BLOCK:
            return self._by_tokenizer(texts.to_pylist())
        most = _NO_LIMIT if self.characters is None else self.characters
        found, firsts, marked = self.words.numbers(data, offsets, most)
        ids, spans = self.words.ids, self.words.spans
        truncation = self.tokenizer.truncation
        limit = _NO_LIMIT if truncation is None else truncation["max_length"]
        out: Vectors = means(
            self.table, found, firsts, ids, spans, limit, self.skip, self.normalise
        )
        if marked.any():
            out[marked] = self._by_tokenizer(taken(texts, np.flatnonzero(marked)).to_pylist())
        return out

    def _by_tokenizer(self, texts: list[str]) -> Vectors:
        """Embeddings of a few texts, each read whole by the tokenizer."""
        ids, spans = token_ids(self.tokenizer, [text[: self.characters] for text in texts])
        n = len(texts)
        found, firsts = np.arange(n, dtype=np.int32), np.arange(n + 1)
        how = _NO_LIMIT, self.skip, self.normalise
        out: Vectors = means(self.table, found, firsts, ids, spans, *how)
        return out


def _blocks(offsets: NDArray[np.int64]) -> Iterator[tuple[int, int]]:
    """Begin and end of blocks of texts: of at most BLOCK bytes, or of one longer text."""
    start = 0
    while start < len(offsets) - 1:
        end = int(np.searchsorted(offsets, offsets[start] + BLOCK, "right")) - 1
        yield start, (end := max(end, start + 1))
        start = end


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
    kind = json.loads(model.tokenizer.to_str())["model"]
    if kind["type"] == "WordPiece" and kind["unk_token"] not in kind["vocab"]:
        raise ModelError(
            f"<embed.embedder>: the vocabulary of the model in {folder} lacks its unknown token "
            f"{kind['unk_token']}. Add it to tokenizer.json, or name another model."
        )
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
        words=WordTokens.of(model.tokenizer),
    )


def _table(model: Any) -> NDArray[np.float32]:
    """Vector of each token id as float32 [tokens, dim], without quantisation and with weights."""
    table = np.asarray(model.embedding, dtype=np.float32)
    if model.token_mapping is not None:
        table = table[model.token_mapping]
    if model.weights is not None:
        table = table * np.asarray(model.weights, dtype=np.float32)[:, None]
    return np.ascontiguousarray(table)
