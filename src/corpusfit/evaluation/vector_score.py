"""A score in seconds: word vectors from nothing but selected text, and a linear classifier on them.

All that the classifier knows of words comes from the selection, so that its accuracy on a task's
test set says what the selection teaches. It is a score of word vectors, not of a language model.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from corpusfit.core.types import text_array
from corpusfit.evaluation.significance import Difference, scored_difference
from corpusfit.evaluation.task import Task
from corpusfit.evaluation.tasks import load
from corpusfit.kernels.characters import table as characters
from corpusfit.kernels.kneser_ney import number_words
from corpusfit.kernels.skipgram import WIDTH, skipgram
from corpusfit.scoring.tokens import word_buffers

STRENGTH = 0.1
"""Inverse strength of the classifier's L2 penalty, on features of variance 1."""
KIND = "classification"
"""The kind of task that has this score: one class of a text."""
MOST_WORDS = 500_000
"""Most words of a selection to learn from."""
MOST_ROWS = 20_000
"""Most training examples of a task to learn from."""
_ITERATIONS = 1_000
_BEGIN = 1  # numbers, as in `number_words`
_END = 2


@dataclass(frozen=True)
class Words:
    """Texts as numbers of words and signs.

    Attributes:
        numbers: uint32 [p], as from `kneser_ney.number_words`: 1 before and 2 after each text.
        identities: uint64 [v], of each number.
    """

    numbers: NDArray[np.uint32]
    identities: NDArray[np.uint64]

    @classmethod
    def of(cls, texts: Sequence[str]) -> Words:
        """The words of texts, in the form in which words are compared."""
        return cls(*number_words(*word_buffers(text_array(texts)), characters(), True))

    def __len__(self) -> int:
        """The number of words, without borders of texts."""
        return int(np.count_nonzero(self.numbers > _END))

    def first(self, most: int) -> Words:
        """The texts up to so many words; the last text is cut."""
        words = np.cumsum(self.numbers > _END)
        if not len(words) or words[-1] <= most:
            return self
        kept = self.numbers[: int(np.searchsorted(words, most)) + 1]
        return Words(np.append(kept, np.uint32(_END)), self.identities)


@dataclass(frozen=True)
class WordVectors:
    """Vectors of words.

    Attributes:
        identities: uint64 [v], increasing.
        vectors: float32 [v, WIDTH].
    """

    identities: NDArray[np.uint64]
    vectors: NDArray[np.float32]

    @classmethod
    def learned(cls, words: Words, seed: int) -> WordVectors:
        """Learn from texts; a word that occurs once has no vector."""
        numbers, vectors = skipgram(words.numbers, seed)
        identities = words.identities[numbers]
        order = np.argsort(identities)
        return cls(identities[order], vectors[order])

    def means(self, rows: Words) -> NDArray[np.float64]:
        """float64 [n, WIDTH]: of each text the mean vector of its words, 0 if none has one."""
        places = np.searchsorted(self.identities, rows.identities)
        places = np.minimum(places, max(0, len(self.identities) - 1))
        known = np.zeros(len(places), bool)
        if len(self.identities):
            known = self.identities[places] == rows.identities
        known[: _END + 1] = False
        texts = np.cumsum(rows.numbers == _BEGIN) - 1
        at = np.flatnonzero(known[rows.numbers])
        owner = texts[at]
        count = np.bincount(owner, minlength=np.count_nonzero(rows.numbers == _BEGIN))
        # sums by a sparse matrix of how often each text has each word
        from scipy.sparse import csr_array

        ends = np.concatenate(([0], np.cumsum(count)))
        ones = np.ones(len(at))
        counts = csr_array(
            (ones, places[rows.numbers[at]], ends), shape=(len(count), len(self.identities))
        )
        sums = counts @ self.vectors.astype(np.float64).reshape(-1, WIDTH)
        return np.asarray(sums / np.maximum(count, 1)[:, None])


def answers(vectors: WordVectors, train: Words, labels: Sequence[Any], test: Words) -> list[Any]:
    """What a linear classifier on mean vectors answers.

    Args:
        vectors: of the selection.
        train: the rows to train on.
        labels: of each; texts or numbers.
        test: the rows to answer.

    Returns:
        A label for each row of `test`. Where all training rows have one label, that.
    """
    from sklearn.linear_model import LogisticRegression

    names = sorted(set(labels), key=str)
    number = {name: i for i, name in enumerate(names)}
    x = vectors.means(train)
    z = vectors.means(test)
    if len(names) == 1:
        return names * len(z)
    spread = x.std(axis=0)
    spread[spread == 0] = 1.0
    model = LogisticRegression(C=STRENGTH, max_iter=_ITERATIONS)
    with warnings.catch_warnings():
        # many classes with few rows are no mistake
        warnings.filterwarnings("ignore", "The number of unique classes", UserWarning)
        model.fit((x - x.mean(axis=0)) / spread, [number[label] for label in labels])
    return [names[i] for i in model.predict((z - x.mean(axis=0)) / spread)] if len(z) else []


@dataclass(frozen=True)
class VectorTask:
    """A task of one class per text, to score word vectors by.

    Attributes:
        task: with at most `MOST_ROWS` training examples, drawn by chance.
        metric: a metric of its kind, or empty for the kind's own.
        train, test: the words of its texts.
    """

    task: Task
    metric: str
    train: Words
    test: Words

    @classmethod
    def of(cls, task: Task, metric: str, seed: int) -> VectorTask:
        """Read the words of a task of kind `KIND`."""
        if len(task.train) > MOST_ROWS:
            task = task.first(MOST_ROWS, seed)
        metric = metric or load(KIND).default_metric
        return cls(task, metric, Words.of(task.train.texts()), Words.of(task.test.texts()))

    def tally(self, words: Words, seed: int) -> NDArray[np.int64]:
        """What is answered on test by vectors of some words: int64 [n, 3, k], as `TaskType.tally`.

        Args:
            words: of the selection.
            seed: of the vectors.
        """
        labels = self.task.train.flat.tolist()
        given = answers(WordVectors.learned(words, seed), self.train, labels, self.test)
        examples = self.task.test
        tally = load(KIND).tally(self.task.labels, examples, np.array(given, np.int32))
        return np.asarray(tally, np.int64)

    def score(self, tallies: Sequence[NDArray[np.int64]]) -> float:
        """The mean score of replicates, from 0 to 1."""
        summed = np.stack([tally.sum(0) for tally in tallies])
        return float(load(KIND).score(self.metric, summed).mean())

    def difference(
        self, ours: Sequence[NDArray[np.int64]], base: Sequence[NDArray[np.int64]]
    ) -> Difference:
        """How much higher the first replicates score, over replicates and test examples."""
        metric = partial(load(KIND).score, self.metric)
        return scored_difference(ours, base, metric, seed=0)
