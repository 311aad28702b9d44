"""Texts of the data on which the tokenizer of an untrained model is trained."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Iterable, Iterator

from corpusfit import text as corpus
from corpusfit.evaluation.contamination.finder import ContaminationFinder, HeldoutIndex
from corpusfit.kernels.chance import place_keys, uniform
from corpusfit.training.inputs import TrainingInputs

_OVERSAMPLING = 3


def sample_texts(
    texts: TrainingInputs, seed: int, guarded: Iterable[str], characters: int
) -> Iterator[str]:
    """A sample of about so many characters of the data, from random shards; 0 is all of it."""
    watch = ContaminationFinder(HeldoutIndex.of_texts(guarded))
    sources = texts.data or texts.task
    size = sum(s.size for s in sources)
    left = most = characters or sys.maxsize
    for shard in corpus.shards(sources, texts.read):
        drawn = uniform(place_keys(seed, shard.index, 1))[0] * size < _OVERSAMPLING * most
        if not drawn and shard.index:
            continue
        found = corpus.documents(shard, texts.read)[0].texts
        holders = set(watch.find(found).text.tolist())
        for text in (t for i, t in enumerate(found.to_pylist()) if i not in holders):
            yield text[:left]
            left -= len(text)
            if left <= 0:
                return


def sample_pairs(
    texts: TrainingInputs, seed: int, guarded: Iterable[str], characters: int
) -> Iterator[str]:
    """A sample of both sides of the data; see `sample_texts`."""
    held = list(guarded)
    first, second = texts.read.sides()
    if texts.selection is not None:  # its rows have both sides as fields
        second = dataclasses.replace(texts.read, text_field="translation")
    for read in (first, second):
        yield from sample_texts(dataclasses.replace(texts, read=read), seed, held, characters)
