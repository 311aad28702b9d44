"""The command `retrieval`: bitext retrieval with several models, in both directions."""

from __future__ import annotations

import dataclasses
import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from corpusfit import text as corpus
from corpusfit.core.artifacts import user_path
from corpusfit.core.errors import EmptyInputError, InputError, bad_setting
from corpusfit.core.plan import EmbedPlan, ReadPlan
from corpusfit.core.types import Document, Vectors
from corpusfit.evaluation.metrics import accuracy
from corpusfit.evaluation.significance import ROUNDING, Comparison, compare, finding, holm, interval
from corpusfit.kernels.normal_form import normalized
from corpusfit.selection.embedding import EmbedTexts
from corpusfit.selection.fit import commits_of, prepare_encoder
from corpusfit.text.context import Machine, RunContext, at_commit
from corpusfit.text.files import unpacked_name
from corpusfit.text.rejects import EMPTY_LINE, EMPTY_TEXT, in_translation

_ALLOWED = (
    "NAME for the files NAME.de and NAME.en, two files as FILE,FILE, a .tsv with two columns, or "
    "pair:… as for a corpus"
)
_BLOCK = 2**23  # cosines in memory at once: 64 MiB
_BATCH = 128  # sentences that are encoded together
_BLANK = {EMPTY_LINE, EMPTY_TEXT, in_translation(EMPTY_LINE), in_translation(EMPTY_TEXT)}


@dataclass(frozen=True)
class Pairs:
    """n sentences with their translations."""

    name: str  # name of the files, without the languages
    # names of both sides: the files' last suffixes, the names of the columns, or `text` and
    # `translation`
    languages: tuple[str, str]
    sides: tuple[list[str], list[str]]  # n sentences each
    blank: int  # number of pairs that were skipped because a side is empty

    def __len__(self) -> int:
        return len(self.sides[0])


def read_pairs(value: str) -> Pairs:
    """Read one value of `--pairs`."""
    # A broken row is an error, because scores on part of a test set differ; only pairs with an
    # empty side are skipped and counted.
    read, blank = ReadPlan(), 0
    sources = corpus.find([_as_corpus(value)], read, spool=Path(), role="pairs")
    sides: tuple[list[str], list[str]] = ([], [])
    for shard in corpus.shards(sources, read):
        for row in corpus.rows(shard, read):
            if isinstance(row, Document):
                sides[0].append(row.text.strip())
                sides[1].append(str(row.translation).strip())
            elif row.reason in _BLANK:
                blank += 1
            else:
                raise InputError(f"`pairs={value}` cannot be read at row {row.row}: {row.reason}.")
    if not sides[0]:
        raise EmptyInputError(f"`pairs={value}` has no pair with text on both sides.")
    stems = [_bare(Path(url)).stem for url in corpus.files_of(sources[0])]
    return Pairs("-".join(dict.fromkeys(stems)), corpus.sides(sources), sides, blank)


def _as_corpus(value: str) -> str:
    """The value as a corpus input."""
    if corpus.is_pair(value):
        return value
    path, parts = user_path(value), value.split(",")
    if path.is_file() or (len(parts) == 2 and all(user_path(p).is_file() for p in parts)):
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
    return path.with_name(unpacked_name(path.name)[0])


@dataclass(frozen=True, eq=False)
class UniqueSentences:
    """n sentences, deduplicated."""

    texts: list[str]  # the u distinct sentences, in order of first occurrence
    places: NDArray[np.int64]  # int64 [n], position in `texts` of each sentence


def deduplicate(texts: Sequence[str]) -> UniqueSentences:
    """Deduplicate n sentences; one in two Unicode forms is one."""
    forms = [normalized(text) for text in texts]
    first = dict(zip(reversed(forms), reversed(texts), strict=True))
    numbers = {form: number for number, form in enumerate(dict.fromkeys(forms))}
    places = [numbers[form] for form in forms]
    return UniqueSentences([first[form] for form in numbers], np.array(places, np.int64))


def nearest(
    queries: Vectors,
    others: Vectors,
    block: int = _BLOCK,
    on_progress: Callable[[int], None] | None = None,
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """The nearest neighbor of each query by cosine, and its margin; exact search."""

    def of_unit_length(vectors: Vectors) -> NDArray[np.float64]:
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
        if on_progress is not None:
            on_progress(len(at))
    return indices, lead


def retrieved(
    source: UniqueSentences,
    target: UniqueSentences,
    queries: Vectors,
    others: Vectors,
    on_progress: Callable[[int], None] | None = None,
) -> NDArray[np.bool_]:
    """Whether the nearest sentence of the other side is the translation; bool [n].

    Reference: mDAPT, section 6 and Table 6; Artetxe and Schwenk (2019), section 4.3.
    """
    # Ties count as not retrieved, so a model with one vector for all sentences retrieves none.
    indices, lead = nearest(queries, others, on_progress=on_progress)
    is_own: NDArray[np.bool_] = indices[source.places] == target.places
    return is_own & (lead[source.places] > ROUNDING)


def tallies(hits: NDArray[np.bool_]) -> NDArray[np.int64]:
    """int64 [n, 3, 1], counts whose metric `accuracy` is P@1 (`metrics.tallies`)."""
    counts = np.ones((len(hits), 3, 1), np.int64)
    counts[:, 0, 0] = hits
    return counts


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
    # with the first model, on the same sentences; None for the first model
    comparison: Comparison | None = None
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
    models: Sequence[str], pairs: Sequence[str], embed: EmbedPlan, *, seed: int, machine: Machine
) -> Retrieval:
    """Search for translations with each model, in both directions.

    All models answer the same sentences, so the tests against the first model are paired. One
    model of each kind does not show how another training of it would do.

    Reference: mDAPT, section 6 and Table 6.
    """
    for setting, values in (("`model`", models), ("`pairs`", pairs)):
        repeated = [value for i, value in enumerate(values) if value in values[:i]]
        if not values or repeated:
            got = f"{repeated[0]} twice" if repeated else "nothing"
            raise bad_setting(setting, "given at least once, each time with another value", got)
    tests: list[tuple[Pairs, tuple[UniqueSentences, UniqueSentences]]] = []
    for value in pairs:
        test = read_pairs(value)
        first, second = (deduplicate(side) for side in test.sides)
        if min(len(first.texts), len(second.texts)) < 2:
            raise InputError(
                f"`pairs={value}` must have two or more different sentences on each side; it has "
                f"{len(first.texts)} and {len(second.texts)}."
            )
        tests.append((test, (first, second)))
    # test sets with the same file name are named by the whole input
    counts = Counter(test.name for test, _ in tests)
    names = [
        value if counts[test.name] > 1 else test.name
        for value, (test, _) in zip(pairs, tests, strict=True)
    ]
    sides = [side for _, both in tests for side in both]
    hits: dict[tuple[int, int], list[NDArray[np.bool_]]] = {}
    encoders: dict[str, str] = {}
    with machine.running() as context:
        progress = context.progress
        context.engine.needs_gpu = embed.needs_gpu
        for model in models:
            plan = dataclasses.replace(embed, embedder=model)
            encoders[model] = prepare_encoder(context, plan)
            plan = at_commit(plan, commits_of(context.engine, [model]))
            vectors = _encoded(model, plan, [side.texts for side in sides], context)
            for nth, name in enumerate(names):
                queries = vectors[2 * nth : 2 * nth + 2]
                with progress.showing(f"search {name}", sum(map(len, queries)), "sentences"):
                    for side in (0, 1):
                        queried, searched = sides[2 * nth + side], sides[2 * nth + 1 - side]
                        answers = retrieved(
                            queried,
                            searched,
                            queries[side],
                            queries[1 - side],
                            lambda n: progress.advance(n, n),
                        )
                        hits.setdefault((nth, side), []).append(answers)
    # every model is compared with the first one on the same sentences
    ordered = sorted(hits.items())
    comparisons = [
        compare([tallies(answers)], [tallies(by_model[0])], accuracy, seed=seed)
        for _, by_model in ordered
        for answers in by_model[1:]
    ]
    # the comparisons are corrected together, and then handed out in the order of the results
    adjusted = iter(zip(comparisons, holm([c.p for c in comparisons]), strict=True))
    results = []
    for (nth, side), by_model in ordered:
        test, both = tests[nth]
        for model, answers in zip(models, by_model, strict=True):
            low, high = interval([tallies(answers)], accuracy, seed=seed)
            result = Retrieved(
                pairs=names[nth],
                source=test.languages[side],
                target=test.languages[1 - side],
                model=model,
                sentences=len(answers),
                found=int(answers.sum()),
                precision=float(answers.mean()),
                low=low,
                high=high,
                chance=1 / len(both[1 - side].texts),
            )
            if answers is not by_model[0]:
                comparison, p = next(adjusted)
                verdict = finding(comparison, comparison.p if p is None else p)
                result = dataclasses.replace(
                    result, comparison=comparison, adjusted=p, verdict=verdict
                )
            results.append(result)
    blank = {name: test.blank for name, (test, _) in zip(names, tests, strict=True)}
    return Retrieval(list(models), encoders, blank, results)


def _encoded(
    name: str, plan: EmbedPlan, sides: Sequence[list[str]], context: RunContext
) -> list[Vectors]:
    """Vectors of the sentences of each side; each batch is of one side."""
    batches = [
        (nth, texts[i : i + _BATCH])
        for nth, texts in enumerate(sides)
        for i in range(0, len(texts), _BATCH)
    ]
    pieces = [(number, texts) for number, (_, texts) in enumerate(batches)]
    parts: dict[int, Vectors] = {}
    with context.progress.showing(f"encode {name}", sum(map(len, sides)), "sentences"):
        for number, vectors in context.engine.map(EmbedTexts(plan, context.cache), pieces):
            parts[number] = vectors
            context.progress.advance(len(vectors), len(vectors))
    return [
        np.concatenate([parts[number] for number, (side, _) in enumerate(batches) if side == nth])
        for nth in range(len(sides))
    ]
