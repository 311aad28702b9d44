"""Words of texts: their counts, frequent n-grams, and NLTK's tokens in place of ours."""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from corpusfit.contracts import (
    InputError,
    Texts,
    UsageError,
    as_texts,
    bad_setting,
    count_each,
    find_each,
    ngrams,
    table_of,
    word_form,
    written_tokens,
)

OWN = "own"
NLTK = "nltk"


def check_words(words: str, **others: object) -> None:
    """Check a method's setting `words`."""
    if words not in (OWN, NLTK):
        raise bad_setting("`method.words`", f"one of {OWN}, {NLTK}", words)
    if words == NLTK:
        for name, value in others.items():
            if value:
                allowed = f"left out with `method.words={NLTK}`"
                raise bad_setting(f"`method.{name}`", allowed, value)
        if importlib.util.find_spec(NLTK) is None:
            cure = "pip install 'corpusfit-papers[nltk]'"
            raise UsageError(f"`method.words={NLTK}` needs NLTK: {cure}")


def in_words(texts: Texts, words: str) -> Texts:
    """Return the texts; for `nltk`, with NLTK's tokens encoded so that each is a word of ours."""
    # NLTK keeps case, splits contractions, and makes each sign a token. In hexadecimal, a token's
    # bytes are one word of letters and digits, so the text is cut into exactly these tokens.
    # Reference: NLTK, `nltk.tokenize.word_tokenize` of one sentence (Bird, Klein and Loper 2009).
    if words == OWN:
        return texts
    tokenize = _tokenizer().tokenize
    return as_texts(
        [
            " ".join(token.encode().hex() for token in tokenize(word_form(text)))
            for text in texts.to_pylist()
        ]
    )


def spelled(token: str, words: str) -> str:
    """A token of `in_words` as it is written."""
    return bytes.fromhex(token).decode() if words == NLTK else token


def tokens_in(text: str, words: str) -> list[str]:
    """The spellings of a text's tokens."""
    written = written_tokens(in_words(as_texts([text]), words)[0].as_py())[1]
    return [spelled(token, words) for token in written]


@cache
def _tokenizer() -> Any:
    from nltk.tokenize.destructive import NLTKWordTokenizer

    return NLTKWordTokenizer()


def count_words(texts: Texts) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """The different words of every text with their counts and bounds; see `count_each`."""
    words, counts, ends = count_each(*ngrams(texts, 1))
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


def found_in(
    texts: Any, keys: NDArray[np.uint64], places: NDArray[np.int32], order: int = 1
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The index of each n-gram of the texts in a table, -1 for unknown ones, and their bounds."""
    grams, ends = ngrams(texts, order)
    return find_each(keys, places, grams), ends


def within(values: NDArray[Any], least: int, end: int) -> bool:
    """Whether all values are in [least, end); so are none."""
    return not values.size or (least <= values.min() and values.max() < end)


def is_table(keys: NDArray[np.uint64], places: NDArray[np.int32], v: int) -> bool:
    """Whether `find_each` ends in a table, and finds indices below v."""
    slots = len(keys)
    return (
        keys.shape == places.shape == (slots,)
        and slots > 0
        and slots & (slots - 1) == 0
        and bool((keys == 0).any())
        and within(places, -1, v)
    )


@dataclass(frozen=True)
class Listed:
    """v n-grams, most frequent first."""

    keys: NDArray[np.uint64]  # [c], the table of n-grams, see `table_of`
    places: NDArray[np.int32]  # [c], the same
    counts: NDArray[np.int64]  # [v], their counts in the texts
    total: int  # number of all n-grams in the texts


def most_frequent(texts: Texts, role: str, order: int, top: int) -> Listed:
    """List the `top` most frequent n-grams of `order` tokens; ties go by identity."""
    counted = ngrams(texts, order)[0]
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
