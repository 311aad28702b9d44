"""The command `tokenizers`: which words they split, on specific and on general text.

What: samples both kinds of text, counts continued words and fertility of each tokenizer, and says
how much more than the first each other one splits: on specific text, on general text, and by how
much these two gaps differ.
Why: a tokenizer that splits more words of a domain than of general text is one reason why a model
for many languages stays behind the model for one; that is known before anything is trained.
Trade-off: a bounded sample, drawn in windows; the intervals are over these, as if each were a text
of its own.
Reference: mDAPT, section 6 and Figure 3; Rust et al. (2021), section 3.2.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from corpusfit import corpus
from corpusfit.corpus.formats import format_of
from corpusfit.engine import Engine
from corpusfit.errors import EmptyInputError, bad_setting
from corpusfit.evaluate.formats.conll import read_conll
from corpusfit.evaluate.resampling import bootstrap_scores, stack_tallies
from corpusfit.evaluate.splits import form_of_name
from corpusfit.evaluate.tokenizer_fertility import (
    CONTINUED,
    PIECES,
    UNKNOWN,
    WORDS,
    fertility_counts,
    open_tokenizer,
)
from corpusfit.jobs.fit import Sample
from corpusfit.jobs.survey import look_with
from corpusfit.pipeline.run import Machine, Run
from corpusfit.pipeline.samples import background_texts
from corpusfit.plan import Plan

ROUNDS = 2_000
_ENDS = (0.025, 0.975)
_FIGURES = {"continued": CONTINUED, "fertility": PIECES}


@dataclass(frozen=True)
class Figure:
    """A ratio with the ends of its 95 % bootstrap interval over texts."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Splits:
    """What one tokenizer does to one kind of text.

    Attributes:
        tokenizer: its name.
        kind: `specific` or `general`.
        texts: that were sampled: windows of texts.
        words: in them.
        continued: share of the words that become several tokens, in [0, 1].
        fertility: tokens a word.
        unknown: share of the words of which some part is not in the vocabulary.
    """

    tokenizer: str
    kind: str
    texts: int
    words: int
    continued: Figure
    fertility: Figure
    unknown: float


@dataclass(frozen=True)
class Gap:
    """How much more than the first tokenizer another one splits: above 0 where the first is better.

    Attributes:
        tokenizer: the other one's name.
        figure: `continued`, in shares of the words, or `fertility`, in tokens a word.
        specific: the difference on specific text (Figure 3's green bars).
        general: on general text (brown bars).
        wider: the first less the second: above 0 where specific text makes it worse.
    """

    tokenizer: str
    figure: str
    specific: Figure
    general: Figure
    wider: Figure


@dataclass(frozen=True)
class Tokenized:
    """What came of it.

    Attributes:
        tokenizers: their names, as they were given; the first is what others are held against.
        splits: by tokenizer and kind of text.
        gaps: by other tokenizer and figure.
    """

    tokenizers: list[str]
    splits: list[Splits]
    gaps: list[Gap]


def tokenizers(
    names: Sequence[str],
    specific: Sequence[str],
    general: Sequence[str],
    plan: Plan,
    *,
    machine: Machine,
) -> Tokenized:
    """Count what tokenizers do to words.

    Args:
        names: as `open_tokenizer` takes them; two at least for a comparison.
        specific: text of a domain: inputs as `--corpus` takes them, or files of CoNLL columns.
        general: the same of general text.
        plan: how text is read and cut; `fit.background` windows are drawn of each kind, by its
            seed.
        machine: where text is read.

    Raises:
        UsageError: a tokenizer is named twice or cannot be one.
        CorpusfitError: an input or a tokenizer cannot be read, or a kind has no word.
    """
    twice = [name for i, name in enumerate(names) if name in names[:i]]
    if not names or twice:
        came = f"{twice[0]} twice" if twice else "nothing"
        raise bad_setting("--tokenizer", "at least one, each of another name", came)
    opened = [open_tokenizer(name) for name in names]
    inputs = {"specific": specific, "general": general}
    with machine.start() as engine, machine.scratch() as work:
        engine.require_shared(work, "--cache")
        texts = {k: _sampled(k, given, plan, work, engine, machine) for k, given in inputs.items()}
    counts = {}
    progress = machine.progress
    for kind, sample in texts.items():
        progress.begin(f"tokenise {kind}", len(names) * len(sample), "texts")
        try:
            parts = [fertility_counts(t, sample, lambda n: progress.advance(n, n)) for t in opened]
        finally:
            progress.end()
        counts[kind] = np.stack(parts, 1)
        if not counts[kind][..., WORDS].any():
            raise EmptyInputError(f"--{kind} holds no word. Give other texts.")
    drawn = {
        (figure, kind): _redrawn(found, column, kind, plan.seed)
        for figure, column in _FIGURES.items()
        for kind, found in counts.items()
    }
    return Tokenized(list(names), _splits(names, counts, drawn), _gaps(names, counts, drawn))


def _sampled(
    kind: str, inputs: Sequence[str], plan: Plan, work: Path, engine: Engine, machine: Machine
) -> list[str]:
    """Some texts of the inputs, drawn by the seed; sentences of CoNLL columns, words spaced."""
    columns = [given for given in inputs if _of_words(given)]
    if columns and len(columns) < len(inputs):
        cure = "Run it once for each."
        allowed = "files of CoNLL columns, or other inputs"
        raise bad_setting(f"--{kind}", allowed, ", ".join(inputs), cure)
    if columns:
        found = list(map(" ".join, read_conll(columns, kind).pieces))
        drawn = np.random.default_rng(plan.seed).permutation(len(found))[: plan.fit.background]
        return [found[i] for i in np.sort(drawn)]
    looking = partial(look_with, engine)
    sources = corpus.find(inputs, plan.read, spool=work, role=kind, looking=looking)
    run = Run(plan, machine, engine, work, [], sources, role=kind)
    sample = Sample(work, kind)
    rejected = background_texts(run, sample, plan.fit.background)
    if rejected.counts:
        run.warn(f"{rejected.counts.total():,} rows of --{kind} were not used: {rejected}.")
    return sample.read_texts()


def _of_words(given: str) -> bool:
    """Whether an input is a file of CoNLL columns by its name, which no reader of text takes."""
    path = Path(given).expanduser()
    conll = form_of_name(path.name, "auto") == "conll" and not format_of(path.name)
    return conll and path.is_file()


def _redrawn(counts: NDArray[np.int64], column: int, kind: str, seed: int) -> NDArray[np.float64]:
    """float64 [rounds + 1, tokenizers]: a ratio as it is, and of texts drawn anew for all at once.

    Args:
        counts: int64 [n, tokenizers, 4].
        column: what is divided by the words.
        kind: of text; each is drawn by a chance of its own.
        seed: the only source of chance.
    """
    pairs = np.zeros((*counts.shape[:2], 3, 1), np.int64)  # as tallies, whose `accuracy` is a ratio
    pairs[:, :, 0, 0], pairs[:, :, 2, 0] = counts[..., column], counts[..., WORDS]
    together = stack_tallies(list(pairs.transpose(1, 0, 2, 3)))
    chances = dict(zip(("specific", "general"), np.random.default_rng(seed).spawn(2), strict=True))
    drawn = bootstrap_scores(together, "accuracy", chances[kind], ROUNDS)
    return np.concatenate([_ratio(counts, column)[None], drawn])


def _ratio(counts: NDArray[np.int64], column: int) -> NDArray[np.float64]:
    """float64 [tokenizers]: a column's sum by that of the words."""
    found: NDArray[np.float64] = counts[..., column].sum(0) / counts[..., WORDS].sum(0)
    return found


def _figure(values: NDArray[np.float64]) -> Figure:
    """What is first, with the interval of the others; float64 [rounds + 1]."""
    low, high = np.quantile(values[1:], _ENDS)
    return Figure(float(values[0]), float(low), float(high))


def _splits(
    names: Sequence[str],
    counts: Mapping[str, NDArray[np.int64]],
    drawn: Mapping[tuple[str, str], NDArray[np.float64]],
) -> list[Splits]:
    """Every tokenizer on both kinds of text."""
    return [
        Splits(
            name,
            kind,
            len(found),
            int(found[:, k, WORDS].sum()),
            _figure(drawn["continued", kind][:, k]),
            _figure(drawn["fertility", kind][:, k]),
            float(_ratio(found, UNKNOWN)[k]),
        )
        for k, name in enumerate(names)
        for kind, found in counts.items()
    ]


def _gaps(
    names: Sequence[str],
    counts: Mapping[str, NDArray[np.int64]],
    drawn: Mapping[tuple[str, str], NDArray[np.float64]],
) -> list[Gap]:
    """Every other tokenizer less the first, on the same draws of texts."""
    gaps = []
    for k, name in enumerate(names[1:], 1):
        for figure in _FIGURES:
            own = {kind: drawn[figure, kind] for kind in counts}
            specific, general = (own[kind][:, k] - own[kind][:, 0] for kind in counts)
            found = map(_figure, (specific, general, specific - general))
            gaps.append(Gap(name, figure, *found))
    return gaps
