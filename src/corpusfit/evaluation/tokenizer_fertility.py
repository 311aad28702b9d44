"""Fertility of a tokenizer: tokens per word, continued words, words with an unknown token."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from corpusfit.core.artifacts import user_path
from corpusfit.core.errors import CorpusfitError, ModelError, raise_machine_fault
from corpusfit.embed.contract import Progress
from corpusfit.embed.extras import require_extras
from corpusfit.embed.folders import Setting, find
from corpusfit.embed.minilm import minilm_folder
from corpusfit.embed.transformer import load_tokenizer, quiet
from corpusfit.evaluation.formats.brat import WORD

TOKENIZER = Setting(
    flag="`tokenizer`",
    allowed="minilm, a model folder, a tokenizer.json, a WordPiece vocab.txt or a hub id",
    otherwise="use `tokenizer=minilm`",
    extra="models",
)
WORDS, CONTINUED, PIECES, UNKNOWN = range(4)
"""Columns of the counts of `fertility_counts`."""

_BATCH = 256


def open_tokenizer(name: str) -> Any:
    """Open a tokenizer of the library `tokenizers`, without truncation and padding."""
    require_extras("corpusfit tokenizers", TOKENIZER.extra, name)
    from tokenizers import Tokenizer

    path = user_path(name)
    try:
        if path.is_file():
            found = Tokenizer.from_file(str(path)) if path.suffix == ".json" else _word_pieces(path)
        else:
            folder = minilm_folder() if name == "minilm" else find(name, setting=TOKENIZER)
            whole = folder / "tokenizer.json"
            found = Tokenizer.from_file(str(whole)) if whole.is_file() else _converted(folder)
    except CorpusfitError:
        raise
    except Exception as e:  # the library raises bare exceptions
        raise_machine_fault(e)
        reason = (str(e).strip() or type(e).__name__).splitlines()[0]
        raise ModelError(
            f"`tokenizer` must be {TOKENIZER.allowed}; {name} cannot be opened: {reason}"
        ) from e
    found.no_truncation()
    found.no_padding()
    return found


def _word_pieces(path: Path) -> Any:
    """BERT's tokenizer with a vocabulary of one piece per line."""
    from tokenizers import BertWordPieceTokenizer

    pieces = path.read_text("utf-8").removeprefix("\ufeff").splitlines()
    if not {"[UNK]", "[CLS]", "[SEP]"} <= set(pieces):
        raise ModelError(
            f"`tokenizer`: {path} must have one word piece per line, with [UNK], [CLS] and [SEP]. "
            "Name a vocab.txt, a tokenizer.json or a model folder."
        )
    lower = all(p == p.lower() for p in pieces if not p.startswith("["))
    numbers = {piece: number for number, piece in reversed(list(enumerate(pieces)))}
    wrapped = BertWordPieceTokenizer(numbers, lowercase=lower)
    return wrapped._tokenizer


def _converted(folder: Path) -> Any:
    """A tokenizer in an older format, converted by transformers."""
    with quiet():
        opened = load_tokenizer(folder, f"`tokenizer`: {folder}")
    if not getattr(opened, "is_fast", False):
        raise ModelError(
            f"`tokenizer`: {folder} has a slow tokenizer; a fast one is needed. Save it as a fast "
            "one (tokenizer.json)."
        )
    return opened.backend_tokenizer


def fertility_counts(
    tokenizer: Any, texts: Sequence[str], on_progress: Progress | None = None
) -> NDArray[np.int64]:
    """Count words, continued words, tokens and unknown words of n texts.

    Words are those of mDAPT: split at white space, with numbers and special characters separate, so
    that tokenizers are compared on equal words. A text is tokenised as a whole; a word's tokens are
    those that overlap it or the space before it, and a token over several words counts for each. In
    scripts without spaces a word is a run of letters and nearly all are continued: compare
    tokenizers there, not languages. An unknown word is one token, so a poor vocabulary splits few
    words: look at unknown words first.

    Reference: Rust et al. (2021), How Good is Your Tokenizer?, section 3.2 (Ács 2019 for
    fertility); mDAPT, section 6, Figure 3 and appendix B.
    """
    unknown = _unknown(tokenizer)
    counts = np.zeros((len(texts), 4), np.int64)
    for start in range(0, len(texts), _BATCH):
        batch = list(texts[start : start + _BATCH])
        coded = tokenizer.encode_batch(batch, add_special_tokens=False)
        for i, (text, one) in enumerate(zip(batch, coded, strict=True), start):
            words = np.array(list(_spans(text)), np.int64)
            if len(words):
                places = np.array(one.offsets, np.int64).reshape(-1, 2)
                ids = np.array(one.ids, np.int64)
                counts[i] = _counted(words, places, ids == unknown)
        if on_progress is not None:
            on_progress(len(batch))
    return counts


def _spans(text: str) -> Iterator[tuple[int, int]]:
    """Characters [begin, end) of each word, with the space before it."""
    for found in WORD.finditer(text):
        begin, end = found.span()
        yield begin - int(begin > 0 and text[begin - 1].isspace()), end


def _unknown(tokenizer: Any) -> int:
    """Id of the unknown token; -1 without one."""
    named = (getattr(tokenizer.model, "unk_token", None), "[UNK]", "<unk>")
    numbers = (tokenizer.token_to_id(token) for token in named if token)
    return next((int(n) for n in numbers if n is not None), -1)


def _counted(
    words: NDArray[np.int64], places: NDArray[np.int64], unknown: NDArray[np.bool_]
) -> tuple[int, int, int, int]:
    """Counts of one text: words, continued words, tokens, words with an unknown token.

    `places` [t, 2] are the characters of each token, in order.
    """
    real = places[:, 0] < places[:, 1]
    each = _overlapping(words, places[real])
    lost = _overlapping(words, places[real & unknown])
    return len(words), int((each > 1).sum()), int(each.sum()), int((lost > 0).sum())


def _overlapping(words: NDArray[np.int64], places: NDArray[np.int64]) -> NDArray[np.int64]:
    """int64 [w]: tokens that overlap each word; begins and ends of tokens must be sorted."""
    begun = np.searchsorted(places[:, 0], words[:, 1], "left")
    over = np.searchsorted(places[:, 1], words[:, 0], "right")
    found: NDArray[np.int64] = np.maximum(begun - over, 0)
    return found
