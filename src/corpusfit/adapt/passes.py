"""Pass after pass over the chunks, as rows of a batch.

What: `Passes` gives the rows of any pass; `Feed` gives the next rows from any place on.
Why: a row is known by its pass and its number, so an interrupted training goes on from two
numbers, and reads nothing from the start.
Trade-off: a pass is laid out as a whole, 8 bytes a chunk and 8 a row, and one is kept. Drawing by
weight takes the whole part of a chunk's share for certain and only the rest by chance, which
keeps the noise of drawing as low as it can be.
Reference: TADPOLE, equation 1 and appendix C, for weighing and the question of drawing; systematic
resampling of residuals as in Douc, Cappé and Moulines (2005), Comparison of Resampling Schemes.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from corpusfit.adapt.chunks import Chunks
from corpusfit.errors import EmptyInputError, InputError
from corpusfit.kernels.packing import fill_rows

_WINDOW = 64  # batches within which chunks are sorted by length
_PASS, _REPLAY = range(2)  # what is drawn


@dataclass(frozen=True, eq=False)
class Rows:
    """Rows of chunks.

    Attributes:
        order: int64 [m], chunk numbers.
        begins: int64 [rows + 1]; row r is `order[begins[r] : begins[r + 1]]`.
    """

    order: NDArray[np.int64]
    begins: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.begins) - 1

    def some(self, begin: int, end: int) -> list[NDArray[np.int64]]:
        """The chunk numbers of each row from `begin` to `end`, one row at least."""
        at = self.begins[begin : end + 1]
        return np.split(self.order[at[0] : at[-1]], at[1:-1] - at[0])


class Passes:
    """Passes over chunks; pass p is a pure function of what is given here and of p.

    Attributes:
        chunks: the data's chunks and behind them the general text's, as rows number them.
        scale: float32 [n], what the loss of a chunk's tokens is multiplied by: its weight over the
            mean weight of the data's tokens; 1 for general text, and for all that is drawn by
            weight.

    Args:
        chunks: of the data; no weight is below 0.
        replay: general text to be mixed in.
        share: how much of the tokens of a pass it makes, in [0, 1). It is gone through in a
            seeded order, each pass from where the last one ended.
        length: tokens of a row.
        overhead: special tokens of a chunk; with these every chunk fits a row.
        draw: draw as many chunks as there are, with replacement, in proportion to their weight;
            otherwise each comes once.
        pack: fill rows with several chunks; otherwise a row is one chunk, and chunks that are
            about as long lie in the same batch.
        batch: rows of a batch.
        seed: the only source of chance.

    Raises:
        EmptyInputError: there is no chunk, or none to be mixed in.
        InputError: all weights are 0, or one is no usable number.
    """

    def __init__(
        self,
        chunks: Chunks,
        replay: Chunks | None,
        share: float,
        *,
        length: int,
        overhead: int,
        draw: bool,
        pack: bool,
        batch: int,
        seed: int,
    ) -> None:
        _require_usable(chunks, replay)
        self._own, self._draw, self._pack = len(chunks), draw, pack
        self._length, self._batch, self._seed = length, batch, seed
        w, n = chunks.weight.astype(np.float64), chunks.length.astype(np.float64)
        tokens = float(w @ n / w.sum()) * len(chunks) if draw else float(n.sum())
        of_loss = np.ones(len(w)) if draw else w / ((w @ n) / n.sum())
        self._general = _Round(replay, round(tokens * share / (1 - share)), seed)
        self.chunks = chunks.followed_by(replay) if replay is not None else chunks
        more = np.ones(len(self.chunks) - len(chunks))
        self.scale = np.concatenate([of_loss, more]).astype(np.float32)
        self._taken = self.chunks.length + np.int32(overhead)
        self._last: tuple[int, Rows] | None = None

    def count(self, number: int) -> int:
        """How many rows a pass has."""
        return len(self.rows(number))

    def fill(self, number: int) -> float:
        """Which part of a pass is tokens, special ones included; the rest is padding.

        Unpacked rows are as long as the longest of their batch.
        """
        rows = self.rows(number)
        taken = self._taken[rows.order]
        if self._pack:
            return int(taken.sum()) / (len(rows) * self._length)
        starts = np.union1d([0], np.arange(self._head(number), len(rows), self._batch))
        longest = np.maximum.reduceat(taken, starts).astype(np.int64)
        return int(taken.sum()) / int(longest @ np.diff(starts, append=len(rows)))

    def rows(self, number: int) -> Rows:
        """The rows of a pass, by its number from 0; the last one asked for is kept."""
        if self._last is None or self._last[0] != number:
            self._last = None  # not two at once in memory
            self._last = number, self._laid_out(number)
        return self._last[1]

    def _laid_out(self, number: int) -> Rows:
        chance = np.random.default_rng((self._seed, _PASS, number))
        own = np.arange(self._own)
        if self._draw:
            mixed = chance.permutation(own)
            own = np.repeat(mixed, drawn_counts(self.chunks.weight[mixed], chance.random()))
        order = chance.permutation(np.concatenate([own, self._own + self._general.taken(number)]))
        if self._pack:
            return Rows(*fill_rows(order, self._taken, self._length))
        order = self._by_length(order, self._head(number), chance)
        return Rows(order, np.arange(len(order) + 1))

    def _head(self, number: int) -> int:
        """How many rows, one chunk each, fill the last batch of the passes before."""
        return -(number * self._own + self._general.before(number)) % self._batch

    def _by_length(
        self, order: NDArray[np.int64], head: int, chance: np.random.Generator
    ) -> NDArray[np.int64]:
        """Chunks grouped by length into batches, behind so many that belong to one before."""
        rest = order[head:]
        window = _WINDOW * self._batch
        for begin in range(0, len(rest), window):
            some = rest[begin : begin + window]
            rest[begin : begin + window] = some[np.argsort(self._taken[some], kind="stable")]
        whole = len(rest) // self._batch * self._batch
        batches = rest[:whole].reshape(-1, self._batch)
        rest[:whole] = batches[chance.permutation(len(batches))].reshape(-1)
        return order


def _require_usable(chunks: Chunks, replay: Chunks | None) -> None:
    """Raise unless there is something to train on."""
    if not len(chunks):
        raise EmptyInputError("There is nothing to train on: no text of the data has a token.")
    if replay is not None and not len(replay):
        raise EmptyInputError("There is nothing to replay: no general text has a token.")
    if not (np.isfinite(chunks.weight) & (chunks.weight >= 0)).all():
        raise InputError("A weight of the data is below 0 or not finite. Run the selection again.")
    if not chunks.weight.any():
        raise InputError(
            "All weights of the data are 0, so that nothing would be learned. Take a lower "
            "weigh.alpha, or train with --weights off."
        )


class _Round:
    """General text gone round: a pass takes the chunks that begin in its stretch of tokens.

    Args:
        chunks: the general text's, if any.
        tokens: what a pass takes.
        seed: gives the order.
    """

    def __init__(self, chunks: Chunks | None, tokens: int, seed: int) -> None:
        n = len(chunks) if chunks is not None else 0
        self._order = np.random.default_rng((seed, _REPLAY)).permutation(n)
        lengths = chunks.length[self._order] if chunks is not None else np.empty(0, np.int32)
        ends = np.cumsum(lengths, dtype=np.int64)
        self._begins = ends - lengths
        self._tokens, self._round = tokens, int(ends[-1]) if n else 0

    def before(self, number: int) -> int:
        """How many chunks all passes before this one take."""
        if not self._round:
            return 0
        rounds, token = divmod(number * self._tokens, self._round)
        return rounds * len(self._order) + int(np.searchsorted(self._begins, token))

    def taken(self, number: int) -> NDArray[np.int64]:
        """int64 [k]: the chunks that a pass takes; more often than once if it goes round."""
        places = np.arange(self.before(number), self.before(number + 1))
        return self._order[places % max(1, len(self._order))]


def drawn_counts(weights: NDArray[np.float32], chance: float) -> NDArray[np.int64]:
    """How often each of n is drawn in n draws, by systematic resampling of residuals.

    Args:
        weights: float32 [n], 0 or more and not all 0.
        chance: in [0, 1).

    Returns:
        int64 [n], n in sum: the expected number n w / sum w, rounded down or up; over a uniform
        `chance` its mean is exactly that.
    """
    n = len(weights)
    expected = weights.astype(np.float64)
    expected *= n / expected.sum()
    near = np.rint(expected)
    expected = np.where(np.abs(expected - near) <= 1e-12 * near, near, expected)  # not 2.999…
    counts = np.floor(expected)
    ends = np.cumsum(expected - counts)
    missing = n - int(counts.sum())
    if missing > 0:
        passed = np.ceil(ends * (missing / ends[-1]) - chance)  # points 0 + chance, 1 + chance …
        passed[ends == ends[-1]] = missing
        counts += np.diff(passed, prepend=0.0)
    return counts.astype(np.int64)


class Feed:
    """Rows in order, pass after pass.

    Attributes:
        at: the pass and the row in it that come next; another feed may begin there.

    Args:
        passes: where they come from.
        at: where to begin, as a feed's `at` said.
    """

    def __init__(self, passes: Passes, at: tuple[int, int] = (0, 0)) -> None:
        self._passes = passes
        self.at = at

    def take(self, k: int) -> list[NDArray[np.int64]]:
        """The next k rows, each as its chunks' numbers, across the ends of passes."""
        found: list[NDArray[np.int64]] = []
        while len(found) < k:
            number, row = self.at
            rows = self._passes.rows(number)
            end = min(len(rows), row + k - len(found))
            found += rows.some(row, end)
            self.at = (number + 1, 0) if end == len(rows) else (number, end)
        return found
