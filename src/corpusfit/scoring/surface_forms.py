"""The tokens of texts: of one as written, for explanations; and those of NLTK in place of ours."""

from __future__ import annotations

import importlib.util
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from corpusfit.core.errors import MissingDependencyError, bad_setting
from corpusfit.core.settings import one_of
from corpusfit.core.types import Texts, buffers, text_array
from corpusfit.kernels.characters import table
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


def in_words(texts: Texts, words: str) -> Texts:
    """The n texts themselves; for `nltk` with each of NLTK's tokens in a form that kernels keep.

    Its tokenizer keeps case, divides contractions, and makes a token of each sign. The bytes of a
    token in hexadecimal are one word of letters and digits, so every kernel finds NLTK's tokens.

    Reference: NLTK, `nltk.tokenize.word_tokenize` of one sentence (Bird, Klein and Loper 2009).
    """
    if words == OWN:
        return texts
    of = _tokenizer().tokenize
    return text_array(
        [" ".join(token.encode().hex() for token in of(text)) for text in texts.to_pylist()]
    )


@cache
def _tokenizer() -> Any:
    from nltk.tokenize.destructive import NLTKWordTokenizer

    return NLTKWordTokenizer()


def written_tokens(
    text: str, *, signs: bool = False, words: str = OWN
) -> tuple[NDArray[np.uint64], list[str]]:
    """The t tokens of one text: identities uint64 [t], and their spellings, ours in lower case."""
    data = buffers(in_words(text_array([text]), words))[0]
    ids = np.empty(len(data), np.uint64)
    starts, ends = np.empty((2, len(data)), np.int64)
    count = tokenise(data, 0, len(data), table(), signs, ids, starts, ends)
    written = [
        bytes(data[a:b]).decode().lower() for a, b in zip(starts[:count], ends[:count], strict=True)
    ]
    if words == NLTK:
        written = [bytes.fromhex(token).decode() for token in written]
    return ids[:count], written
