"""Tokens: of a text as written, for explanations; NLTK's in place of ours; frequent n-grams."""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from corpusfit.core.errors import InputError, MissingDependencyError, bad_setting
from corpusfit.core.settings import one_of
from corpusfit.core.types import Texts, buffers, text_array
from corpusfit.kernels.canonical import composed
from corpusfit.kernels.characters import table
from corpusfit.kernels.grams import count_each, grams_of, table_of
from corpusfit.kernels.normal_form import normalized
from corpusfit.kernels.tokens import tokenise

OWN, NLTK = "own", "nltk"


def check_words(words: str, **others: object) -> None:
    """Check a method's setting `words`."""
    one_of("`method.words`", words, (OWN, NLTK))
    if words == NLTK:
        for name, value in others.items():
            if value:
                allowed = f"left out with `method.words={NLTK}`"
                raise bad_setting(f"`method.{name}`", allowed, value)
        if importlib.util.find_spec(NLTK) is None:
            raise MissingDependencyError(f"`method.words={NLTK}`", NLTK)


def word_buffers(texts: Any) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """`buffers` of texts in NFC, for kernels of words: a letter and its marks are one character."""
    return composed(*buffers(texts))


def in_words(texts: Texts, words: str) -> Texts:
    """Return the texts; for `nltk`, with NLTK's tokens encoded so that kernels keep them."""
    # NLTK keeps case, splits contractions, and makes each sign a token. In hexadecimal, a token's
    # bytes are one word of letters and digits, so kernels cut the text into exactly these tokens.
    # Reference: NLTK, `nltk.tokenize.word_tokenize` of one sentence (Bird, Klein and Loper 2009).
    if words == OWN:
        return texts
    tokenize = _tokenizer().tokenize
    return text_array(
        [
            " ".join(token.encode().hex() for token in tokenize(normalized(text)))
            for text in texts.to_pylist()
        ]
    )


@cache
def _tokenizer() -> Any:
    from nltk.tokenize.destructive import NLTKWordTokenizer

    return NLTKWordTokenizer()


def written_tokens(
    text: str, *, signs: bool = False, words: str = OWN
) -> tuple[NDArray[np.uint64], list[str]]:
    """The t tokens of one text: identities uint64 [t], and their spellings, ours in lower case."""
    data = word_buffers(in_words(text_array([text]), words))[0]
    ids = np.empty(len(data), np.uint64)
    starts, ends = np.empty((2, len(data)), np.int64)
    count = tokenise(data, 0, len(data), table(), signs, ids, starts, ends)
    written = [
        bytes(data[a:b]).decode().lower() for a, b in zip(starts[:count], ends[:count], strict=True)
    ]
    if words == NLTK:
        written = [bytes.fromhex(token).decode() for token in written]
    return ids[:count], written


def count_words(texts: Texts) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """The different words of every text with their counts and bounds; see `count_each`."""
    words, counts, ends = count_each(*grams_of(*word_buffers(texts), table(), 1))
    return words, counts, ends


def count_target_words(
    target: Texts, method: str
) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """The same of the target, which must have words."""
    words, counts, ends = count_words(target)
    if not len(words):
        raise InputError(
            f"`target` must have texts with words for the method {method}; none of its "
            f"{len(target):,} texts has a letter or a digit. Use other texts."
        )
    return words, counts, ends


@dataclass(frozen=True)
class Listed:
    """v n-grams, most frequent first."""

    keys: NDArray[np.uint64]  # [c], the table of n-grams, see `kernels/grams.py`
    places: NDArray[np.int32]  # [c], the same
    counts: NDArray[np.int64]  # [v], their counts in the texts
    total: int  # number of all n-grams in the texts


def most_frequent(texts: Texts, role: str, order: int, top: int) -> Listed:
    """List the `top` most frequent n-grams of `order` tokens; ties go by identity."""
    counted = grams_of(*word_buffers(texts), table(), order)[0]
    if not len(counted):
        cure = "Set a lower order, or use longer texts." if order > 1 else "Use texts with words."
        raise InputError(
            f"`method.order` must be at most the number of words in a text of `{role}`; "
            f"got {order}, but all {len(texts):,} texts are shorter. {cure}"
        )
    grams, counts = np.unique(counted, return_counts=True)
    listed = np.argsort(-counts, kind="stable")[:top]
    keys, places = table_of(grams[listed])
    return Listed(keys, places, counts[listed], len(counted))
