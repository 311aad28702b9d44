"""The command `tokenizers`: fertility and continued words on specific and on general text."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from corpusfit import text as corpus
from corpusfit.core.artifacts import user_path
from corpusfit.core.errors import (
    CorpusfitError,
    EmptyInputError,
    ModelError,
    bad_setting,
    raise_machine_fault,
)
from corpusfit.core.plan import Plan
from corpusfit.embed.contract import Progress
from corpusfit.embed.folders import ModelSetting, find, minilm_folder, require_extra
from corpusfit.embed.transformer import load_tokenizer, quiet
from corpusfit.evaluation.formats.brat import WORD
from corpusfit.evaluation.formats.conll import read_conll
from corpusfit.evaluation.metrics import accuracy
from corpusfit.evaluation.reading import form_of_name
from corpusfit.evaluation.significance import bootstrap_scores, stack_tallies
from corpusfit.selection.fit import Sample
from corpusfit.selection.samples import background_texts
from corpusfit.text.context import Machine, Run, RunContext
from corpusfit.text.contract import format_of
from corpusfit.text.pairs import sampled, with_side

TOKENIZER = ModelSetting(
    name="`tokenizer`",
    allowed="minilm, a model folder, a tokenizer.json, a WordPiece vocab.txt or a hub id",
    otherwise="use `tokenizer=minilm`",
    extra="models",
)
WORDS, CONTINUED, PIECES, UNKNOWN = range(4)  # Columns of the counts of `fertility_counts`
_BATCH = 256
ROUNDS = 2_000
_INTERVAL = (0.025, 0.975)  # quantiles of the bootstrap
_FIGURES = {"continued": CONTINUED, "fertility": PIECES}


def open_tokenizer(name: str) -> Any:
    """Open a tokenizer of the library `tokenizers`, without truncation and padding."""
    require_extra("corpusfit tokenizers", TOKENIZER.extra)
    from tokenizers import BertWordPieceTokenizer, Tokenizer

    path = user_path(name)
    try:
        if path.is_file() and path.suffix == ".json":
            tokenizer = Tokenizer.from_file(str(path))
        elif path.is_file():  # BERT's tokenizer with a vocabulary of one piece per line
            pieces = path.read_text("utf-8").removeprefix("\ufeff").splitlines()
            if not {"[UNK]", "[CLS]", "[SEP]"} <= set(pieces):
                raise ModelError(
                    f"`tokenizer`: {path} must have one word piece per line, with [UNK], [CLS] "
                    "and [SEP]. Name a vocab.txt, a tokenizer.json or a model folder."
                )
            lower = all(p == p.lower() for p in pieces if not p.startswith("["))
            numbers = {piece: number for number, piece in reversed(list(enumerate(pieces)))}
            tokenizer = BertWordPieceTokenizer(numbers, lowercase=lower)._tokenizer
        else:
            folder = minilm_folder() if name == "minilm" else find(name, setting=TOKENIZER)
            whole = folder / "tokenizer.json"
            if whole.is_file():
                tokenizer = Tokenizer.from_file(str(whole))
            else:
                # transformers converts the files of an older format
                with quiet():
                    opened = load_tokenizer(folder, f"`tokenizer`: {folder}")
                if not getattr(opened, "is_fast", False):
                    raise ModelError(
                        f"`tokenizer`: {folder} has a slow tokenizer; a fast one is needed. Save "
                        "it as a fast one (tokenizer.json)."
                    )
                tokenizer = opened.backend_tokenizer
    except CorpusfitError:
        raise
    except Exception as e:  # the library raises bare exceptions
        raise_machine_fault(e)
        reason = (str(e).strip() or type(e).__name__).splitlines()[0]
        raise ModelError(
            f"`tokenizer` must be {TOKENIZER.allowed}; {name} cannot be opened: {reason}"
        ) from e
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer


def fertility_counts(
    tokenizer: Any, texts: Sequence[str], on_progress: Progress | None = None
) -> NDArray[np.int64]:
    """Count words, continued words, tokens and unknown words of n texts.

    Reference: Rust et al. (2021), How Good is Your Tokenizer?, section 3.2 (Ács 2019 for
    fertility); mDAPT, section 6, Figure 3 and appendix B.
    """
    # Words are those of mDAPT: split at white space, with numbers and special characters separate,
    # so that tokenizers are compared on equal words. A text is tokenised as a whole; a word's
    # tokens are those that overlap it or the space before it, and a token over several words counts
    # for each. In scripts without spaces a word is a run of letters and nearly all are continued:
    # compare tokenizers there, not languages. An unknown word is one token, so a poor vocabulary
    # splits few words: look at unknown words first.
    unknown_tokens = (getattr(tokenizer.model, "unk_token", None), "[UNK]", "<unk>")
    numbers = (tokenizer.token_to_id(token) for token in unknown_tokens if token)
    unknown = next((int(n) for n in numbers if n is not None), -1)
    counts = np.zeros((len(texts), 4), np.int64)
    for start in range(0, len(texts), _BATCH):
        batch = list(texts[start : start + _BATCH])
        coded = tokenizer.encode_batch(batch, add_special_tokens=False)
        for i, (text, encoding) in enumerate(zip(batch, coded, strict=True), start):
            spans = [match.span() for match in WORD.finditer(text)]
            if not spans:
                continue
            # a word begins at the space before it
            words = np.array(
                [(b - int(b > 0 and text[b - 1].isspace()), e) for b, e in spans], np.int64
            )
            offsets = np.array(encoding.offsets, np.int64).reshape(-1, 2)
            # some tokenizers give tokens without characters, such as a prefix
            real = offsets[:, 0] < offsets[:, 1]
            tokens = _overlapping(words, offsets[real])
            unknown_parts = _overlapping(words, offsets[real & (np.array(encoding.ids) == unknown)])
            counts[i] = len(words), (tokens > 1).sum(), tokens.sum(), (unknown_parts > 0).sum()
        if on_progress is not None:
            on_progress(len(batch))
    return counts


def _overlapping(words: NDArray[np.int64], places: NDArray[np.int64]) -> NDArray[np.int64]:
    """int64 [w]: tokens that overlap each word; begins and ends of tokens must be sorted."""
    # tokens that begin before the word ends, less those that end before it begins
    begun = np.searchsorted(places[:, 0], words[:, 1], "left")
    ended = np.searchsorted(places[:, 1], words[:, 0], "right")
    return np.asarray(np.maximum(begun - ended, 0), np.int64)


@dataclass(frozen=True)
class Figure:
    """A ratio with the ends of its 95 % bootstrap interval over texts."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Splits:
    """How one tokenizer splits the words of one kind of text."""

    tokenizer: str  # name of the tokenizer
    kind: str  # `specific` or `general`
    texts: int  # number of sampled windows of text
    words: int  # number of words in the sample
    continued: Figure  # share of the words that become several tokens, in [0, 1]
    fertility: Figure  # tokens per word
    unknown: float  # share of the words with a part that is not in the vocabulary


@dataclass(frozen=True)
class Gap:
    """How much more a tokenizer splits than the first one: above 0 the first is better."""

    tokenizer: str  # name of the tokenizer
    figure: str  # `continued`, as a share of the words, or `fertility`, in tokens per word
    specific: Figure  # difference on specific text (green bars of mDAPT's Figure 3)
    general: Figure  # difference on general text (brown bars)
    wider: Figure  # `specific` minus `general`: above 0 the difference is larger on specific text


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
    repeated = [name for i, name in enumerate(names) if name in names[:i]]
    if not names or repeated:
        got = f"{repeated[0]} twice" if repeated else "nothing"
        raise bad_setting("`tokenizer`", "given at least once, each time with another name", got)
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
    # the ratio of all texts, then of bootstrap samples: float64 [rounds + 1, tokenizers]
    ratios: dict[tuple[str, str], NDArray[np.float64]] = {}
    for figure, column in _FIGURES.items():
        # both figures are of the same bootstrap samples
        generators = np.random.default_rng(plan.seed).spawn(2)
        for (kind, counted), generator in zip(counts.items(), generators, strict=True):
            sums = np.zeros((*counted.shape[:2], 3, 1), np.int64)  # tallies, for `accuracy`
            sums[:, :, 0, 0], sums[:, :, 2, 0] = counted[..., column], counted[..., WORDS]
            together = stack_tallies(list(sums.transpose(1, 0, 2, 3)))
            redrawn = bootstrap_scores(together, accuracy, generator, ROUNDS)
            ratios[figure, kind] = np.concatenate([_ratio(counted, column)[None], redrawn])
    splits = [
        Splits(
            name,
            kind,
            len(counted),
            int(counted[:, k, WORDS].sum()),
            _figure(ratios["continued", kind][:, k]),
            _figure(ratios["fertility", kind][:, k]),
            float(_ratio(counted, UNKNOWN)[k]),
        )
        for k, name in enumerate(names)
        for kind, counted in counts.items()
    ]
    gaps = []
    # differences to the first tokenizer, in each bootstrap sample
    for k, name in enumerate(names[1:], 1):
        for figure in _FIGURES:
            on_specific, on_general = (
                ratios[figure, kind][:, k] - ratios[figure, kind][:, 0] for kind in counts
            )
            figures = map(_figure, (on_specific, on_general, on_specific - on_general))
            gaps.append(Gap(name, figure, *figures))
    return Tokenized(list(names), splits, gaps)


def _sampled(kind: str, inputs: Sequence[str], plan: Plan, context: RunContext) -> list[str]:
    """A random sample of the inputs' texts; CoNLL columns give sentences, their words spaced."""
    columns = []
    for name in inputs:
        path = user_path(name)
        if form_of_name(path.name) == "conll" and not format_of(path.name) and path.is_file():
            columns.append(name)
    if columns and len(columns) < len(inputs):
        cure = "Run the command once for each kind of input."
        allowed = "only files of CoNLL columns, or only other inputs"
        raise bad_setting(f"`{kind}`", allowed, ", ".join(inputs), cure)
    if columns:
        sentences = list(map(" ".join, read_conll(columns, kind).pieces))
        # in file order, like the windows of other inputs
        order = np.random.default_rng(plan.seed).permutation(len(sentences))
        return [sentences[i] for i in np.sort(order[: plan.fit.background])]
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


def _ratio(counts: NDArray[np.int64], column: int) -> NDArray[np.float64]:
    """A column's sum divided by the number of words: float64 [tokenizers]."""
    return np.asarray(counts[..., column].sum(0) / counts[..., WORDS].sum(0), np.float64)


def _figure(values: NDArray[np.float64]) -> Figure:
    """The first value with the interval of the others; `values` is float64 [rounds + 1]."""
    low, high = np.quantile(values[1:], _INTERVAL)
    return Figure(float(values[0]), float(low), float(high))
