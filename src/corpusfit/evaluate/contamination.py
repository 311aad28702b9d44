"""Whether a task's texts are in text that is to be trained on: whole, edited, or inside another.

What: a text that is held out for judging is watched by a sketch of its 5-grams of words: all of
them, or the 128 smallest by hash. A text to train on holds it if it has at least 0.8 of the sketch.
Why: a model that has read the test texts is judged too well. A review in a web page is no less
read than the review alone, so what counts is containment: the share of the watched text's 5-grams
that the other has. The resemblance of two whole texts (Jaccard) needs no look of its own: it is
never above containment, so whoever resembles by 0.8 also contains by 0.8.
Trade-off: for a text of more than 128 different 5-grams containment is an unbiased estimate, with a
standard deviation of at most 0.035 at 0.8. Below 4 different 5-grams (8 words without repeats) it
would be chance; such a text is found only where another has the same letters and digits
(`adapt/keys.py`), which is looked at for all texts. What is not found: a translation, a
paraphrase, and a text that was cut up, of which no piece holds 0.8.
Reference: Broder (1997), On the resemblance and containment of documents; Lee et al. (2022),
Deduplicating Training Data Makes Language Models Better.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from corpusfit.adapt.keys import bare, key_of, text_keys
from corpusfit.artifacts import read_arrays, write_arrays
from corpusfit.corpus import normalise
from corpusfit.kernels import characters
from corpusfit.kernels.grams import table_of
from corpusfit.kernels.overlap import bitmap, inverted, overlaps, sketches
from corpusfit.types import Texts, buffers, text_array

ENOUGH = 0.8
"""The containment from which a text counts as held."""

_ORDER = 5
_MOST = 128
_FEWEST = 4
_HEAD = 12  # letters and digits
_HEAD_IN = 48  # characters that nearly always have so many
_WORDS = re.compile(r"\w+")
_SIGNS = re.compile(r"[&#\x80-\x9f]")
_MARKS = (
    *("quot;", "amp;", "lt;", " n't", " N'T", "[[ ", "gon na", "wan na", "got ta"),
    *(f"-{side}{kind}b-" for side in "lr" for kind in "rsc"),
    *(f"-{side}{kind}B-" for side in "LR" for kind in "RSC"),
)
"""Without one of these, or a tag, `normalise` leaves the words as they are; it takes a while."""

_ROUNDING = 1e-9


@dataclass(frozen=True, eq=False)
class Watched:
    """n different texts that may not be trained on, numbered as they came; only hashes are kept.

    A text that its task split into words in a way of its own is watched in a second form too, as
    it would stand in print.

    Attributes:
        keys: uint64 [k], of all forms as `text_keys` gives them, increasing.
        texts: int64 [k], the number of each one's text.
        heads: uint64 [h], keys of their first letters.
        grams: uint64 [v], the different n-grams of all sketches.
        begins: int64 [v + 1], where the sketches with each n-gram begin in `owners`.
        owners: int32 [m], numbers of sketches.
        sizes: int32 [s], n-grams of each sketch.
        of: int64 [s], the number of each sketch's text.
    """

    keys: NDArray[np.uint64]
    texts: NDArray[np.int64]
    heads: NDArray[np.uint64]
    grams: NDArray[np.uint64]
    begins: NDArray[np.int64]
    owners: NDArray[np.int32]
    sizes: NDArray[np.int32]
    of: NDArray[np.int64]

    @classmethod
    def of_texts(cls, texts: Iterable[str]) -> Watched:
        """Watch some texts, copies once; one without a letter or a digit is left out."""
        known: dict[str, int] = {"": -1}
        forms: list[str] = []
        of: list[int] = []
        for text in texts:
            letters = bare(text)
            if letters in known:
                continue
            number = of[-1] + 1 if of else 0
            for form in (text, *_in_print(text)):
                letters = letters if form is text else bare(form)
                if known.setdefault(letters, number) == number:
                    forms.append(form.encode("utf-8", "replace").decode())  # no lone surrogates
                    of.append(number)
        del known[""]
        keys = np.array([key_of(letters) for letters in known], np.uint64)
        order = np.argsort(keys)
        data, offsets = buffers(text_array(forms))
        grams, bounds = sketches(data, offsets, characters.table(), _ORDER, _MOST)
        return cls(
            keys[order],
            np.array(list(known.values()), np.int64)[order],
            np.unique(np.array([key_of(letters[:_HEAD]) for letters in known], np.uint64)),
            *inverted(grams, bounds),
            np.diff(bounds).astype(np.int32),
            np.array(of, np.int64),
        )

    def numbers(self, texts: Sequence[str]) -> NDArray[np.int64]:
        """int64 [m]: the number of each of m texts; -1 for one that is not watched."""
        keys = text_keys(texts)
        if not len(self.keys):
            return np.full(len(keys), -1, np.int64)
        at = np.minimum(np.searchsorted(self.keys, keys), len(self.keys) - 1)
        return np.where(self.keys[at] == keys, self.texts[at], -1)

    def write(self, path: Path) -> None:
        """Write to a file, for workers."""
        write_arrays(path, {f.name: getattr(self, f.name) for f in fields(self)}, {})

    @classmethod
    def read(cls, path: Path) -> Watched:
        """Read what `write` wrote."""
        return cls(**read_arrays(path)[0])


def _in_print(text: str) -> list[str]:
    """A text as it would stand in print, if that has other words ("do n't", "&amp;")."""
    tags = text.count("<") > text.count("<br")  # breaks stay, as in `normalise`
    if not (tags or _SIGNS.search(text) or any(mark in text for mark in _MARKS)):
        return []
    plain = normalise(text)
    return [] if _WORDS.findall(plain) == _WORDS.findall(text) else [plain]


@dataclass(frozen=True, eq=False)
class Held:
    """m pairs of a text and a watched text that it holds, by text and watched text.

    Attributes:
        text: int64 [m], the text's place in its batch.
        watched: int64 [m], the number of the text that it holds.
        containment: float32 [m], `ENOUGH` to 1.
        byte: int64 [m], the byte of the text at which what it holds about begins.
    """

    text: NDArray[np.int64]
    watched: NDArray[np.int64]
    containment: NDArray[np.float32]
    byte: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.text)


class Watch:
    """Looks for watched texts in others.

    Args:
        watched: the texts.
    """

    def __init__(self, watched: Watched) -> None:
        self._watched = watched
        self._bits = bitmap(watched.grams)
        self._table = table_of(watched.grams)
        need = np.ceil(ENOUGH * watched.sizes - _ROUNDING).astype(np.int32)
        self._need = np.where(watched.sizes < _FEWEST, np.int32(0), need)

    def held(self, texts: Texts) -> Held:
        """What n texts hold; a text's answer does not depend on its neighbours."""
        data, offsets = buffers(texts)
        text, sketch, hits, byte = overlaps(
            data,
            offsets,
            characters.table(),
            _ORDER,
            self._bits,
            *self._table,
            self._watched.begins,
            self._watched.owners,
            self._need,
        )
        contained = (hits / self._watched.sizes[sketch]).astype(np.float32)
        same, of = self._same(texts)
        pairs = (
            np.concatenate([text, same]),
            np.concatenate([self._watched.of[sketch], of]),
            np.concatenate([contained, np.ones(len(same), np.float32)]),
            np.concatenate([byte, np.zeros(len(same), np.int64)]),
        )
        best = np.lexsort((-pairs[2], pairs[1], pairs[0]))
        text, of = pairs[0][best], pairs[1][best]
        first = np.ones(len(text), bool)
        first[1:] = (np.diff(text) != 0) | (np.diff(of) != 0)
        return Held(*(column[best[first]] for column in pairs))

    def _same(self, texts: Texts) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The texts with the letters and digits of a watched text, and which that is."""
        given = texts.to_pylist()
        heads = np.array([key_of(_head(text)) for text in given], np.uint64)
        at = np.flatnonzero(np.isin(heads, self._watched.heads))
        of = self._watched.numbers([given[i] for i in at])
        return at[of >= 0], of[of >= 0]


def _head(text: str) -> str:
    """A text's first letters: most texts begin unlike any watched one, and need no more."""
    letters = bare(text[:_HEAD_IN])
    return (letters if len(letters) >= _HEAD else bare(text))[:_HEAD]
