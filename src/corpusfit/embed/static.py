"""Static embeddings: the mean of a text's token vectors."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from corpusfit.core.errors import (
    CorpusfitError,
    ModelError,
    importing,
    raise_machine_fault,
    tokenizing,
)
from corpusfit.core.types import Texts, Vectors, buffers, take_texts, text_array, texts_between
from corpusfit.embed.contract import Encoder, Progress, digest, file_digest
from corpusfit.embed.wordpiece import BLOCK, WordPiece, WordTokens
from corpusfit.kernels.pieces import means
from corpusfit.kernels.word_form import word_forms

PACKAGED = Path(__file__).parent / "static_model"
"""The model of the embedder `static`: all-MiniLM-L6-v2 distilled, in 8 bits
(benchmarks/make_static_model.py)."""

_WEIGHTS = "model.safetensors"
_NO_LIMIT = 2**62
# default `max_length` of model2vec
_MAX_LENGTH = 512

TokenIds = Callable[[Sequence[str]], tuple[NDArray[np.int32], NDArray[np.int64]]]
"""Tokenizes n texts: all token ids, int32, and begin and end of each text's ids, int64 [n, 2]."""


@dataclass(frozen=True, eq=False)
class StaticEncoder(Encoder):
    """A table of token vectors and its tokenizer, from a model2vec model."""

    # Sums are accumulated in float32, token by token, so a text's embedding is bit-identical in
    # any batch. model2vec rounds to the table's type, so with a float16 table the two agree only
    # to float16 precision.
    # Reference: model2vec; Arora et al. 2017 for the weights.
    name: str
    dim: int
    fingerprint: str
    table: NDArray[np.float32]  # [tokens, dim], vectors multiplied by their token weights
    token_ids: TokenIds  # tokenizes whole texts
    limit: int  # most tokens of a text; the rest is ignored
    skip: int  # id of the unknown token, excluded from the mean; -1 for none
    normalize: bool  # scale embeddings to length 1
    characters: int  # most characters of a text; the rest is ignored
    # each word's tokens; None if the tokenizer does not split texts into words as BERT's does
    words: WordTokens | None

    def encode(self, texts: Sequence[str] | Texts, on_progress: Progress | None = None) -> Vectors:
        """One embedding per text; zeros if no token is known; see `Encoder.encode`."""
        array = texts if isinstance(texts, pa.LargeStringArray) else text_array(texts)
        embeddings = np.empty((len(array), self.dim), dtype=np.float32)
        for start, end in _blocks(buffers(array)[1]):
            embeddings[start:end] = self._encode(array[start:end])
            if on_progress is not None:
                on_progress(end - start)
        return embeddings

    def _encode(self, texts: Texts) -> Vectors:
        data, offsets = word_forms(*buffers(texts))
        if self.words is None or offsets[-1] - offsets[0] > BLOCK:
            return self._encode_whole(texts_between(offsets, data).to_pylist())
        words, firsts, has_special = self.words.numbers(data, offsets, self.characters)
        tokens = words, firsts, self.words.ids, self.words.spans
        embeddings: Vectors = means(self.table, *tokens, self.limit, self.skip, self.normalize)
        # the word cache does not handle special tokens, so texts with one bypass it
        if has_special.any():
            in_form = texts_between(offsets, data)
            bypassing = take_texts(in_form, np.flatnonzero(has_special)).to_pylist()
            embeddings[has_special] = self._encode_whole(bypassing)
        return embeddings

    def _encode_whole(self, texts: list[str]) -> Vectors:
        """Embed a few texts without the word cache."""
        n = len(texts)
        # treat each text as a single word
        words = np.arange(n, dtype=np.int32), np.arange(n + 1)
        tokens = self.token_ids([t[: self.characters] for t in texts])
        out: Vectors = means(self.table, *words, *tokens, self.limit, self.skip, self.normalize)
        return out


def _blocks(offsets: NDArray[np.int64]) -> Iterator[tuple[int, int]]:
    """Begin and end of blocks of texts, each of at most BLOCK bytes or one longer text."""
    start = 0
    while start < len(offsets) - 1:
        end = int(np.searchsorted(offsets, offsets[start] + BLOCK, "right")) - 1
        end = max(end, start + 1)
        yield start, end
        start = end


def static_fingerprint(folder: Path) -> str:
    """Fingerprint of a model2vec folder, from its files."""
    weights = sorted(folder.rglob(_WEIGHTS))
    if not weights:
        raise ModelError(
            f"`embed.embedder`: {folder} has no model.safetensors. Save the model there "
            "with model2vec's save_pretrained."
        )
    files = [*weights, *sorted(folder.rglob("tokenizer.json")), *folder.glob("config.json")]
    # 4: without a limit of tokens; 1 and 2 were of texts as they are written
    kind = "static 3" if (folder / _WEIGHTS).is_file() else "static 4"
    return digest({"kind": kind, "files": [file_digest(p) for p in files]})


def load_static(folder: Path, name: str) -> StaticEncoder:
    """Load an encoder from a local model2vec folder."""
    fingerprint = static_fingerprint(folder)
    try:
        return _load(folder, name, fingerprint)
    except CorpusfitError:
        raise
    except Exception as e:  # a broken folder raises many kinds of errors
        raise_machine_fault(e, f"`embed.embedder`: the model in {folder} cannot be loaded")
        reason = f"{type(e).__name__}: {e}".splitlines()[0]
        raise ModelError(
            f"`embed.embedder`: the model in {folder} cannot be loaded: {reason}"
        ) from e


def _load(folder: Path, name: str, fingerprint: str) -> StaticEncoder:
    # model2vec's layout, or that of sentence-transformers
    model = folder if (folder / _WEIGHTS).is_file() else folder / "0_StaticEmbedding"
    settings = json.loads((model / "tokenizer.json").read_bytes())
    configs = [folder / "config.json", folder / "config_sentence_transformers.json"]
    config = json.loads(next((f.read_bytes() for f in configs if f.is_file()), b"{}"))
    tokens, unknown = _vocabulary(settings, folder)
    table = _table(model / _WEIGHTS)
    ids = [i for _, i in tokens]
    if unknown != -1:
        ids.append(unknown)
    if not all(type(i) is int and 0 <= i < len(table) for i in ids):
        raise ModelError(
            f"`embed.embedder`: token ids of the model in {folder} must lie between 0 and "
            f"{len(table) - 1}, the rows of its vectors. Name another model."
        )
    wordpiece = WordPiece(settings) if WordPiece.reads(settings) else None
    limit = config.get("max_length", _MAX_LENGTH if model == folder else None)
    if limit is not None and (type(limit) is not int or limit < 0):
        raise ModelError(
            f"`embed.embedder`: max_length of the model in {folder} must be a non-negative "
            f"integer; got {limit!r}. Name another model."
        )
    # like model2vec, cut texts by characters first, as tokenising long texts is slow
    median_length = int(np.median([len(token) for token, _ in tokens]))
    return StaticEncoder(
        name=name,
        dim=table.shape[1],
        fingerprint=fingerprint,
        table=table,
        token_ids=wordpiece.ids if wordpiece else _huggingface_tokenizer(settings, folder),
        limit=_NO_LIMIT if limit is None else min(limit, _NO_LIMIT),
        skip=unknown,
        normalize=bool(config.get("normalize", False)),
        characters=_NO_LIMIT if limit is None else min(limit * median_length, _NO_LIMIT),
        words=WordTokens(wordpiece) if wordpiece else None,
    )


def _table(path: Path) -> NDArray[np.float32]:
    """Dequantised vector of each token id times its weight, float32 [tokens, dim]."""
    from safetensors.numpy import load_file

    tensors = load_file(path)
    name = "embedding.weight" if "embedding.weight" in tensors else "embeddings"
    table: NDArray[np.float32] = tensors[name].astype(np.float32)
    if "mapping" in tensors:
        table = table[tensors["mapping"]]
    if "weights" in tensors:
        table = table * tensors["weights"].astype(np.float32)[:, None]
    return np.ascontiguousarray(table)


def _vocabulary(settings: Mapping[str, Any], folder: Path) -> tuple[list[tuple[str, int]], int]:
    """A tokenizer's tokens with their ids, and the id of its unknown token (-1 if none)."""
    model = settings["model"]
    vocabulary = model["vocab"]
    if isinstance(vocabulary, list):  # Unigram: (token, log probability)
        vocabulary = {token: i for i, (token, _) in enumerate(vocabulary)}
    unknown = model.get("unk_id", vocabulary.get(model.get("unk_token")))
    if unknown is None and model["type"] == "WordPiece":
        raise ModelError(
            f"`embed.embedder`: the vocabulary of the model in {folder} lacks its unknown token "
            f"{model['unk_token']}. Add it to tokenizer.json, or name another model."
        )
    # a token that is added twice, or also in the vocabulary, has several ids: list all of them
    added = ((token["content"], token["id"]) for token in settings["added_tokens"])
    return [*dict.fromkeys([*vocabulary.items(), *added])], -1 if unknown is None else unknown


def _huggingface_tokenizer(settings: Mapping[str, Any], folder: Path) -> TokenIds:
    """A function that tokenizes whole texts with the library `tokenizers`."""
    with importing(f"The tokenizer of the model in {folder}", "models"):
        from tokenizers import Tokenizer

    with tokenizing():
        tokenizer = Tokenizer.from_str(json.dumps(settings))
    tokenizer.no_truncation()
    tokenizer.no_padding()

    def token_ids(texts: Sequence[str]) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
        with tokenizing():
            encodings = tokenizer.encode_batch_fast(texts, add_special_tokens=False)
        ids_per_text = [encoding.ids for encoding in encodings]
        ends = np.cumsum([len(ids) for ids in ids_per_text], dtype=np.int64)
        spans = np.stack([np.concatenate([[0], ends[:-1]]), ends], axis=1)
        ids = np.fromiter(chain.from_iterable(ids_per_text), dtype=np.int32, count=ends[-1])
        return ids, spans

    return token_ids
