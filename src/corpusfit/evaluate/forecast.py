"""How much nearer to a task a selection is than its corpus, by counting n-grams.

What: the fall of the KL divergence between hashed n-grams from a sample of the corpus to the
selection, and how many of the task's n-grams the selection holds.
Why: DSIR found that fall to go with the score after training (r = 0.82 over selections); it takes
seconds, an adaptation takes hours.
Trade-off: it sees words, not what they mean. Little text looks further away than much, and many
short texts nearer than few long ones; so as much of the corpus is held against as much of the
selection: whole texts drawn by chance, then n-grams of these. What is thinned away is not looked
at, and the smallest of the texts that are compared sets how fine the figures are.
Reference: Xie et al. (2023), Data Selection for Language Models via Importance Resampling
(arXiv 2302.03169), sections 3 and 4 (KL reduction).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from corpusfit.kernels import characters, grams, hashed
from corpusfit.kernels.chance import place_keys, uniform
from corpusfit.score.methods.dsir import Dsir
from corpusfit.types import Texts, buffers, taken

FEATURES = Dsir()
"""The n-grams are those that `dsir` goes by."""

PARTS = 16
"""Of the sample of the corpus; what leaving one out changes tells its noise."""

LAYERS = 48
"""Of texts, each of about a sixth of what those before it left; the last takes the rest."""

_SURE = 2.0  # standard errors
_OCTAVE = 4  # so many layers hold half of what those before them left
_THINNED = 2**43  # a stream of chance


def count(texts: Texts, weights: NDArray[np.float64] | None = None) -> NDArray[np.float64]:
    """How often each bucket of n-grams is hit.

    Args:
        texts: n of them.
        weights: float64 [n], how often each counts; once if left out.

    Returns:
        float64 [buckets].
    """
    data, offsets = buffers(texts)
    found: NDArray[np.float64] = hashed.count(
        data,
        offsets,
        characters.table(),
        FEATURES.signs,
        FEATURES.order,
        np.ones(len(texts)) if weights is None else weights,
        FEATURES.buckets,
    )
    return found


def layers(texts: Texts, weights: NDArray[np.float64] | None = None) -> NDArray[np.float64]:
    """What `count` gives, of each layer of texts; which a text is in is drawn by its place.

    All layers from any one on are together a draw of texts, of any amount that is wanted, nearly.

    Args:
        texts: n of them.
        weights: float64 [n], how often each counts; once if left out.

    Returns:
        float64 [LAYERS, buckets].
    """
    chances = uniform(place_keys(0, _THINNED, len(texts)))
    of = np.minimum(-np.log2(chances) * _OCTAVE, LAYERS - 1).astype(np.int64)
    each = np.ones(len(texts)) if weights is None else weights
    places = [np.flatnonzero(of == layer) for layer in range(LAYERS)]
    return np.stack([count(taken(texts, at), each[at]) for at in places])


def _thinned(counted: NDArray[np.float64], size: int) -> NDArray[np.float64]:
    """About `size` n-grams: the last layers, whole, and of the one before them n-grams by chance.

    Args:
        counted: float64 [parts, LAYERS, buckets], as `layers` gives them.
        size: at most as many as there are.

    Returns:
        float64 [parts, buckets].
    """
    from_on = counted.sum(axis=(0, 2))[::-1].cumsum()[::-1]
    enough = np.flatnonzero(from_on >= size)
    first = int(enough[-1]) if len(enough) else 0
    kept: NDArray[np.float64] = counted[:, first + 1 :].sum(axis=1)
    chance = np.random.default_rng(0)
    more = counted[:, first]
    whole = np.floor(more + chance.random(more.shape)).astype(np.int64)  # weights are fractions
    lacking = min(max(0, round(size - float(kept.sum()))), int(whole.sum()))
    drawn = chance.multivariate_hypergeometric(whole.ravel(), lacking, method="marginals")
    return kept + drawn.reshape(more.shape)


def divergence(target: NDArray[np.float64], text: NDArray[np.float64]) -> float:
    """KL(target || text), in nats, of two bags of n-grams (Xie et al. 2023, section 4).

    To each bucket's share of the text `dsir`'s smoothing is added, so that what it lacks by chance
    costs much but not everything; the target is taken as it is. A short text lacks more by chance,
    so that only texts of one size are held against each other (`reduction`).

    Args:
        target: float64 [buckets], counts.
        text: float64 [buckets], counts.

    Returns:
        0 or more; 0 for a target without n-grams.
    """
    total = target.sum()
    if not total:
        return 0.0
    q = text / max(1.0, text.sum()) + FEATURES.smoothing
    p, q = target / total, q / q.sum()
    there = p > 0
    return float(np.sum(p[there] * np.log(p[there] / q[there])))


@dataclass(frozen=True, eq=False)
class Known:
    """The different n-grams of the task's texts, and how often each occurs.

    Attributes:
        times: int64 [n].
        keys, places: the table that finds one, as `kernels/grams.py` makes it.
    """

    times: NDArray[np.int64]
    keys: NDArray[np.uint64]
    places: NDArray[np.int32]

    @classmethod
    def of(cls, texts: Texts) -> Known:
        """Those of some texts."""
        found = np.concatenate(list(_each(texts)))
        different, times = np.unique(found, return_counts=True)
        return cls(times, *grams.table_of(different))

    def seen_in(self, texts: Texts) -> NDArray[np.bool_]:
        """Which of them some texts hold, bool [n]."""
        seen = np.zeros(len(self.times), np.bool_)
        for found in _each(texts):
            places = grams.find_each(self.keys, self.places, found)
            seen[places[places >= 0]] = True
        return seen

    def share(self, seen: NDArray[np.bool_]) -> float:
        """Of all occurrences of the task's n-grams, those of the n-grams that were seen."""
        return float(self.times[seen].sum() / max(1, self.times.sum()))


def _each(texts: Texts) -> list[NDArray[np.uint64]]:
    """uint64 [m] identities of the n-grams of each length."""
    data, offsets = buffers(texts)
    orders = range(1, FEATURES.order + 1)
    return [grams.grams_of(data, offsets, characters.table(), order)[0] for order in orders]


@dataclass(frozen=True, eq=False)
class Counts:
    """What was counted in selected text.

    Attributes:
        texts: how many.
        layers: float64 [LAYERS, buckets], as `layers` gives them.
        seen: bool [n], as `Known.seen_in` gives it.
    """

    texts: int
    layers: NDArray[np.float64]
    seen: NDArray[np.bool_]

    def plus(self, other: Counts) -> Counts:
        """Both together."""
        return Counts(self.texts + other.texts, self.layers + other.layers, self.seen | other.seen)


@dataclass(frozen=True)
class Reduction:
    """How much nearer to the task the selected text is.

    Attributes:
        raw: KL(task || corpus), in nats.
        selected: KL(task || selected text).
        size: n-grams of each that were held against the task's.
        falls: the first less the second, DSIR's KL reduction.
        noise: standard error of `raw` by the sample of the corpus (jackknife over its parts).
        covered: share of the task's n-grams, counted as often as they occur, that are in the
            selected text; it grows with the text.
    """

    raw: float
    selected: float
    size: int
    falls: float
    noise: float
    covered: float

    @property
    def apart(self) -> float:
        """What two draws of one text may differ by, in nats."""
        return _SURE * 2**0.5 * self.noise

    @property
    def sure(self) -> bool:
        """Whether it falls by more than the noise of two such draws."""
        return self.falls > self.apart


def reduction(
    target: NDArray[np.float64],
    sample: NDArray[np.float64],
    selected: NDArray[np.float64],
    covered: float,
    size: int,
) -> Reduction:
    """The KL reduction of a selection.

    Args:
        target: float64 [buckets], counts of the task's texts.
        sample: float64 [parts, LAYERS, buckets], of parts of a sample of the corpus, of about
            equal size.
        selected: float64 [LAYERS, buckets], of the selected text.
        covered: see `Reduction`.
        size: n-grams of each that are compared, at most what there are of either: selections that
            are set side by side need the same.
    """
    parts = _thinned(sample, size)
    n, whole = len(parts), np.sum(parts, axis=0)
    raw, chosen = divergence(target, whole), divergence(target, _thinned(selected[None], size)[0])
    without = [divergence(target, whole - part) for part in parts]
    noise = float(np.std(without) * (n - 1) ** 0.5)  # the jackknife
    return Reduction(raw, chosen, size, raw - chosen, noise, covered)
