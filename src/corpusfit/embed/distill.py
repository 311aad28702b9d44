"""A static model distilled from a transformer, once, into the cache.

What: model2vec's recipe: each token of the vocabulary through the model by itself, the mean of
its states, PCA to 256 dimensions, weights that fall with the token's frequency (Zipf by rank,
then SIF); stored as a folder that model2vec reads.
Why: `--embedder static` has to work where no hub is reachable, and seconds here save hours later.
Trade-off: the recipe is written out rather than called: model2vec's own rebuilds the tokenizer,
needs another package for that, looks the model up on the hub and draws a bar. Ours keeps the
tokenizer as it is and leaves special and unused tokens without a vector instead of removing them.
Last bits may differ between machine kinds, so a static encoder's fingerprint is taken from the
bytes that resulted.
Reference: model2vec (https://github.com/MinishLab/model2vec); Arora et al. 2017 (SIF).
"""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from corpusfit.artifacts import is_local, write_bytes
from corpusfit.embed.contract import digest
from corpusfit.embed.folders import file_digests, transformer_folder
from corpusfit.embed.transformer import TransformerEncoder, load_transformer
from corpusfit.errors import ModelError, StorageError
from corpusfit.plan import EmbedPlan

DIMENSIONS = 256
SIF = 1e-4  # the a of Arora et al., as model2vec has it
RECIPE = "distil 1"
_FILES = ("model.safetensors", "tokenizer.json", "config.json")  # in the order they are written
UNUSED = re.compile(r"\[unused\d+\]")


def distilled_folder(source: Path, cache: Path) -> Path:
    """The static model of a transformer folder, distilled if the cache has none yet.

    Args:
        source: a transformers or sentence-transformers folder.
        cache: where static models are kept, here or in a store; made if absent.

    Returns:
        A model2vec folder, named by what it was distilled from: in `cache`, or a copy of what is
        there where that is a store.

    Raises:
        ModelError: the source cannot be loaded or distilled.
        MissingDependencyError: torch or transformers is not installed.
        StorageError: the cache cannot be written.
    """
    files = file_digests(transformer_folder(source))
    key = digest({"recipe": RECIPE, "dimensions": DIMENSIONS, "files": files})
    place = cache / f"static-{key[:32]}"
    here = (
        place if is_local(cache) else _user_cache() / f"{place.name}-{digest({'of': str(place)})}"
    )
    if here.is_dir():
        return here
    if is_local(cache):
        _appear(here, lambda folder: _distil(source, folder))
    else:
        if not (place / _FILES[-1]).exists():
            _distil(source, place)
        _appear(here, lambda folder: _copy(place, folder))
    return here


def _user_cache() -> Path:
    """Where this machine keeps what it fetched from a cache in a store."""
    return Path(os.environ.get("XDG_CACHE_HOME", "~/.cache")).expanduser() / "corpusfit"


def _appear(place: Path, fill: Callable[[Path], None]) -> None:
    """Fill a folder aside, and give it its name."""
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=place.parent, prefix=".distilling-") as aside:
            whole = Path(aside) / "model"
            fill(whole)
            _move(whole, place)
    except OSError as e:
        raise StorageError(
            f"Cannot keep the static model in {place.parent}: {e.strerror or e}. Make room or "
            "permit writing, then run the same command again."
        ) from e


def _copy(place: Path, folder: Path) -> None:
    for name in _FILES:
        write_bytes(folder / name, (place / name).read_bytes())


def _distil(source: Path, folder: Path) -> None:
    encoder = load_transformer(source, EmbedPlan(precision="fp32", unit_length=False), str(source))
    _write(folder, _table(encoder), encoder.tokenizer)


def _table(encoder: TransformerEncoder) -> NDArray[np.float32]:
    """A vector a token id, float32 [tokens, dims]; zeros for special and unused tokens."""
    tokenizer = encoder.tokenizer
    tokens = sorted(tokenizer.get_vocab().items(), key=lambda item: item[1])
    if [i for _, i in tokens] != list(range(len(tokens))):
        raise ModelError(
            f"--embedder static: the tokenizer of {encoder.name} skips token ids, so it cannot be "
            "distilled. Use the model without static:, or name another."
        )
    special = set(tokenizer.all_special_ids)
    used = np.array([i for t, i in tokens if i not in special and not UNUSED.fullmatch(t)])
    before, after = _around(tokenizer)
    vectors = encoder.encode_ids([[*before, int(i), *after] for i in used])
    reduced = principal_components(vectors, DIMENSIONS)
    table = np.zeros((len(tokens), reduced.shape[1]), dtype=np.float32)
    table[used] = reduced * rarity(len(used))[:, None]
    return table


def _around(tokenizer: Any) -> tuple[list[int], list[int]]:
    """The special tokens that the tokenizer puts before and after a text."""
    bare = tokenizer("a", add_special_tokens=False)["input_ids"]
    whole = tokenizer("a")["input_ids"]
    for at in range(len(whole) - len(bare) + 1):
        if whole[at : at + len(bare)] == bare:
            return whole[:at], whole[at + len(bare) :]
    return [], []


def principal_components(vectors: NDArray[np.float32], most: int) -> NDArray[np.float32]:
    """Vectors in their leading principal components, centred.

    Args:
        vectors: [n, d].
        most: components kept at most; never more than d or n.

    Returns:
        float32 [n, min(most, d, n)]; each column's largest entry by magnitude is positive.
    """
    centred = vectors - vectors.mean(axis=0, dtype=np.float64).astype(np.float32)
    _, axes = np.linalg.eigh((centred.T @ centred).astype(np.float64))
    kept = axes[:, ::-1][:, : min(most, *vectors.shape)]
    turned: NDArray[np.float32] = centred @ kept.astype(np.float32)
    largest = np.abs(turned).argmax(axis=0)
    turned *= np.where(turned[largest, np.arange(turned.shape[1])] < 0, -1, 1)
    return turned


def rarity(n: int) -> NDArray[np.float32]:
    """SIF weights of n tokens in order of frequency, which Zipf's law estimates; float32 [n]."""
    share = 1 / np.arange(2, n + 2)
    weights: NDArray[np.float32] = (SIF / (SIF + share / share.sum())).astype(np.float32)
    return weights


def _write(folder: Path, table: NDArray[np.float32], tokenizer: Any) -> None:
    """The three files that model2vec reads."""
    from safetensors.numpy import save

    config = (
        '{"model_type": "model2vec", "architectures": ["StaticModel"], "normalize": true, '
        f'"hidden_dim": {table.shape[1]}, "max_length": 512}}\n'
    )
    tokens = tokenizer.backend_tokenizer.to_str().encode()
    contents = (save({"embeddings": table}), tokens, config.encode())
    for name, data in zip(_FILES, contents, strict=True):
        write_bytes(folder / name, data)


def _move(whole: Path, place: Path) -> None:
    """Rename into place; whoever was there first wins, because the content is the same."""
    try:
        whole.rename(place)
    except OSError:
        if not place.is_dir():
            raise
