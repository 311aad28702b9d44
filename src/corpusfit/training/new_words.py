"""Frequent words of the data as tokens of their own (--add-tokens)."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from corpusfit.embed.contract import digest
from corpusfit.embed.transformer import quiet
from corpusfit.training.models import LoadedModel, checked_model
from corpusfit.training.special_tokens import backend_tokenizer

_WORD = re.compile(r"(?<!\w)[^\W\d_]{3,}(?!\w)")
_BEFORE = "a "
_BATCH = 10_000


@dataclass(frozen=True)
class NewWords:
    """Words to add, and what they change.

    Attributes:
        words: in the order of their ids.
        pieces: the ids of each word's tokens so far.
        shorter: the share of the texts' word tokens that they save.
        passed: words that would save as much, and that the tokenizer cannot read as one token: its
            vocabulary has them as a piece of other words, say.
    """

    words: tuple[str, ...]
    pieces: tuple[tuple[int, ...], ...]
    shorter: float
    passed: tuple[str, ...] = ()


def find_new_words(texts: Iterable[str], opened: LoadedModel, most: int) -> NewWords:
    """The words of texts that save most tokens as tokens of their own.

    A word is three or more letters, as the tokenizer normalises them. It saves one token less than
    it has pieces, each time that it occurs; words that save as many are in alphabetical order.
    """
    backend = backend_tokenizer(opened.tokenizer, opened.name)
    plain = backend.normalizer.normalize_str if backend.normalizer else str
    blank = plain("a b")[1:-1]  # some normalizers replace spaces
    counts: Counter[str] = Counter()
    for text in texts:
        counts.update(_WORD.findall(plain(text).replace(blank, " ")))
    words = sorted(counts)
    before = len(backend.encode(_BEFORE.strip(), add_special_tokens=False))
    pieces: dict[str, tuple[int, ...]] = {}
    for at in range(0, len(words), _BATCH):
        batch = words[at : at + _BATCH]
        encoded = backend.encode_batch([_BEFORE + word for word in batch], add_special_tokens=False)
        pieces |= {word: tuple(e.ids[before:]) for word, e in zip(batch, encoded, strict=True)}
    saves = {word: counts[word] * (len(pieces[word]) - 1) for word in words}
    ranked = iter(sorted((w for w in words if saves[w] > 0), key=lambda w: (-saves[w], w)))
    found: list[str] = []
    passed: list[str] = []
    while some := list(islice(ranked, most - len(found))):
        whole_words = _read_as_one(opened, [*found, *some])
        passed += [word for word in [*found, *some] if word not in whole_words]
        found = [word for word in [*found, *some] if word in whole_words]
    whole = sum(counts[word] * len(pieces[word]) for word in words)
    shorter = sum(saves[word] for word in found) / max(1, whole)
    of_found = tuple(pieces[word] for word in found)
    return NewWords(tuple(found), of_found, shorter, tuple(passed))


def add_words(opened: LoadedModel, new: NewWords, objective: str) -> LoadedModel:
    """A model whose tokenizer has the words as tokens; changes the model and tokenizer it is given.

    The embedding of a word, and its row and bias in the head, are the means of its pieces'.

    Reference: Gee et al. (2022), Fast Vocabulary Transfer, section 3.2 (the mean of the pieces).
    """
    model, tokenizer = opened.model, opened.tokenizer
    first = len(tokenizer)
    tokenizer.add_tokens(_added(backend_tokenizer(tokenizer, opened.name), new.words))
    if len(tokenizer) > model.get_input_embeddings().weight.shape[0]:
        with quiet():
            model.resize_token_embeddings(len(tokenizer), mean_resizing=False)
    _set_to_means(model, first, new.pieces)
    fingerprint = digest({"kind": "words 1", "model": opened.fingerprint, "words": new.words})
    return checked_model(model, tokenizer, objective, opened.name, fingerprint)


def _added(backend: Any, words: Sequence[str]) -> list[Any]:
    """Words as tokens to add: whole words alone, with the space before them."""
    from tokenizers import AddedToken

    options = {"single_word": True, "lstrip": True, "normalized": backend.normalizer is not None}
    return [AddedToken(word, **options) for word in words]


def _read_as_one(opened: LoadedModel, words: Sequence[str]) -> set[str]:
    """Which of some words, between others, become a new token each when all of them are added."""
    backend = backend_tokenizer(opened.tokenizer, opened.name)
    known = backend.get_vocab(with_added_tokens=True).keys()
    new = [word for word in words if word not in known]
    backend.add_tokens(_added(backend, new))
    sentences = [f"{_BEFORE}{word} b" for word in new]
    encoded = backend.encode_batch(sentences, add_special_tokens=False)
    ids = zip(new, encoded, strict=True)
    return {word for word, found in ids if backend.token_to_id(word) in found.ids}


def _set_to_means(model: Any, first: int, pieces: Sequence[Sequence[int]]) -> None:
    """Set the rows of new tokens, in the embedding and in the head, to the means of others."""
    import torch

    head = model.get_output_embeddings()
    tables = {id(m.weight): m.weight for m in (model.get_input_embeddings(), head) if m is not None}
    bias = getattr(head, "bias", None)
    with torch.no_grad():
        for table in [*tables.values(), *([] if bias is None else [bias])]:
            for row, own in enumerate(pieces, first):
                table[row] = table[list(own)].mean(dim=0)
