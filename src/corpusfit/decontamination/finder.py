"""Contamination: find held-out texts in training text, exact, edited or contained in another."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from corpusfit.core.artifacts import read_arrays, write_arrays
from corpusfit.core.types import Texts, buffers, text_array
from corpusfit.kernels import characters
from corpusfit.kernels.grams import table_of
from corpusfit.kernels.overlap import bitmap, inverted, overlaps, sketches
from corpusfit.text.normalize import normalize
from corpusfit.text.same_text import folded, form_keys, form_of, key_of, normal_form

CONTAINMENT = 0.8  # The least containment that counts as contamination
_ORDER = 5
_MAX_NGRAMS = 128
_MIN_NGRAMS = 4
_HEAD = 24  # bytes of a text's normal form that the quick filter compares
_HEAD_IN = 48  # characters whose normal form nearly always has `_HEAD` bytes
_WORDS = re.compile(r"\w+")
_SIGNS = re.compile(r"[&#\x80-\x9f]")
# `normalize` is slow, and changes words only in texts with one of these or a tag.
_MARKS = (
    *("quot;", "amp;", "lt;", " n't", " N'T", "[[ ", "gon na", "wan na", "got ta"),
    *(f"-{side}{kind}b-" for side in "lr" for kind in "rsc"),
    *(f"-{side}{kind}B-" for side in "LR" for kind in "RSC"),
)
_ROUNDING = 1e-9


@dataclass(frozen=True, eq=False)
class HeldoutIndex:
    """Index of n distinct held-out texts, numbered in order; only hashes are kept."""

    # A text is sketched by its 5-grams of words and symbols: all, or the 128 smallest by hash. A
    # tokenised text ("do n't") is indexed in a second, detokenised form too.

    keys: NDArray[np.uint64]  # uint64 [k], `text_keys` of all forms, increasing
    texts: NDArray[np.int64]  # int64 [k], number of each form's text
    heads: NDArray[np.uint64]  # uint64 [h], keys of the forms' first bytes
    grams: NDArray[np.uint64]  # uint64 [v], distinct n-grams of all sketches
    # int64 [v + 1], where the sketches with each n-gram begin in `owners`
    begins: NDArray[np.int64]
    owners: NDArray[np.int32]  # int32 [m], numbers of sketches
    sizes: NDArray[np.int32]  # int32 [s], n-grams of each sketch
    of: NDArray[np.int64]  # int64 [s], number of each sketch's text

    @classmethod
    def of_texts(cls, texts: Iterable[str]) -> HeldoutIndex:
        """Index texts; copies and blank texts are skipped."""
        number_of: dict[bytes, int] = {b"": -1}
        spelled: list[str] = []
        numbers: list[int] = []
        for text in texts:
            if normal_form(folded(text)) in number_of:
                continue
            number = numbers[-1] + 1 if numbers else 0
            for variant in map(folded, (text, *_detokenised(text))):
                if number_of.setdefault(normal_form(variant), number) == number:
                    # a lone surrogate has no UTF-8
                    spelled.append(variant.encode("utf-8", "replace").decode())
                    numbers.append(number)
        del number_of[b""]
        keys = np.array([key_of(form) for form in number_of], np.uint64)
        order = np.argsort(keys)
        data, offsets = buffers(text_array(spelled))
        grams, bounds = sketches(data, offsets, characters.symbol_table(), _ORDER, _MAX_NGRAMS)
        return cls(
            keys[order],
            np.array(list(number_of.values()), np.int64)[order],
            np.unique(np.array([key_of(form[:_HEAD]) for form in number_of], np.uint64)),
            *inverted(grams, bounds),
            np.diff(bounds).astype(np.int32),
            np.array(numbers, np.int64),
        )

    def numbers(self, texts: Sequence[str]) -> NDArray[np.int64]:
        """int64 [m]: the number of each of m texts; -1 for a text that is not indexed."""
        return self.numbers_of(map(folded, texts))

    def numbers_of(self, folded_texts: Iterable[str]) -> NDArray[np.int64]:
        """Like `numbers`, for texts that are already `folded`."""
        keys = form_keys(folded_texts)
        if not len(self.keys):
            return np.full(len(keys), -1, np.int64)
        at = np.minimum(np.searchsorted(self.keys, keys), len(self.keys) - 1)
        return np.where(self.keys[at] == keys, self.texts[at], -1)

    def write(self, path: Path) -> None:
        """Write it to a file."""
        write_arrays(path, {f.name: getattr(self, f.name) for f in fields(self)}, {})

    @classmethod
    def read(cls, path: Path) -> HeldoutIndex:
        """Read what `write` wrote."""
        return cls(**read_arrays(path)[0])


def found_as_copy_only(text: str) -> bool:
    """Whether a held-out text has too few 5-grams to be found in any but the same text."""
    return int(HeldoutIndex.of_texts([text]).sizes.max(initial=0)) < _MIN_NGRAMS


def _detokenised(text: str) -> list[str]:
    """The text as printed, if its words differ ("do n't", "&amp;"); otherwise empty."""
    tags = text.count("<") > text.count("<br")  # `normalize` keeps line breaks
    if not (tags or _SIGNS.search(text) or any(mark in text for mark in _MARKS)):
        return []
    plain = normalize(text)
    return [] if _WORDS.findall(plain) == _WORDS.findall(text) else [plain]


@dataclass(frozen=True, eq=False)
class ContaminationMatches:
    """m matches of a text and a held-out text that it contains, ordered by both."""

    text: NDArray[np.int64]  # int64 [m], position of the text in its batch
    heldout: NDArray[np.int64]  # int64 [m], number of the held-out text
    containment: NDArray[np.float32]  # float32 [m], `CONTAINMENT` to 1
    # int64 [m], byte of the `folded` text where the match begins, approximately
    byte: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.text)


class ContaminationFinder:
    """Finds held-out texts in other texts.

    Reference: Broder (1997), On the resemblance and containment of documents; Lee et al. (2022),
    Deduplicating Training Data Makes Language Models Better.
    """

    # A text matches if it contains at least 0.8 of the sketch. Containment is used, not Jaccard
    # similarity: a test text inside a web page is contamination too, and containment is never below
    # Jaccard similarity. Above 128 distinct 5-grams containment is an unbiased estimate with a
    # standard deviation of at most 0.035 at 0.8. A text with fewer than 4 distinct 5-grams (8 words
    # without repeats) matches only the same text (`corpus.same_text`), which matches at any length.
    # Not found: translations, paraphrases, and texts split so that no piece contains 0.8.
    # index: index of the held-out texts.

    def __init__(self, index: HeldoutIndex) -> None:
        self._index = index
        self._bits = bitmap(index.grams)
        self._table = table_of(index.grams)
        # a share of very few n-grams proves nothing, so short texts match only as copies
        need = np.ceil(CONTAINMENT * index.sizes - _ROUNDING).astype(np.int32)
        self._need = np.where(index.sizes < _MIN_NGRAMS, np.int32(0), need)

    def find(self, texts: Texts) -> ContaminationMatches:
        """Matches of n texts; a text's matches do not depend on the batch."""
        spelled = [folded(text) for text in texts.to_pylist()]
        data, offsets = buffers(text_array(spelled))
        text, sketch, hits, byte = overlaps(
            data,
            offsets,
            characters.symbol_table(),
            _ORDER,
            self._bits,
            *self._table,
            self._index.begins,
            self._index.owners,
            self._need,
        )
        contained = (hits / self._index.sizes[sketch]).astype(np.float32)
        same, heldout = self._same(spelled)
        pairs = (
            np.concatenate([text, same]),
            np.concatenate([self._index.of[sketch], heldout]),
            np.concatenate([contained, np.ones(len(same), np.float32)]),
            np.concatenate([byte, np.zeros(len(same), np.int64)]),
        )
        # keep the highest containment of each pair of texts
        best = np.lexsort((-pairs[2], pairs[1], pairs[0]))
        text = pairs[0][best]
        heldout = pairs[1][best]
        first = np.ones(len(text), bool)
        first[1:] = (np.diff(text) != 0) | (np.diff(heldout) != 0)
        return ContaminationMatches(*(column[best[first]] for column in pairs))

    def _same(self, spelled: Sequence[str]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The `folded` texts that are the same text as a held-out one, and its number."""
        heads = np.array([key_of(_head(text)) for text in spelled], np.uint64)
        at = np.flatnonzero(np.isin(heads, self._index.heads))
        heldout = self._index.numbers_of([spelled[i] for i in at.tolist()])
        return at[heldout >= 0], heldout[heldout >= 0]


def _head(spelled: str) -> bytes:
    """The first bytes of a text's form, a quick filter: most texts match no held-out text's."""
    form = form_of(spelled[:_HEAD_IN])
    return (form if len(form) >= _HEAD else normal_form(spelled))[:_HEAD]
