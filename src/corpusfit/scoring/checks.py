"""What every scoring method keeps to, as a check that any package runs on its own."""

from __future__ import annotations

import zlib
from typing import Any

import numpy as np
from numpy.typing import NDArray

from corpusfit.core.artifacts import deserialise, serialize
from corpusfit.core.errors import require_promise
from corpusfit.core.types import Paired, Reads, WithNumbers, read_as, take_units, text_array
from corpusfit.scoring import registry
from corpusfit.scoring.contract import AnyMethod, CorpusMethod, Method

WIDTH = 24
"""Dimensions of the embeddings that are drawn."""

_TOPICS = (
    "protein kinase binds the receptor and inhibits cell growth in mice",
    "the market fell as investors sold shares before the quarterly results",
)
_ROWS = 61
_ROUNDING = 0.05
"""Most that a score of a network, which multiplies in bf16 where it can, may differ in another
batch, as a share of the scores' spread."""


def check_method(name: str, **settings: Any) -> None:
    """Check a scoring method on small data of two topics.

    The same seed has to give the same bits, other batches or shards the same scores, and a stored
    scorer the bits of the one that was stored.

    Args:
        name: the method's name, as in `method.name`.
        settings: its settings, where the defaults would take minutes.

    Raises:
        AssertionError: the method breaks a promise, which the message names.
        UsageError: there is no such method, or it scores no texts.
    """
    method = registry.build(name, settings)
    if isinstance(method, CorpusMethod):
        _check_corpus_method(method)
        return
    method = registry.unit_method(name, settings)
    batch = draw(method.reads, 2, 30, 31)
    scorer = _fitted(method)
    scores = scorer.score(batch)
    _require_scores(scores, _ROWS)
    require_promise((_fitted(method).score(batch) == scores).all(), "another fit has other scores")
    _check_batches(method, scorer, batch, scores)
    stored = deserialise(serialize(name, scorer), registry.scorer_class)
    require_promise(type(stored) is type(scorer), "the stored scorer is of another class")
    require_promise((stored.score(batch) == scores).all(), "the stored scorer has other scores")


def draw(form: Reads, stream: int, near: int, far: int) -> Any:
    """Units of one topic, then of the other, as a method reads them."""
    rng = np.random.default_rng(zlib.crc32(f"check {stream}".encode()))
    sides = np.repeat([0, 1], [near, far])
    texts = text_array([_sentence(rng, side) for side in sides])
    # unit noise around two centers that are 2.5 apart in every dimension
    centers = np.zeros((2, WIDTH))
    centers[0, ::2] = centers[1, 1::2] = 2.5
    vectors = centers[sides] + rng.standard_normal((len(sides), WIDTH))
    units = Paired(texts, vectors.astype(np.float32))
    if form == "numbers":
        return WithNumbers(texts, {"edu": rng.standard_normal(len(sides))})
    return read_as(units, form)


def _sentence(rng: np.random.Generator, side: int) -> str:
    return " ".join(rng.choice(_TOPICS[side].split(), rng.integers(8, 20))) + "."


def _fitted(method: Method[Any]) -> Any:
    return method.fit(draw(method.fits_on, 0, 60, 0), draw(method.fits_on, 1, 10, 90), seed=7)


def _require_scores(scores: NDArray[np.float32], rows: int) -> None:
    require_promise(scores.dtype == np.float32, f"scores are {scores.dtype}, not float32")
    require_promise(scores.shape == (rows,), f"scores have the shape {scores.shape}, not ({rows},)")
    require_promise(np.isfinite(scores).all(), "some scores are not finite")


def _check_batches(method: AnyMethod, scorer: Any, batch: Any, scores: NDArray[Any]) -> None:
    """Workers get other batches, in another order."""
    rows = np.arange(_ROWS)
    order = rows[::-1]
    for size in (1, 7, _ROWS):
        parts = [order[first : first + size] for first in range(0, _ROWS, size)]
        again = np.concatenate([scorer.score(take_units(batch, part)) for part in parts])
        allowed = 0.0 if method.exact else _ROUNDING * scores.std()
        require_promise(
            np.abs(again - scores[order]).max() <= allowed, f"batches of {size} score otherwise"
        )
    require_promise(scorer.score(take_units(batch, rows[:0])).shape == (0,), "no texts have scores")


def _check_corpus_method(method: CorpusMethod) -> None:
    """Workers read other shards; the corpus is read anew at each iteration."""
    units = draw(method.reads, 2, 30, 31)
    whole = _scored(method, [units])
    _require_scores(whole, _ROWS)
    shards = [take_units(units, part) for part in np.array_split(np.arange(_ROWS), (9, 9, 40))]
    require_promise((_scored(method, [units]) == whole).all(), "the same corpus scores otherwise")
    require_promise((_scored(method, shards) == whole).all(), "other shards score otherwise")


def _scored(method: CorpusMethod, shards: list[Any]) -> NDArray[np.float32]:
    target = draw(method.fits_on, 0, 60, 0)
    background = draw(method.fits_on, 1, 10, 90)
    found = list(method.score_corpus(list(enumerate(shards)), target, background, seed=7))
    require_promise(
        [shard for shard, _ in found] == [*range(len(shards))], "not every shard has scores"
    )
    return np.concatenate([scores for _, scores in found])
