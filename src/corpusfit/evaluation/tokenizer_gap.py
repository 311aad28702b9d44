"""The command `tokenizers`: fertility and continued words on specific and on general text."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from corpusfit import text as corpus
from corpusfit.core.artifacts import user_path
from corpusfit.core.errors import EmptyInputError, bad_setting
from corpusfit.core.plan import Plan
from corpusfit.evaluation.formats.conll import read_conll
from corpusfit.evaluation.metrics import accuracy
from corpusfit.evaluation.resampling import bootstrap_scores, stack_tallies
from corpusfit.evaluation.splits import form_of_name
from corpusfit.evaluation.tokenizer_fertility import (
    CONTINUED,
    PIECES,
    UNKNOWN,
    WORDS,
    fertility_counts,
    open_tokenizer,
)
from corpusfit.selection.fit import Sample
from corpusfit.selection.samples import background_texts
from corpusfit.text.context import Machine, Run, RunContext
from corpusfit.text.pair_languages import sampled, with_side
from corpusfit.text.registry import format_of

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
    """How one tokenizer splits the words of one kind of text.

    Attributes:
        tokenizer: name of the tokenizer.
        kind: `specific` or `general`.
        texts: number of sampled windows of text.
        words: number of words in the sample.
        continued: share of the words that become several tokens, in [0, 1].
        fertility: tokens per word.
        unknown: share of the words with a part that is not in the vocabulary.
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
    """How much more a tokenizer splits than the first one: above 0 the first is better.

    Attributes:
        tokenizer: name of the tokenizer.
        figure: `continued`, as a share of the words, or `fertility`, in tokens per word.
        specific: difference on specific text (green bars of mDAPT's Figure 3).
        general: difference on general text (brown bars).
        wider: `specific` minus `general`: above 0 the difference is larger on specific text.
    """

    tokenizer: str
    figure: str
    specific: Figure
    general: Figure
    wider: Figure


@dataclass(frozen=True)
class Tokenized:
    """The result of `tokenizers`.

    Attributes:
        tokenizers: names of the tokenizers; the others are compared with the first.
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
    """Count how tokenizers split words, on specific and on general text.

    The sample is bounded and drawn in windows; the bootstrap intervals are over windows, as if each
    were a text of its own.

    Reference: mDAPT, section 6 and Figure 3; Rust et al. (2021), section 3.2.
    """
    twice = [name for i, name in enumerate(names) if name in names[:i]]
    if not names or twice:
        came = f"{twice[0]} twice" if twice else "nothing"
        raise bad_setting("`tokenizer`", "given at least once, each time with another name", came)
    opened = [open_tokenizer(name) for name in names]
    inputs = {"specific": specific, "general": general}
    with machine.running() as context:
        texts = {kind: _sampled(kind, each, plan, context) for kind, each in inputs.items()}
    counts = {}
    progress = machine.progress
    for kind, sample in texts.items():
        with progress.showing(f"tokenise {kind}", len(names) * len(sample), "texts"):
            parts = [fertility_counts(t, sample, lambda n: progress.advance(n, n)) for t in opened]
        counts[kind] = np.stack(parts, 1)
        if not counts[kind][..., WORDS].any():
            raise EmptyInputError(f"`{kind}` contains no word. Give other texts.")
    drawn = {
        (figure, kind): _redrawn(found, column, kind, plan.seed)
        for figure, column in _FIGURES.items()
        for kind, found in counts.items()
    }
    return Tokenized(list(names), _splits(names, counts, drawn), _gaps(names, counts, drawn))


def _sampled(kind: str, inputs: Sequence[str], plan: Plan, context: RunContext) -> list[str]:
    """A random sample of the inputs' texts; of CoNLL columns, sentences with spaced words."""
    columns = [each for each in inputs if _is_conll(each)]
    if columns and len(columns) < len(inputs):
        cure = "Run the command once for each kind of input."
        allowed = "only files of CoNLL columns, or only other inputs"
        raise bad_setting(f"`{kind}`", allowed, ", ".join(inputs), cure)
    if columns:
        found = list(map(" ".join, read_conll(columns, kind).pieces))
        drawn = np.random.default_rng(plan.seed).permutation(len(found))[: plan.fit.background]
        return [found[i] for i in np.sort(drawn)]
    sources = context.find(inputs, plan.read, kind)
    if corpus.is_parallel(sources):
        texts = sampled(sources, plan.read)
        read = with_side(plan.read, "", context.progress.note, texts)
        plan = dataclasses.replace(plan, read=read)
    run = Run.of(context, plan, [], sources, role=kind)
    sample = Sample(context.work, kind)
    rejected = background_texts(run, sample, plan.fit.background)
    if rejected.counts:
        run.warn(f"{rejected.counts.total():,} rows of `{kind}` were not used: {rejected}.")
    return sample.read_texts()


def _is_conll(name: str) -> bool:
    path = user_path(name)
    conll = form_of_name(path.name) == "conll" and not format_of(path.name)
    return conll and path.is_file()


def _redrawn(counts: NDArray[np.int64], column: int, kind: str, seed: int) -> NDArray[np.float64]:
    """float64 [rounds + 1, tokenizers]: the ratio of all texts, then of the same samples."""
    pairs = np.zeros((*counts.shape[:2], 3, 1), np.int64)  # as tallies, whose accuracy is a ratio
    pairs[:, :, 0, 0], pairs[:, :, 2, 0] = counts[..., column], counts[..., WORDS]
    together = stack_tallies(list(pairs.transpose(1, 0, 2, 3)))
    chances = dict(zip(("specific", "general"), np.random.default_rng(seed).spawn(2), strict=True))
    drawn = bootstrap_scores(together, accuracy, chances[kind], ROUNDS)
    return np.concatenate([_ratio(counts, column)[None], drawn])


def _ratio(counts: NDArray[np.int64], column: int) -> NDArray[np.float64]:
    """A column's sum divided by the number of words: float64 [tokenizers]."""
    found: NDArray[np.float64] = counts[..., column].sum(0) / counts[..., WORDS].sum(0)
    return found


def _figure(values: NDArray[np.float64]) -> Figure:
    """The first value with the interval of the others; `values` is float64 [rounds + 1]."""
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
    """Every other tokenizer minus the first, on the same bootstrap samples."""
    gaps = []
    for k, name in enumerate(names[1:], 1):
        for figure in _FIGURES:
            own = {kind: drawn[figure, kind] for kind in counts}
            specific, general = (own[kind][:, k] - own[kind][:, 0] for kind in counts)
            found = map(_figure, (specific, general, specific - general))
            gaps.append(Gap(name, figure, *found))
    return gaps
