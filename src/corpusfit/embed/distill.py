"""Distil a static model from a transformer, once, into the cache."""

from __future__ import annotations

import re
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from corpusfit.core.artifacts import is_local, user_cache, write_bytes
from corpusfit.core.errors import ModelError, StorageError
from corpusfit.core.plan import EmbedPlan
from corpusfit.embed.contract import digest
from corpusfit.embed.folders import file_digests, transformer_folder
from corpusfit.embed.transformer import TransformerEncoder, load_transformer

DIMENSIONS = 256
SIF = 1e-4  # the a of Arora et al., as in model2vec
RECIPE = "distil 1"
_THREADS = 2  # LAPACK's last bits depend on the number of threads, so it is the same everywhere
_FILES = ("model.safetensors", "tokenizer.json", "config.json")  # in the order they are written
UNUSED = re.compile(r"\[unused\d+\]")


def distilled_folder(source: Path, cache: Path) -> Path:
    """The static model of a transformer folder, distilled if it is not in the cache.

    The recipe is model2vec's: each token of the vocabulary alone through the model, the mean of its
    states, PCA to 256 dimensions, and weights that fall with the token's frequency (Zipf by rank,
    then SIF). It is reimplemented here because model2vec's own needs another package and the hub.
    The tokenizer stays as it is; special and unused tokens get zeros. Last bits can differ between
    kinds of machines, so a static encoder's fingerprint is taken from the resulting bytes.

    Reference: model2vec (https://github.com/MinishLab/model2vec); Arora et al. 2017 (SIF).
    """
    files = file_digests(transformer_folder(source))
    key = digest({"recipe": RECIPE, "dimensions": DIMENSIONS, "files": files})
    cached = cache / f"static-{key[:32]}"
    local = cached
    if not is_local(cache):  # a model in a store is copied to this machine
        local = user_cache() / f"{cached.name}-{digest({'of': str(cached)})}"
    if local.is_dir():
        return local
    if local != cached and not (cached / _FILES[-1]).exists():
        _distil(source, cached)
    try:
        # a temporary folder, renamed when it is whole
        local.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=local.parent, prefix=".distilling-") as temporary:
            whole = Path(temporary) / "model"
            if local == cached:
                _distil(source, whole)
            else:
                for name in _FILES:
                    write_bytes(whole / name, (cached / name).read_bytes())
            try:
                whole.rename(local)
            except OSError:
                if not local.is_dir():  # an existing folder stays, because its content is the same
                    raise
    except OSError as e:
        raise StorageError(
            f"Cannot write the static model to {local.parent}: {e.strerror or e}. Free disk space "
            "or allow writing, then run the same command again."
        ) from e
    return local


def _distil(source: Path, folder: Path) -> None:
    """Write the three files that model2vec reads."""
    from safetensors.numpy import save

    encoder = load_transformer(source, EmbedPlan(precision="fp32", unit_length=False), str(source))
    table = _table(encoder)
    config = (
        '{"model_type": "model2vec", "architectures": ["StaticModel"], "normalize": true, '
        f'"hidden_dim": {table.shape[1]}, "max_length": 512}}\n'
    )
    tokens = encoder.tokenizer.backend_tokenizer.to_str().encode()
    contents = (save({"embeddings": table}), tokens, config.encode())
    for name, data in zip(_FILES, contents, strict=True):
        write_bytes(folder / name, data)


def _table(encoder: TransformerEncoder) -> NDArray[np.float32]:
    """Embeddings of all token ids, float32 [tokens, dims]; zeros for special and unused tokens."""
    tokenizer = encoder.tokenizer
    tokens = sorted(tokenizer.get_vocab().items(), key=lambda item: item[1])
    if [i for _, i in tokens] != list(range(len(tokens))):
        raise ModelError(
            f"`embed.embedder`: the tokenizer of {encoder.name} skips token ids, so the "
            "model cannot be distilled. Name it without static:, or name another model."
        )
    special = set(tokenizer.all_special_ids)
    used = np.array([i for t, i in tokens if i not in special and not UNUSED.fullmatch(t)])
    before, after = _special_tokens(tokenizer)
    vectors = encoder.encode_ids([[*before, int(i), *after] for i in used])
    reduced = principal_components(vectors, DIMENSIONS)
    table = np.zeros((len(tokens), reduced.shape[1]), dtype=np.float32)
    table[used] = reduced * sif_weights(len(used))[:, None]
    return table


def _special_tokens(tokenizer: Any) -> tuple[list[int], list[int]]:
    """The special tokens that the tokenizer adds before and after a text."""
    bare = tokenizer("a", add_special_tokens=False)["input_ids"]
    whole = tokenizer("a")["input_ids"]
    for at in range(len(whole) - len(bare) + 1):
        if whole[at : at + len(bare)] == bare:
            return whole[:at], whole[at + len(bare) :]
    return [], []


def principal_components(vectors: NDArray[np.float32], most: int) -> NDArray[np.float32]:
    """Project vectors onto their leading principal components, centred."""
    centred = vectors - vectors.mean(axis=0, dtype=np.float64).astype(np.float32)
    with threadpool_limits(_THREADS, user_api="blas"):
        _, axes = np.linalg.eigh((centred.T @ centred).astype(np.float64))
        kept = axes[:, ::-1][:, : min(most, *vectors.shape)]
        turned: NDArray[np.float32] = centred @ kept.astype(np.float32)
    largest = np.abs(turned).argmax(axis=0)
    turned *= np.where(turned[largest, np.arange(turned.shape[1])] < 0, -1, 1)
    return turned


def sif_weights(n: int) -> NDArray[np.float32]:
    """SIF weights of n tokens in order of frequency, estimated by Zipf's law; float32 [n]."""
    share = 1 / np.arange(2, n + 2)
    weights: NDArray[np.float32] = (SIF / (SIF + share / share.sum())).astype(np.float32)
    return weights
