"""How a tokenizer treats words: how many it splits, and into how many pieces.

What: of each text its words, those that become several tokens (continued words), the tokens they
become (fertility: tokens a word) and those of which some part is unknown to the vocabulary.
Why: a model sees a word that falls to pieces less well than one that is a token, and a vocabulary
for many languages, or for general text, splits more words of a language or a domain.
Trade-off: words are cut as mDAPT cuts its data: at white space, with numbers and special characters
set apart, so that every tokenizer is asked about the same words. A text is tokenised whole and its
tokens are given to the words that they overlap, so a word has the pieces that a model would see, a
blank before it that is a token of its own among them; a token over several words counts for each.
Where a script writes no spaces a "word" is a run of letters, and nearly all are continued: compare
tokenizers there, not languages. An unknown word is one token, so a vocabulary that knows nothing
splits nothing: look at that share first.
Reference: Rust et al. (2021), How Good is Your Tokenizer?, section 3.2 (Ács 2019 for fertility);
mDAPT, section 6, Figure 3 and appendix B.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from corpusfit.embed.contract import Progress
from corpusfit.embed.folders import Setting, find
from corpusfit.embed.minilm import minilm_folder
from corpusfit.embed.transformer import quiet
from corpusfit.errors import MissingDependencyError, ModelError
from corpusfit.evaluate.formats.brat import WORD

TOKENIZER = Setting(
    flag="--tokenizer",
    allowed="minilm, a model folder, a tokenizer.json, a vocab.txt of word pieces or a hub id",
    otherwise="use --tokenizer minilm",
    extra="embed",
)
WORDS, CONTINUED, PIECES, UNKNOWN = range(4)
"""Columns of what `word_splits` counts."""

_BATCH = 256


def open_tokenizer(name: str) -> Any:
    """A tokenizer of the library `tokenizers`, which neither cuts off nor pads.

    Args:
        name: `minilm`, a folder with a model or a tokenizer alone, a `tokenizer.json`, a file with
            a word piece a line (BERT's `vocab.txt`; lower case where no piece has a capital), or a
            hub id, whose whole model is downloaded.

    Raises:
        UsageError: it is none of these.
        ModelError: it cannot be opened, or cannot say where in a text its tokens are.
        MissingDependencyError: tokenizers, or transformers where it is needed, is not installed.
    """
    try:
        from tokenizers import Tokenizer
    except ImportError as e:
        raise MissingDependencyError("corpusfit tokenizers", TOKENIZER.extra) from e
    path = Path(name).expanduser()
    try:
        if path.is_file():
            found = Tokenizer.from_file(str(path)) if path.suffix == ".json" else _word_pieces(path)
        else:
            folder = minilm_folder() if name == "minilm" else find(name, setting=TOKENIZER)
            whole = folder / "tokenizer.json"
            found = Tokenizer.from_file(str(whole)) if whole.is_file() else _converted(folder)
    except (ModelError, MissingDependencyError):
        raise
    except Exception as e:  # the library raises bare exceptions
        if type(e).__module__.startswith("corpusfit."):
            raise
        reason = (str(e).strip() or type(e).__name__).splitlines()[0]
        raise ModelError(
            f"--tokenizer must be {TOKENIZER.allowed}; {name} cannot be opened: {reason}"
        ) from e
    found.no_truncation()
    found.no_padding()
    return found


def _word_pieces(path: Path) -> Any:
    """BERT's tokenizer with a vocabulary of one piece a line."""
    from tokenizers import BertWordPieceTokenizer

    pieces = path.read_text("utf-8").removeprefix("\ufeff").splitlines()
    if not {"[UNK]", "[CLS]", "[SEP]"} <= set(pieces):
        raise ModelError(
            f"--tokenizer: {path} must have a word piece a line, [UNK], [CLS] and [SEP] among "
            "them. Name a vocab.txt, a tokenizer.json or a model folder."
        )
    lower = all(p == p.lower() for p in pieces if not p.startswith("["))
    numbers = {piece: number for number, piece in reversed(list(enumerate(pieces)))}
    wrapped = BertWordPieceTokenizer(numbers, lowercase=lower)
    return wrapped._tokenizer


def _converted(folder: Path) -> Any:
    """A tokenizer in an older form, as transformers converts it."""
    try:
        from transformers import AutoTokenizer
    except ImportError as e:
        raise MissingDependencyError(f"The tokenizer in {folder}", TOKENIZER.extra) from e
    local = {"local_files_only": True, "trust_remote_code": False}
    with quiet():
        opened = AutoTokenizer.from_pretrained(str(folder), use_fast=True, **local)
    if not getattr(opened, "is_fast", False):
        raise ModelError(
            f"--tokenizer: {folder} has a tokenizer that cannot say where in a text its tokens "
            "are. Save it again as a fast one (tokenizer.json)."
        )
    return opened.backend_tokenizer


def word_splits(
    tokenizer: Any, texts: Sequence[str], on_progress: Progress | None = None
) -> NDArray[np.int64]:
    """What a tokenizer does to the words of n texts.

    Args:
        tokenizer: what `open_tokenizer` gave.
        texts: n texts.
        on_progress: told how many more texts are done.

    Returns:
        int64 [n, 4]: words, continued words (two or more tokens), tokens that words have, and words
        with an unknown token.
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
    """The characters [begin, end) of each word, with the blank before it."""
    for found in WORD.finditer(text):
        begin, end = found.span()
        yield begin - int(begin > 0 and text[begin - 1].isspace()), end


def _unknown(tokenizer: Any) -> int:
    """The number of the unknown token; -1 where every text can be written."""
    named = getattr(tokenizer.model, "unk_token", None)
    number = tokenizer.token_to_id(named) if named else None
    if number is None:
        number = next(
            (n for t in ("[UNK]", "<unk>") if (n := tokenizer.token_to_id(t)) is not None), None
        )
    return -1 if number is None else int(number)


def _counted(
    words: NDArray[np.int64], places: NDArray[np.int64], unknown: NDArray[np.bool_]
) -> tuple[int, int, int, int]:
    """Of one text: words, continued ones, their tokens, words with an unknown one.

    Args:
        words: int64 [w, 2], what `_spans` gives.
        places: int64 [t, 2], those of each token, in order.
        unknown: bool [t].
    """
    real = places[:, 0] < places[:, 1]
    each = _overlapping(words, places[real])
    lost = _overlapping(words, places[real & unknown])
    return len(words), int((each > 1).sum()), int(each.sum()), int((lost > 0).sum())


def _overlapping(words: NDArray[np.int64], places: NDArray[np.int64]) -> NDArray[np.int64]:
    """int64 [w]: how many tokens overlap each word; neither begin nor end of tokens falls."""
    begun = np.searchsorted(places[:, 0], words[:, 1], "left")
    over = np.searchsorted(places[:, 1], words[:, 0], "right")
    found: NDArray[np.int64] = np.maximum(begun - over, 0)
    return found
