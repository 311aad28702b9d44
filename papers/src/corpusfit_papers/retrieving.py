"""`retrieval`: bitext retrieval with several models, in both directions."""

from __future__ import annotations

import dataclasses
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from corpusfit.contracts import (
    EmbedPlan,
    InputError,
    bad_setting,
    bootstrap_scores,
    compare,
    holm,
    open_encoder,
    read_pairs,
    word_form,
)
from corpusfit_papers.progress import bar

_ALLOWED = (
    "NAME for the files NAME.de and NAME.en, two files as FILE,FILE, a .tsv with two columns, or "
    "pair:… as for a corpus"
)
_BLOCK = 2**23  # cosines in memory at once: 64 MiB
_BATCH = 128  # sentences that are encoded together
_ROUNDING = 1e-12  # smaller margins are rounding errors
_ROUNDS = 2_000
_INTERVAL = ((1 - 0.95) / 2, (1 + 0.95) / 2)  # quantiles of the bootstrap
_COMPRESSED = (".gz", ".zst", ".bz2", ".xz")


@dataclass(frozen=True)
class Bitext:
    """A parallel corpus, n sentences with their translations."""

    name: str  # name of the files, without the languages
    languages: tuple[str, str]  # names of both sides
    sides: tuple[UniqueSentences, UniqueSentences]
    blank: int  # number of pairs that were left out because a side is blank


def read_bitext(value: str) -> Bitext:
    """Read one value of `--pairs`."""
    pairs = read_pairs(_as_input(value), role="pairs")
    first, second = (deduplicate(side) for side in pairs.sides)
    stems = [_bare(Path(url)).stem for url in pairs.files]
    name = "-".join(dict.fromkeys(stems))
    return Bitext(name, pairs.languages, (first, second), pairs.blank)


def _as_input(value: str) -> str:
    """The value as an input of aligned pairs."""
    if value.startswith("pair:"):
        return value
    path = Path(value).expanduser()
    parts = value.split(",")
    if path.is_file() or (len(parts) == 2 and all(Path(p).expanduser().is_file() for p in parts)):
        return f"pair:{value}"
    # two files with a common name and a language as their suffix
    entries = sorted(path.parent.glob("*")) if path.parent.is_dir() else []
    files = [p for p in entries if p.is_file() and _bare(p).stem == path.name]
    if len(files) != 2:
        cure = f"Found: {', '.join(p.name for p in files[:6]) or 'no such file'}."
        if len(files) > 2:
            cure += " Name two of them."
        raise bad_setting("`pairs`", _ALLOWED, value, cure)
    positions = []
    for language in (_bare(p).suffix[1:] for p in files):  # tatoeba.deu-eng: German first
        match = re.search(rf"(?<![^\W_]){re.escape(language)}(?![^\W_])", path.name)
        positions.append(match.start() if match else len(path.name))
    first, second = files if positions[0] <= positions[1] else reversed(files)
    return f"pair:{first},{second}"


def _bare(path: Path) -> Path:
    """The path without a compression suffix."""
    return path.with_suffix("") if path.suffix in _COMPRESSED else path


@dataclass(frozen=True, eq=False)
class UniqueSentences:
    """n sentences, deduplicated."""

    texts: list[str]  # the u distinct sentences, in order of first occurrence
    places: NDArray[np.int64]  # int64 [n], position in `texts` of each sentence


def deduplicate(texts: Sequence[str]) -> UniqueSentences:
    """Deduplicate n sentences; one in two forms of its letters is one."""
    forms = [word_form(text) for text in texts]
    first = dict(zip(reversed(forms), reversed(texts), strict=True))
    numbers = {form: number for number, form in enumerate(dict.fromkeys(forms))}
    places = [numbers[form] for form in forms]
    return UniqueSentences([first[form] for form in numbers], np.array(places, np.int64))


def nearest(
    queries: NDArray[np.float32],
    others: NDArray[np.float32],
    block: int = _BLOCK,
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """The nearest neighbor of each query by cosine, and its margin; exact search."""

    def of_unit_length(vectors: NDArray[np.float32]) -> NDArray[np.float64]:
        wide = vectors.astype(np.float64)
        lengths = np.linalg.norm(wide, axis=1, keepdims=True)
        wide /= np.where(lengths > 0, lengths, 1)  # zero vectors stay zero
        return wide

    columns = of_unit_length(others).T
    indices = np.empty(len(queries), np.int64)
    lead = np.empty(len(queries), np.float64)
    rows = max(1, block // len(others))
    for start in range(0, len(queries), rows):
        cosines = of_unit_length(queries[start : start + rows]) @ columns
        at = cosines.argmax(1)
        best = np.take_along_axis(cosines, at[:, None], 1)[:, 0]
        # a tie for the best is a miss
        np.put_along_axis(cosines, at[:, None], -np.inf, 1)
        indices[start : start + rows] = at
        lead[start : start + rows] = best - cosines.max(1)
    return indices, lead


def retrieved(
    source: UniqueSentences,
    target: UniqueSentences,
    queries: NDArray[np.float32],
    others: NDArray[np.float32],
) -> NDArray[np.bool_]:
    """Whether the nearest sentence of the other side is the translation; bool [n].

    Reference: mDAPT, section 6 and Table 6; Artetxe and Schwenk (2019), section 4.3.
    """
    # Ties count as not retrieved, so a model with one vector for all sentences retrieves none.
    indices, lead = nearest(queries, others)
    is_own: NDArray[np.bool_] = indices[source.places] == target.places
    return is_own & (lead[source.places] > _ROUNDING)


def tallies(hits: NDArray[np.bool_]) -> NDArray[np.int64]:
    """int64 [n, 3, 1], counts of each query for `precision`: hits, answers, queries."""
    counts = np.ones((len(hits), 3, 1), np.int64)
    counts[:, 0, 0] = hits
    return counts


def precision(summed: NDArray[Any]) -> NDArray[np.float64]:
    """P@1, float64 [...], of sums of tallies [..., 3, 1]."""
    return np.asarray(summed[..., 0, 0] / summed[..., 2, 0], np.float64)


@dataclass(frozen=True)
class Retrieved:
    """P@1 of one model in one direction."""

    pairs: str  # name of the test set
    source: str  # language of the queries
    target: str  # language that is searched
    model: str
    sentences: int  # number of queries
    found: int  # queries whose nearest sentence is their translation
    precision: float  # P@1, the share found, in [0, 1]
    low: float  # lower end of its 95 % bootstrap interval over sentences
    high: float  # upper end of the interval
    chance: float  # P@1 of a random guess: 1 / number of different sentences that are searched
    # of `compare` with the first model, on the same sentences; None for the first model
    comparison: Any = None
    # p-value after Holm's correction for all comparisons of the command
    adjusted: float | None = None
    verdict: str = ""  # what the comparison shows, in words


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


def retrieval(
    *,
    model: str | PathLike[str] | Sequence[str],
    pairs: str | PathLike[str] | Sequence[str],
    pooling: str = "",
    seed: int = 0,
) -> Retrieval:
    """Measure bitext retrieval by cosine, in both directions; trains nothing.

    All models answer the same sentences, so the tests against the first model are paired. One
    model of each kind does not show how another training of it would do.

    Reference: mDAPT, section 6 and Table 6.

    Args:
        model: models for embeddings: a model folder, a Hugging Face hub id, `minilm` or `static`;
            each is compared with the first.
        pairs: parallel corpora: `NAME` for files `NAME.de` and `NAME.en`, `FILE,FILE`, a `.tsv`
            file of two columns, or `pair:…` as for `corpus` of `select`.
        pooling: how a model's outputs become one vector: `mean` or `cls`; by default as
            sentence-transformers reads the model's folder, else the mean.
        seed: of the bootstrap.

    Returns:
        P@1 of each model, test set and direction, with intervals and comparisons.
    """
    models = listed("`model`", model)
    tests = _read_tests(listed("`pairs`", pairs))
    hits: dict[tuple[str, int], list[NDArray[np.bool_]]] = {}
    encoders: dict[str, str] = {}
    for name in models:
        encoder = open_encoder(EmbedPlan(embedder=name, pooling=pooling))
        encoders[name] = encoder.fingerprint
        for called, test in tests.items():
            vectors = [encoded(encoder, side.texts) for side in test.sides]
            for side in (0, 1):
                other = 1 - side
                answers = retrieved(
                    test.sides[side], test.sides[other], vectors[side], vectors[other]
                )
                hits.setdefault((called, side), []).append(answers)

    results = []
    for called, test in tests.items():
        for side in (0, 1):
            for name, answers in zip(models, hits[called, side], strict=True):
                results.append(_result(called, test, side, name, answers, seed))
    blank = {called: test.blank for called, test in tests.items()}
    return Retrieval(models, encoders, blank, _compared(results, [*hits.values()], seed))


def _read_tests(values: Sequence[str]) -> dict[str, Bitext]:
    """The test sets by name; those whose files are called the same by the whole input."""
    tests = [read_bitext(value) for value in values]
    for value, test in zip(values, tests, strict=True):
        first, second = (len(side.texts) for side in test.sides)
        if min(first, second) < 2:
            raise InputError(
                f"`pairs={value}` must have two or more different sentences on each side; it has "
                f"{first} and {second}."
            )
    times = Counter(test.name for test in tests)
    return {
        value if times[test.name] > 1 else test.name: test
        for value, test in zip(values, tests, strict=True)
    }


def _result(
    called: str, test: Bitext, side: int, model: str, answers: NDArray[np.bool_], seed: int
) -> Retrieved:
    """The result of a model whose queries are of a side, before it is compared."""
    counts = tallies(answers).astype(np.float64)
    resampled = bootstrap_scores(counts, precision, np.random.default_rng(seed), _ROUNDS)
    low, high = np.quantile(resampled, _INTERVAL).tolist()
    return Retrieved(
        pairs=called,
        source=test.languages[side],
        target=test.languages[1 - side],
        model=model,
        sentences=len(answers),
        found=int(answers.sum()),
        precision=float(answers.mean()),
        low=low,
        high=high,
        chance=1 / len(test.sides[1 - side].texts),
    )


def _compared(
    results: list[Retrieved], hits: list[list[NDArray[np.bool_]]], seed: int
) -> list[Retrieved]:
    """The results with comparisons to the first model of each direction, corrected together."""
    # of each direction what every model answers to the same sentences, in the order of the results
    comparisons = [
        compare([tallies(answers)], [tallies(by_model[0])], precision, seed=seed)
        for by_model in hits
        for answers in by_model[1:]
    ]
    adjusted = iter(zip(comparisons, holm([c.p for c in comparisons]), strict=True))
    is_first = [nth == 0 for by_model in hits for nth in range(len(by_model))]
    compared = []
    for result, first in zip(results, is_first, strict=True):
        if first:
            compared.append(result)
            continue
        comparison, p = next(adjusted)
        verdict = comparison.finding(comparison.p if p is None else p)
        compared.append(
            dataclasses.replace(result, comparison=comparison, adjusted=p, verdict=verdict)
        )
    return compared


def listed(setting: str, given: str | PathLike[str] | Sequence[str]) -> list[str]:
    """The names of an argument that takes one or several; each once."""
    values = [str(v) for v in ([given] if isinstance(given, str | PathLike) else given)]
    repeated = [value for i, value in enumerate(values) if value in values[:i]]
    if not values or repeated:
        got = f"{repeated[0]} twice" if repeated else "nothing"
        raise bad_setting(setting, "given at least once, each time with another value", got)
    return values


def encoded(encoder: Any, texts: list[str]) -> NDArray[np.float32]:
    """The vectors of sentences, in batches that show progress on a terminal."""
    starts = range(0, len(texts), _BATCH)
    batches = bar(starts, f"encode by {encoder.name}")
    return np.concatenate([encoder.encode(texts[i : i + _BATCH]) for i in batches])
