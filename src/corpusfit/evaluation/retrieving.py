"""The command `retrieval`: bitext retrieval with several models, in both directions."""

from __future__ import annotations

import dataclasses
import itertools
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from corpusfit.core.engine import Progress
from corpusfit.core.errors import InputError, bad_setting
from corpusfit.core.plan import EmbedPlan
from corpusfit.core.types import Vectors
from corpusfit.evaluation.metrics import accuracy
from corpusfit.evaluation.pairs import Pairs, read_pairs
from corpusfit.evaluation.retrieval import UniqueSentences, deduplicate, retrieved, tallies
from corpusfit.evaluation.significance import Comparison, compare, finding, holm, interval
from corpusfit.selection.embed_job import EmbedTexts
from corpusfit.selection.fit import PrepareEncoder
from corpusfit.text.context import Machine, RunContext

_BATCH = 128


@dataclass(frozen=True)
class Retrieved:
    """P@1 of one model in one direction.

    Attributes:
        pairs: name of the test set.
        source: language of the queries.
        target: language that is searched.
        sentences: number of queries.
        found: queries whose nearest sentence is their translation.
        precision: P@1, the share found, in [0, 1].
        low: lower end of its 95 % bootstrap interval over sentences.
        high: upper end of the interval.
        chance: P@1 of a random guess: 1 / number of different sentences that are searched.
        comparison: with the first model, on the same sentences; None for the first model.
        adjusted: p-value after Holm's correction for all comparisons of the command.
        verdict: what the comparison shows, in words.
    """

    pairs: str
    source: str
    target: str
    model: str
    sentences: int
    found: int
    precision: float
    low: float
    high: float
    chance: float
    comparison: Comparison | None = None
    adjusted: float | None = None
    verdict: str = ""


@dataclass(frozen=True)
class Retrieval:
    """The result of `retrieval`.

    Attributes:
        models: names of the models; the others are compared with the first.
        encoders: fingerprint of each model's vectors, by name.
        blank: by test set, number of pairs left out because a side is blank.
        results: by test set, direction and model.
    """

    models: list[str]
    encoders: dict[str, str]
    blank: dict[str, int]
    results: list[Retrieved]


@dataclass(frozen=True)
class _Test:
    """A test set with both sides numbered."""

    pairs: Pairs
    sides: tuple[UniqueSentences, UniqueSentences]


def retrieval(
    models: Sequence[str], pairs: Sequence[str], embed: EmbedPlan, *, seed: int, machine: Machine
) -> Retrieval:
    """Search for translations with each model, in both directions.

    All models answer the same sentences, so the tests against the first model are paired. One
    model of each kind does not show how another training of it would do.

    Reference: mDAPT, section 6 and Table 6.
    """
    _require_different("`model`", models)
    _require_different("`pairs`", pairs)
    tests = _named(pairs, [_test(each) for each in pairs])
    hits: dict[tuple[int, int], list[NDArray[np.bool_]]] = {}
    encoders: dict[str, str] = {}
    with machine.running() as context:
        for model in models:
            plan = dataclasses.replace(embed, embedder=model)
            prepare = PrepareEncoder(context.cache)
            encoders[model] = next(iter(list(context.engine.map(prepare, [plan]))))
            for nth, vectors in enumerate(_encoded(plan, tests, context)):
                for side, answers in enumerate(_searched(tests[nth], vectors, context.progress)):
                    hits.setdefault((nth, side), []).append(answers)
    results = [
        _result(tests[nth], side, model, answers[k], answers[0] if k else None, seed)
        for (nth, side), answers in sorted(hits.items())
        for k, model in enumerate(models)
    ]
    blank = {test.pairs.name: test.pairs.blank for test in tests}
    return Retrieval(list(models), encoders, blank, _adjusted(results))


def _require_different(setting: str, names: Sequence[str]) -> None:
    twice = [name for i, name in enumerate(names) if name in names[:i]]
    if not names or twice:
        came = f"{twice[0]} twice" if twice else "nothing"
        raise bad_setting(setting, "given at least once, each time with another value", came)


def _test(name: str) -> _Test:
    """The test set, if each side has two different sentences or more."""
    pairs = read_pairs(name)
    first, second = (deduplicate(side) for side in pairs.sides)
    if min(len(first.texts), len(second.texts)) < 2:
        raise InputError(
            f"`pairs={name}` must have two or more different sentences on each side; it has "
            f"{len(first.texts)} and {len(second.texts)}."
        )
    return _Test(pairs, (first, second))


def _named(inputs: Sequence[str], tests: Sequence[_Test]) -> list[_Test]:
    """The test sets under different names: their whole input if files have the same name."""
    counts = Counter(test.pairs.name for test in tests)
    return [
        dataclasses.replace(test, pairs=dataclasses.replace(test.pairs, name=whole))
        if counts[test.pairs.name] > 1
        else test
        for whole, test in zip(inputs, tests, strict=True)
    ]


def _encoded(
    plan: EmbedPlan, tests: Sequence[_Test], context: RunContext
) -> Iterator[tuple[Vectors, Vectors]]:
    """Vectors of both sides of each test set; each batch is of one side."""
    sides = [side.texts for test in tests for side in test.sides]
    cut = [
        (nth, texts[i : i + _BATCH])
        for nth, texts in enumerate(sides)
        for i in range(0, len(texts), _BATCH)
    ]
    pieces = [(number, texts) for number, (_, texts) in enumerate(cut)]
    parts: dict[int, Vectors] = {}
    with context.progress.showing(f"encode {plan.embedder}", sum(map(len, sides)), "sentences"):
        for number, vectors in context.engine.map(EmbedTexts(plan, context.cache), pieces):
            parts[number] = vectors
            context.progress.advance(len(vectors), len(vectors))
    whole = [
        np.concatenate([parts[number] for number, _ in group])
        for _, group in itertools.groupby(enumerate(cut), lambda piece: piece[1][0])
    ]
    yield from zip(whole[::2], whole[1::2], strict=True)


def _searched(
    test: _Test, vectors: tuple[Vectors, Vectors], progress: Progress
) -> Iterator[NDArray[np.bool_]]:
    """Whether each query of a side finds its translation, side by side."""
    with progress.showing(f"search {test.pairs.name}", sum(map(len, vectors)), "sentences"):
        for side in (0, 1):
            own, other = test.sides[side], test.sides[1 - side]
            yield retrieved(
                own, other, vectors[side], vectors[1 - side], lambda n: progress.advance(n, n)
            )


def _result(
    test: _Test,
    side: int,
    model: str,
    hits: NDArray[np.bool_],
    base: NDArray[np.bool_] | None,
    seed: int,
) -> Retrieved:
    """One model's result in one direction, compared with the first model's."""
    counts = tallies(hits)
    low, high = interval([counts], accuracy, seed=seed)
    against = None
    if base is not None:
        against = compare([counts], [tallies(base)], accuracy, seed=seed)
    return Retrieved(
        test.pairs.name,
        test.pairs.languages[side],
        test.pairs.languages[1 - side],
        model,
        len(hits),
        int(hits.sum()),
        float(hits.mean()),
        low,
        high,
        1 / len(test.sides[1 - side].texts),
        against,
    )


def _adjusted(results: Sequence[Retrieved]) -> list[Retrieved]:
    ps = holm([r.comparison.p if r.comparison else None for r in results])
    return [
        r
        if r.comparison is None or p is None
        else dataclasses.replace(r, adjusted=p, verdict=finding(r.comparison, p))
        for r, p in zip(results, ps, strict=True)
    ]
