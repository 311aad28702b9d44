"""Held-out bits: how well a model of a method's selection predicts unseen target texts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from corpusfit.core.types import Texts, read_as, take_texts
from corpusfit.kernels.backoff import log_probabilities
from corpusfit.kernels.chance import place_keys
from corpusfit.kernels.characters import table as characters
from corpusfit.kernels.kneser_ney import estimate, number_words
from corpusfit.scoring.contract import AnyMethod, CorpusMethod, Method, Scorer
from corpusfit.scoring.tokens import word_buffers

ORDER = 3
FOLDS = 4
HALVES = 2
FEWEST_UNITS = 5
"""Units of mean length in a half of the sample, below which an amount is not evaluated."""
MAX_TARGET = 2_000
"""Most target units that are fitted on or evaluated on; more cost time and change no verdict."""
MIN_CONTAINED = 8
"""Words from which a target text inside a corpus text is a leak; a shorter text must be equal."""
LEVEL = 0.95

_BITS = float(np.log2(10.0))
_TIES = 1  # a random stream
_BEGIN = 1  # number of the begin of a text, as in `number_words`


@dataclass(frozen=True)
class HeldOut:
    """A target in folds and a corpus sample in words, to evaluate selections of the sample."""

    words: NDArray[np.uint32]  # [p], the sample's texts as from `kneser_ney.number_words`
    begins: NDArray[np.int64]  # [m + 1], where each of the m units begins in `words`
    identities: NDArray[np.uint64]  # [v], of the different words of sample and target together
    texts: Texts
    # [n], number of words of each text, plus one for its end; 0 if it is not evaluated
    tokens: NDArray[np.int64]
    # [n], the fold in which each text is held out; -1 for one that is not used
    folds: NDArray[np.int64]
    documents: NDArray[np.int64]  # [n], the document of each text
    left_out: Mapping[str, int]  # number of texts in folds that are not evaluated on, by reason
    # [folds, m], which of two random halves of the sample each unit is in, in each fold
    halves: NDArray[np.int64]

    @property
    def sizes(self) -> NDArray[np.int64]:
        """int64 [m], words of each unit of the sample."""
        return np.diff(self.begins) - 2

    @property
    def count(self) -> int:
        """The number of folds."""
        return int(self.folds.max(initial=-1)) + 1

    @property
    def usable(self) -> bool:
        """Whether there are texts of two documents to evaluate on, and another fold to fit on."""
        return self.count > 1 and len(np.unique(self.documents[self.tokens > 0])) > 1

    def fitted(self, fold: int) -> NDArray[np.int64]:
        """Positions of the target texts to fit on, int64 [k], increasing."""
        return np.flatnonzero((self.folds >= 0) & (self.folds != fold))

    def half(self, fold: int, number: int) -> NDArray[np.int64]:
        """Positions of the units in a half of the sample, int64 [k], increasing."""
        units = np.flatnonzero(self.halves[fold] == number)
        return units if len(units) else np.arange(self.halves.shape[1])  # of a single unit

    def measurable(self, share: float) -> bool:
        """Whether a share of half a sample is enough words to be evaluated."""
        units = share * self.halves.shape[1] / HALVES
        return bool(units >= FEWEST_UNITS)

    def bits(
        self,
        scores: NDArray[np.float32],
        fold: int,
        shares: Sequence[float],
        units: NDArray[np.int64],
    ) -> NDArray[np.float64]:
        """Evaluate the best shares of some units of the sample on the texts of a fold.

        Args:
            scores: float32 [k], a method's scores of the units.
            fold: its number.
            shares: of the words of the units; a of them.
            units: int64 [k], their positions.

        Returns:
            float64 [a, n], bits of each text.
        """
        text_bits = np.zeros((len(shares), len(self.texts)))
        places = np.flatnonzero((self.folds == fold) & (self.tokens > 0))
        evaluated = word_buffers(take_texts(self.texts, places))
        units = units[best_first(scores)]
        words = np.cumsum(self.sizes[units])
        for i, share in enumerate(shares):
            model = self._model(np.sort(units[: fitting(words, round(share * int(words[-1])))]))
            text_bits[i, places] = (
                -_BITS * log_probabilities(model, ORDER, *evaluated, characters(), False)[0]
            )
        return text_bits

    def _model(self, units: NDArray[np.int64]) -> NDArray[np.uint64]:
        """A model of units of the sample, over the vocabulary of sample and target."""
        words = np.concatenate([self.words[self.begins[i] : self.begins[i + 1]] for i in units])
        used = np.bincount(words, minlength=len(self.identities)) > 0
        used[:3] = True  # unknown, begin and end
        renumbered = (np.cumsum(used) - 1).astype(np.uint32)
        return estimate(renumbered[words], self.identities[used], ORDER, len(self.identities))


def best_first(scores: NDArray[np.float32]) -> NDArray[np.int64]:
    """The places of scores from high to low; of equal ones by chance, not the first files first."""
    return np.lexsort((place_keys(0, _TIES, len(scores)), -scores))


def fitting(words: NDArray[np.int64], budget: int) -> int:
    """How many units fit a budget, at least one; of their words, cumulative from the best on."""
    return max(1, int(np.searchsorted(words, budget, side="right")))


def held_out(
    target: Texts,
    sample: Texts,
    *,
    seed: int,
    documents: NDArray[np.int64] | None = None,
    sample_documents: NDArray[np.int64] | None = None,
) -> HeldOut:
    """Divide a target into folds and read target and corpus sample as words."""
    # Folds are random, of whole documents; of units if there are fewer documents than folds. A text
    # is not evaluated on if another fold has the same words, if a unit of the sample has the same
    # words or contains them (from `MIN_CONTAINED` words), or if none of its words is in the
    # sample, as then it cannot distinguish selections. Case and punctuation do not count.
    n = len(target)
    documents = np.arange(n) if documents is None else documents
    if len(np.unique(documents)) < FOLDS:
        documents = np.arange(n)
    folds = _folds(documents, seed)
    everything = word_buffers(pa.concat_arrays([sample, target]))
    words, identities = number_words(*everything, characters(), False)
    begins = np.append(np.flatnonzero(words == _BEGIN), len(words))
    split = int(begins[len(sample)])
    lengths = np.diff(begins[len(sample) :]) - 1
    target_texts = np.split(words[split:], np.cumsum(lengths + 1)[:-1])
    in_sample = np.bincount(words[:split], minlength=len(identities)) > 0
    # texts that cannot tell good selections from bad ones, by reason
    unusable = {
        "repeat others": _repeated(target_texts, folds),
        "occur in the corpus sample": _found_in(words[:split], target_texts, len(identities)),
        "have no word in common with it": np.array(
            [not in_sample[t[1:-1]].any() for t in target_texts]
        ),
    }
    evaluated = folds >= 0
    left_out = {}
    for reason, excluded in unusable.items():
        left_out[reason] = int(np.count_nonzero(evaluated & excluded))
        evaluated &= ~excluded
    return HeldOut(
        words[:split],
        begins[: len(sample) + 1],
        identities,
        target,
        np.where(evaluated, lengths, 0),
        folds,
        documents,
        {reason: count for reason, count in left_out.items() if count},
        _halves(np.arange(len(sample)) if sample_documents is None else sample_documents, seed),
    )


def fit_to_sample(
    method: AnyMethod, target: Any, sample: Any, *, seed: int
) -> Callable[[], NDArray[np.float32]]:
    """Fit a method with the corpus sample as the background."""
    batch = read_as(sample, method.reads)
    if isinstance(method, CorpusMethod):
        score = partial(method.score_corpus, [(0, batch)], target, sample, seed=seed)
        return lambda: np.concatenate([scores for _, scores in score()])
    assert isinstance(method, Method)  # noqa: S101 (labels are not on texts)
    scorer: Scorer[Any] = method.fit(target, sample, seed=seed)
    return lambda: scorer.score(batch)


def _folds(documents: NDArray[np.int64], seed: int) -> NDArray[np.int64]:
    _, numbers, units = np.unique(documents, return_inverse=True, return_counts=True)
    order = np.random.default_rng(seed % 2**64).permutation(len(units))
    used = np.cumsum(units[order]) <= max(MAX_TARGET, int(units[order[0]]))
    fold = np.full(len(units), -1)
    fold[order[used]] = np.arange(np.count_nonzero(used)) % FOLDS
    return np.asarray(fold[numbers])


def _halves(documents: NDArray[np.int64], seed: int) -> NDArray[np.int64]:
    """Random halves of a sample for every fold, of whole documents unless there are too few."""
    if len(np.unique(documents)) < FOLDS:
        documents = np.arange(len(documents))
    _, numbers = np.unique(documents, return_inverse=True)
    rng = np.random.default_rng([seed % 2**64, HALVES])
    count = numbers.max(initial=-1) + 1
    half_of_document = (rng.permutation(count) % HALVES for _ in range(FOLDS))
    return np.stack([half[numbers] for half in half_of_document])


def _repeated(texts: Sequence[NDArray[np.uint32]], folds: NDArray[np.int64]) -> NDArray[np.bool_]:
    seen: dict[bytes, set[int]] = {}
    for text, fold in zip(texts, folds.tolist(), strict=True):
        seen.setdefault(text.tobytes(), set()).add(fold)
    return np.array([len(seen[text.tobytes()] - {-1}) > 1 for text in texts])


def _found_in(
    words: NDArray[np.uint32], texts: Sequence[NDArray[np.uint32]], vocabulary: int
) -> NDArray[np.bool_]:
    """Whether a unit of the sample has a text's words, bool [n]; begin and end bound both."""
    counts = np.bincount(words, minlength=vocabulary)
    places = np.argsort(words, kind="stable")
    ends = np.cumsum(counts)
    occurs = np.zeros(len(texts), np.bool_)
    for i, text in enumerate(texts):
        sought = text[1:-1] if len(text) - 2 >= MIN_CONTAINED else text
        # start from the occurrences of the rarest word, and drop those whose neighbors differ
        rarest = int(np.argmin(counts[sought]))
        last = int(ends[sought[rarest]])
        at = places[last - counts[sought[rarest]] : last] - rarest
        at = at[(at >= 0) & (at + len(sought) <= len(words))]
        for j, word in enumerate(sought):
            at = at[words[at + j] == word]
            if not len(at):
                break
        occurs[i] = len(at) > 0
    return occurs


@dataclass(frozen=True)
class Difference:
    """A difference in bits per word, with the ends of its 95 % interval."""

    mean: float
    low: float
    high: float

    @classmethod
    def of_variances(cls, mean: float, *variances: tuple[float, int]) -> Difference:
        """Student's t interval of a mean whose variance is a sum.

        Args:
            mean: of the difference.
            variances: each with its degrees of freedom.

        Reference: Satterthwaite (1946), degrees of freedom of a sum of variances.
        """
        from scipy import special

        variance = sum(each for each, _ in variances)
        squares = sum(each**2 / degrees for each, degrees in variances)
        freedom = variance**2 / squares if squares else 1.0
        width = float(special.stdtrit(freedom, (1 + LEVEL) / 2)) * variance**0.5
        return cls(mean, mean - width, mean + width)


def between_halves(differences: NDArray[np.float64]) -> float:
    """The variance over samples of a mean difference, float64 [folds, 2] of folds and halves.

    Reference: McCarthy (1969), repeated half-samples.
    """
    return float(np.mean(np.square(differences[:, 0] - differences[:, 1]))) / 4


@dataclass(frozen=True)
class Comparison:
    """Several methods on the same texts and the same halves of the sample.

    A difference varies with the n target documents and with the sample. Its variance is the sum of
    two:

    - over documents, of the ratio of sums (bits over words) by its residuals, averaged over both
      halves (Cochran 1977, equation 2.45);
    - over samples: in each of F folds the sample is divided anew into two random halves, and the
      variance of the mean over halves is (first - second)^2 / 4; averaged over the folds (repeated
      half-samples: McCarthy 1969).

    The interval is Student's t with the degrees of freedom of a sum of two variances with n - 1 and
    F degrees (Satterthwaite 1946). Text that a method was fitted on varies only as folds do.
    """

    held: HeldOut
    sums: Mapping[str, NDArray[np.float64]]  # float64 [2, n], bits of each text by half and method

    def bits(self, method: str) -> float:
        """Bits per word over all texts evaluated on, the mean of both halves."""
        return float(self.sums[method].mean(axis=0).sum() / self.held.tokens.sum())

    def difference(self, method: str, other: str) -> Difference:
        """How many more bits a method needs than another."""
        if method == other:
            return Difference(0.0, 0.0, 0.0)
        tokens = self.held.tokens.astype(np.float64)
        folds = self.held.folds
        more = self.sums[method] - self.sums[other]
        mean = float(more.mean(axis=0).sum() / tokens.sum())
        documents = np.unique(self.held.documents[tokens > 0], return_inverse=True)[1]
        residuals = np.bincount(documents, (more.mean(axis=0) - mean * tokens)[tokens > 0])
        n = len(residuals)
        of_documents = n / (n - 1) * float((residuals**2).sum() / tokens.sum() ** 2)
        by_fold = np.array(
            [
                more[:, folds == fold].sum(axis=1) / tokens[folds == fold].sum()
                for fold in np.unique(folds[tokens > 0])
            ]
        )
        of_samples = between_halves(by_fold)
        return Difference.of_variances(mean, (of_documents, n - 1), (of_samples, len(by_fold)))
