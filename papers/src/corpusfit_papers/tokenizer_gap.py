"""`tokenizers`: fertility and continued words on specific and on general text."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any, Unpack

import numpy as np
from numpy.typing import NDArray

import corpusfit
from corpusfit.contracts import (
    InputError,
    MachineOptions,
    MissingDependencyError,
    ModelError,
    ModelSetting,
    UsageError,
    bad_setting,
    bootstrap_scores,
    find,
    machine_of,
    random_texts,
    with_keywords,
)
from corpusfit_papers.retrieving import listed

TOKENIZER = ModelSetting(
    name="`tokenizer`",
    allowed="minilm, a model folder, a tokenizer.json, a WordPiece vocab.txt or a hub id",
    otherwise="use `tokenizer=minilm`",
    extra="models",
)
WORDS, CONTINUED, PIECES, UNKNOWN = range(4)  # Columns of the counts of `fertility_counts`
WINDOWS = 10_000
_MARKS = "".join(c for c in map(chr, range(0x300, 0x20000)) if unicodedata.category(c)[0] == "M")
# A word as in mDAPT: split at white space, with numbers and special characters separate.
WORD = re.compile(
    rf"[^\W\d_]+(?:(?=[^\0-\x7f])[{_MARKS}]+[^\W\d_]*)*|\d+|[^\w\s\ufeff]|_"  # ASCII is fast
)
_BATCH = 256
_CONLL = (".conll", ".bio", ".iob", ".iob2")
ROUNDS = 2_000
_INTERVAL = (0.025, 0.975)  # quantiles of the bootstrap
_FIGURES = {"continued": CONTINUED, "fertility": PIECES}


def open_tokenizer(name: str) -> Any:
    """Open a tokenizer of the library `tokenizers`, without truncation and padding."""
    try:
        from tokenizers import BertWordPieceTokenizer, Tokenizer
        from transformers import AutoTokenizer
    except ImportError as e:
        raise MissingDependencyError("corpusfit tokenizers", TOKENIZER.extra) from e
    path = Path(name).expanduser()
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
            folder = find(name, setting=TOKENIZER)
            whole = folder / "tokenizer.json"
            if whole.is_file():
                tokenizer = Tokenizer.from_file(str(whole))
            else:
                # transformers converts the files of an older format
                opened = AutoTokenizer.from_pretrained(
                    folder, local_files_only=True, trust_remote_code=False
                )
                made_up = not any(
                    (folder / file).is_file() for file in opened.vocab_files_names.values()
                )
                if made_up or not getattr(opened, "is_fast", False):
                    raise ModelError(
                        f"`tokenizer`: {folder} has no fast tokenizer. Save one there "
                        "(tokenizer.json)."
                    )
                tokenizer = opened.backend_tokenizer
    except (ModelError, UsageError, MissingDependencyError):
        raise
    except Exception as e:  # the library raises bare exceptions
        reason = (str(e).strip() or type(e).__name__).splitlines()[0]
        raise ModelError(
            f"`tokenizer` must be {TOKENIZER.allowed}; {name} cannot be opened: {reason}"
        ) from e
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer


def fertility_counts(tokenizer: Any, texts: Sequence[str]) -> NDArray[np.int64]:
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


@with_keywords()
def tokenizers(
    *,
    tokenizer: str | PathLike[str] | Sequence[str],
    specific: str | PathLike[str] | Sequence[str],
    general: str | PathLike[str] | Sequence[str],
    text_field: str = "text",
    windows: int = WINDOWS,
    seed: int = 0,
    machine: corpusfit.Machine | None = None,
    **options: Unpack[MachineOptions],
) -> Tokenized:
    """Measure how many tokens tokenizers make of words, on specific and on general text.

    The sample is bounded and consists of windows; the bootstrap intervals are over windows, as if
    each were a text of its own.

    Reference: mDAPT, section 6 and Figure 3; Rust et al. (2021), section 3.2.

    Args:
        tokenizer: `minilm`, a model folder, a `tokenizer.json`, a `vocab.txt` of word pieces or a
            Hugging Face hub id; each is compared with the first.
        specific: texts of a domain: inputs as for `corpus` of `select`, or files of CoNLL columns.
        general: general texts, in the same forms.
        text_field: field of the rows with their text.
        windows: most windows of text to sample of each kind.
        seed: of the sample and of the bootstrap.
        machine: where the inputs are read.

    Returns:
        Continued words and fertility of each tokenizer on both kinds of text, and the differences
        from the first tokenizer.
    """
    names = listed("`tokenizer`", tokenizer)
    machine = machine_of(machine, options)
    opened = [open_tokenizer(name) for name in names]
    plan = corpusfit.Plan().with_value("seed", seed).with_value("fit.background", windows)
    plan = plan.with_value("read.text_field", text_field).check()
    counts = {}
    for kind, inputs in (("specific", specific), ("general", general)):
        texts = _sampled(kind, inputs, plan, machine)
        counts[kind] = np.stack([fertility_counts(tokenizer, texts) for tokenizer in opened], 1)
        if not counts[kind][..., WORDS].any():
            raise InputError(f"`{kind}` contains no word. Give other texts.")
    ratios = _ratios(counts, seed)
    splits = [
        Splits(
            name,
            kind,
            len(counted),
            int(counted[:, k, WORDS].sum()),
            _figure(ratios["continued", kind][:, k]),
            _figure(ratios["fertility", kind][:, k]),
            float(counted[:, k, UNKNOWN].sum() / counted[:, k, WORDS].sum()),
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
    return Tokenized(names, splits, gaps)


def _ratios(
    counts: dict[str, NDArray[np.int64]], seed: int
) -> dict[tuple[str, str], NDArray[np.float64]]:
    """By figure and kind of text, the ratio of all texts, then of bootstrap samples.

    Each is float64 [rounds + 1, tokenizers].
    """
    ratios = {}
    for figure, column in _FIGURES.items():
        # both figures are of the same bootstrap samples
        generators = np.random.default_rng(seed).spawn(2)
        for (kind, counted), generator in zip(counts.items(), generators, strict=True):
            pairs = counted[..., [column, WORDS]].astype(np.float64)
            redrawn = bootstrap_scores(pairs, _share, generator, ROUNDS)
            ratios[figure, kind] = np.concatenate([_share(pairs.sum(0))[None], redrawn])
    return ratios


def _sampled(kind: str, inputs: Any, plan: corpusfit.Plan, machine: corpusfit.Machine) -> list[str]:
    """A random sample of the inputs' texts; CoNLL columns give sentences, their words spaced."""
    several = [inputs] if isinstance(inputs, str | PathLike) else list(inputs)
    columns = [
        path
        for path in (Path(item) for item in several if isinstance(item, str | PathLike))
        if path.suffix in _CONLL and path.is_file()
    ]
    if not columns:
        return random_texts(inputs, plan, role=kind, machine=machine)
    if len(columns) < len(several):
        cure = "Run the command once for each kind of input."
        allowed = "only files of CoNLL columns, or only other inputs"
        raise bad_setting(f"`{kind}`", allowed, ", ".join(map(str, several)), cure)
    sentences = [" ".join(words) for path in columns for words in conll_words(path)]
    # in file order, like the windows of other inputs
    order = np.random.default_rng(plan.seed).permutation(len(sentences))
    return [sentences[i] for i in np.sort(order[: plan.fit.background])]


def conll_words(path: Path) -> list[list[str]]:
    """The words of each sentence of a file of CoNLL columns: the first column.

    A first column that counts the words of each sentence is none of words; the second is then.
    """
    lines = path.read_text("utf-8-sig").splitlines()
    separator = "\t" if any("\t" in line for line in lines[:3]) else None
    sentences: list[list[list[str]]] = []
    between = True
    for line in lines:
        if not line.strip() or line.startswith("-DOCSTART-"):
            between = True
            continue
        if between:
            sentences.append([])
        between = False
        sentences[-1].append(line.split(separator))
    counted = all(
        len(row) > 2 and row[0] in (str(place), str(place + 1))
        for sentence in sentences
        for place, row in enumerate(sentence)
    )
    return [[row[int(counted)].strip() for row in sentence] for sentence in sentences]


def _share(summed: NDArray[Any]) -> NDArray[np.float64]:
    """The first sum divided by the second, the number of words: float64 [...] of [..., 2]."""
    return np.asarray(summed[..., 0] / summed[..., 1], np.float64)


def _figure(values: NDArray[np.float64]) -> Figure:
    """The first value with the interval of the others; `values` is float64 [rounds + 1]."""
    low, high = np.quantile(values[1:], _INTERVAL)
    return Figure(float(values[0]), float(low), float(high))
