"""`augment`: more training examples for a task, by TF-IDF word replacement or back-translation.

Reference: Xie et al. (2019), Unsupervised Data Augmentation, section 2.2; TADPOLE, section 4.1
(Data-Aug).
"""

from __future__ import annotations

import dataclasses
import json
import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from corpusfit import EvaluatePlan
from corpusfit.contracts import (
    InputError,
    ModelSetting,
    bad_setting,
    place_keys,
    position_limit,
    read_task,
    resolve,
    seeded,
    write_bytes,
)
from corpusfit_papers.progress import bar
from corpusfit_papers.translation.models import open_sequence_model

TFIDF = "tfidf"
BACKTRANSLATE = "backtranslate"
KINDS = {
    **dict.fromkeys(("classification", "multilabel", "regression"), (TFIDF, BACKTRANSLATE)),
    "tagging": (TFIDF,),  # translation loses the words of the tags
}
"""The augmentations of each kind of task: those that keep the label."""

_STREAM = 2**41  # number of a random stream that nothing else uses
_TEMPERATURE = 0.9  # that of Xie et al.
_AT_ONCE = 32  # sentences in a batch; another number gives other translations
# a translation of n tokens has at most _MAX_RATIO * n + _EXTRA_TOKENS
_MAX_RATIO = 2
_EXTRA_TOKENS = 16
_SENTENCE_END = re.compile(r"((?<=[.!?])\s+)")


@dataclass(frozen=True)
class Augmentation:
    """How training examples are augmented.

    Attributes:
        kind: `tfidf` replaces uninformative words, `backtranslate` translates to another language
            and back.
        copies: number of augmented copies of each example.
        share: mean share of a text's words that `tfidf` replaces.
        mt: model that translates to another language, for `backtranslate`.
        mt_back: model that translates back.
    """

    kind: str = TFIDF
    copies: int = 1
    share: float = 0.3
    mt: str = ""
    mt_back: str = ""

    def __post_init__(self) -> None:
        """Raise `UsageError` for a value that is not allowed."""
        if self.kind not in (TFIDF, BACKTRANSLATE):
            raise bad_setting("`method`", f"one of {TFIDF}, {BACKTRANSLATE}", self.kind)
        if self.copies < 1:
            raise bad_setting("`copies`", "1 or more", self.copies)
        if not 0 < self.share < 1:
            raise bad_setting("`share`", "above 0 and below 1", self.share)
        models = bool(self.mt) + bool(self.mt_back)
        if models != (2 if self.kind == BACKTRANSLATE else 0):
            got = ", ".join(filter(None, (self.kind, self.mt, self.mt_back)))
            allowed = f"both given with {BACKTRANSLATE}, and left out without it"
            cure = "For example Helsinki-NLP/opus-mt-en-fr and Helsinki-NLP/opus-mt-fr-en."
            raise bad_setting("`mt` and `mt_back`", allowed, got, cure)


@dataclass(frozen=True)
class Augmented:
    """The result of `augment`."""

    path: Path  # folder of the task
    kind: str  # kind of the task
    examples: int  # number of training examples before
    added: int


def augment(
    *,
    task: str | PathLike[str],
    out: str | PathLike[str],
    method: str = TFIDF,
    copies: int = 1,
    share: float = 0.3,
    mt: str = "",
    mt_back: str = "",
    seed: int = 0,
    device: str = "auto",
    kind: str = "auto",
    text_field: str = "text",
    label_field: str = "label",
) -> Augmented:
    """Write a task with more training examples, for `corpusfit evaluate --task`.

    The training examples stay and their copies follow; dev and test stay as they are.

    Reference: Xie et al. (2019), Unsupervised Data Augmentation; TADPOLE, section 4.1.

    Args:
        task: as for `evaluate`.
        out: new or empty folder.
        method: `tfidf` replaces uninformative words by others; `backtranslate` adds paraphrases by
            two translation models.
        copies: number of augmented copies of each training example.
        share: mean share of a text's words that `tfidf` replaces.
        mt: model that translates to another language: a folder or a Hugging Face hub id.
        mt_back: model that translates back.
        seed: of the sampled words or tokens, and of splits that the task lacks.
        device: of the translation models.
        kind: kind of task, as for `evaluate`.
        text_field: field of the rows with the text.
        label_field: field of the rows with the label.

    Returns:
        The folder, the kind of task and the numbers of examples.
    """
    plan = Augmentation(method, copies, share, mt, mt_back)
    reading = {"kind": kind, "text_field": text_field, "label_field": label_field}
    folder = Path(out).expanduser()
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise bad_setting("`out`", "a new or empty folder", str(folder))
    read = EvaluatePlan().with_values({"task": reading}).task
    before = read_task(str(task), read, seed=seed)
    after = with_augmented(before, plan, seed=seed, device=device)
    for split in ("train", "dev", "test"):
        examples = getattr(after, split)
        rows = [
            _row(after, pieces, labels)
            for pieces, labels in zip(examples.pieces, examples.labels, strict=True)
        ]
        lines = (json.dumps(row, ensure_ascii=False) for row in rows)
        write_bytes(folder / f"{split}.jsonl", "".join(f"{line}\n" for line in lines).encode())
    n = len(before.train)
    return Augmented(folder, after.kind, n, len(after.train) - n)


def _row(task: Any, pieces: list[str], labels: list[Any]) -> dict[str, Any]:
    """An example as `evaluate` reads it."""
    if task.kind == "tagging":
        return {"text": pieces, "label": [task.labels[number] for number in labels]}
    label: Any = labels[0]
    if task.kind == "classification":
        label = task.labels[label]
    elif task.kind == "multilabel":
        label = [name for name, has in zip(task.labels, labels, strict=True) if has]
    return {"text": pieces[0], "label": label}


def with_augmented(task: Any, plan: Augmentation, *, seed: int, device: str) -> Any:
    """A task of `read_task` with its training examples followed by their augmented copies."""
    require_allowed(plan, task.kind)
    train = task.train
    if plan.kind == BACKTRANSLATE:
        pieces = paraphrases(train.texts(), plan, seed=seed, device=device)
    else:
        pieces = replace_words(task, plan, seed=seed)
    labels = [list(own) for own in train.labels for _ in range(plan.copies)]
    longer = type(train)([*train.pieces, *pieces], [*train.labels, *labels])
    return dataclasses.replace(task, train=longer)


def require_allowed(plan: Augmentation, kind: str) -> None:
    """Check that an augmentation suits the kind of task."""
    if kind not in KINDS:
        raise InputError(f"`task` must be one of {', '.join(KINDS)}; it is one of {kind}.")
    if plan.kind not in KINDS[kind]:
        raise bad_setting("`method`", f"{' or '.join(KINDS[kind])} for {kind}", plan.kind)


def replace_words(task: Any, plan: Augmentation, *, seed: int) -> list[list[str]]:
    """The pieces of all copies by TF-IDF word replacement, those of an example side by side.

    Reference: Xie et al. (2019), section 2.2 and appendix (TF-IDF word replacement).
    """
    # A replacement need not fit its context (as in the paper), and most replacements are rare
    # words. Words are counted as spelled, in the training examples alone. The score of a
    # replacement is the paper's freq(w) IDF(w); the published code sums TF-IDF over texts, which
    # favors words of short texts. Markers (`<e1>`, `[CITE]`, `@GENE$`) and punctuation are never
    # replaced, because in relation tasks they carry the label; text between words stays.
    fragments = fragments_of(task)
    words = [[word for parts in example for word in parts[1::2]] for example in fragments]
    model = replacement_model(words, plan.share)
    m = len(model.probability)
    through = np.cumsum(model.replacement_probability)
    new: list[list[str | None]] = []  # by copy, each word's replacement or None
    for copy in range(plan.copies):
        uniforms = _uniform(place_keys(seed, _STREAM + copy, 2 * m))
        replacements: list[str | None] = [None] * m
        if m and through[-1] > 0:
            replaced = np.flatnonzero(uniforms[:m] < model.probability)
            sampled = np.searchsorted(through, uniforms[m:][replaced] * through[-1], side="right")
            for i, word in zip(replaced.tolist(), sampled.tolist(), strict=True):
                replacements[i] = model.words[word]
        new.append(replacements)
    # fill the replacements in; the text between words stays
    pieces = []
    begin = 0
    for example in fragments:
        end = begin + sum(len(parts) // 2 for parts in example)
        for replacements in new:
            left = iter(replacements[begin:end])
            pieces.append(
                [
                    "".join((next(left) or part) if i % 2 else part for i, part in enumerate(parts))
                    for parts in example
                ]
            )
        begin = end
    return pieces


def _uniform(keys: NDArray[np.uint64]) -> NDArray[np.float64]:
    """float64 [n] in (0, 1), from keys."""
    return ((keys >> np.uint64(11)).astype(np.float64) + 0.5) / 2.0**53


def fragments_of(task: Any) -> list[list[list[str]]]:
    """Every piece of every training example, split: words to replace at odd positions."""
    if task.kind != "tagging":
        return [[split_words(text) for text in pieces] for pieces in task.train.pieces]
    outside = task.labels.index("O")
    return [
        [
            ["", word, ""] if label == outside and _LETTER.search(word) else [word]
            for word, label in zip(pieces, tags, strict=True)
        ]
        for pieces, tags in zip(task.train.pieces, task.train.labels, strict=True)
    ]


_LETTER = re.compile(r"[^\W_]")
_MARK = r"<[^<>\s]+>|\[[^\[\]\s]+\]|@[^@$\s]+\$"


@cache
def _parts() -> re.Pattern[str]:
    """A mark, which stays, or the group: a word with the signs, points and accents on it."""
    marks = (c for c in map(chr, range(0x300, 0x1E950)) if unicodedata.category(c) in ("Mn", "Mc"))
    # \w has no marks, so it cuts words of Hindi, Tamil, pointed Arabic and decomposed accents
    word = rf"[^\W_]+(?:[{''.join(marks)}\u200c\u200d]+[^\W_]*)*"
    return re.compile(f"{_MARK}|({word}(?:['’.-]{word})*)")


def split_words(text: str) -> list[str]:
    """Split a text into separators and words in turn; joining the parts restores the text."""
    parts = []
    at = 0
    for match in _parts().finditer(text):
        if match[1]:
            parts += [text[at : match.start()], match[1]]
            at = match.end()
    return [*parts, text[at:]]


@dataclass(frozen=True, eq=False)
class ReplacementModel:
    """Replacement probabilities of the words of n texts: m words, v distinct."""

    words: list[str]  # the v distinct words, sorted
    # float64 [m], probability that a word is replaced, texts end to end
    probability: NDArray[np.float64]
    # float64 [v], probability that a word is the replacement; all 0 if all words score the same
    replacement_probability: NDArray[np.float64]


def replacement_model(texts: Sequence[Sequence[str]], share: float) -> ReplacementModel:
    """Replacement probabilities (Xie et al. 2019, appendix on TF-IDF word replacement)."""
    # With TF the share of a word in its text, IDF = log(n / texts with the word), C the highest TF
    # IDF in a text and Z the mean of C - TF IDF over its words, the replacement probability of a
    # word is min(share (C - TF IDF) / Z, 1). With S = (occurrences) IDF, the probability of a
    # replacement is proportional to max S - S. If all words of a text have the same TF IDF, Z is 0
    # and none is replaced.
    words = sorted({word for text in texts for word in text})
    number = {word: i for i, word in enumerate(words)}
    ids = np.fromiter((number[word] for text in texts for word in text), np.int64)
    lengths = np.fromiter(map(len, texts), np.int64, len(texts))
    text = np.repeat(np.arange(len(texts)), lengths)
    size = max(1, len(words))
    # count each word once per text
    pairs, inverse, times = np.unique(text * size + ids, return_inverse=True, return_counts=True)
    within = np.bincount(pairs % size, minlength=len(words))
    idf = np.log(len(texts) / np.maximum(1, within))
    tfidf = times[inverse] / lengths[text] * idf[ids]
    probability = np.zeros(len(ids))
    filled = lengths > 0
    starts = (np.cumsum(lengths) - lengths)[filled]
    if len(starts):
        below = np.repeat(np.maximum.reduceat(tfidf, starts), lengths[filled]) - tfidf
        mean = np.repeat(np.add.reduceat(below, starts) / lengths[filled], lengths[filled])
        np.divide(share * below, mean, out=probability, where=mean > 0)
    scores = np.bincount(ids, minlength=len(words)) * idf
    likelier = scores.max(initial=0.0) - scores
    total = likelier.sum()
    return ReplacementModel(
        words, np.minimum(probability, 1), likelier / total if total else np.zeros(len(words))
    )


# Sampling temperature (Xie et al. 2019); 0 takes the most likely token.
@dataclass(frozen=True, eq=False)
class Translator:
    """A sequence-to-sequence model that translates sentences by sampling."""

    # Tokens are sampled, because beam search gives one cautious translation. A multilingual model
    # takes its languages from its folder (`forced_bos_token_id` in generation_config.json,
    # `src_lang` in tokenizer_config.json, `prefix` in config.json).
    model: Any
    tokenizer: Any

    @classmethod
    def load(cls, setting: str, name: str, device: str) -> Translator:
        """Open a model; raises `UsageError` or `ModelError` for what is none."""
        named_by = ModelSetting(
            name=setting,
            allowed="a model folder or a Hugging Face hub id",
            otherwise=f"use {TFIDF}",
            extra="models",
        )
        model, tokenizer = open_sequence_model(name, named_by, "Back-translation")
        plan = EvaluatePlan().with_value("finetune.device", device)
        return cls(model.to(resolve(plan.finetune, "finetune").device), tokenizer)

    def translate(self, texts: Sequence[str]) -> list[str]:
        """Translate texts sentence by sentence; white space between sentences stays."""
        split = [_SENTENCE_END.split(text) for text in texts]
        # a part without a letter is white space or punctuation
        places = [
            (i, j)
            for i, parts in enumerate(split)
            for j, part in enumerate(parts)
            if any(map(str.isalnum, part))
        ]
        # sentences of similar length are translated together
        places.sort(key=lambda place: len(split[place[0]][place[1]]))
        starts = range(0, len(places), _AT_ONCE)
        for start in bar(starts, "translate"):
            batch = places[start : start + _AT_ONCE]
            new = self._batch([split[i][j].strip() for i, j in batch])
            for (i, j), sentence in zip(batch, new, strict=True):
                bare = split[i][j].strip()
                split[i][j] = split[i][j].replace(bare, sentence.strip() or bare, 1)
        return ["".join(parts) for parts in split]

    def _batch(self, sentences: list[str]) -> list[str]:
        import torch

        prefix = getattr(self.model.config, "prefix", None) or ""  # as T5's
        limit = min(position_limit(self.model), self.tokenizer.model_max_length)
        inputs = self.tokenizer(
            [prefix + sentence for sentence in sentences],
            return_tensors="pt",
            padding=True,
            truncation=True,
            max_length=limit,
            return_token_type_ids=False,
        ).to(self.model.device)
        longest = inputs["input_ids"].shape[1]
        with torch.inference_mode():
            generated = self.model.generate(
                **inputs,
                do_sample=True,
                temperature=_TEMPERATURE,
                top_k=0,
                num_beams=1,
                max_new_tokens=min(_MAX_RATIO * longest + _EXTRA_TOKENS, limit - 1),
            )
        decoded: list[str] = self.tokenizer.batch_decode(generated, skip_special_tokens=True)
        return decoded


def open_translators(plan: Augmentation, device: str) -> list[Translator]:
    """The models that translate there and back."""
    return [Translator.load(f"`{name}`", getattr(plan, name), device) for name in ("mt", "mt_back")]


def paraphrases(
    texts: Sequence[str], plan: Augmentation, *, seed: int, device: str
) -> list[list[str]]:
    """The pieces of all copies by back-translation, those of a text side by side.

    Reference: Xie et al. (2019), section 2.2 and appendix (back-translation; random sampling at
    temperature 0.9). Markers in a text may get lost.
    """
    translated = [text for text in texts for _ in range(plan.copies)]
    translators = open_translators(plan, device)
    with seeded(seed):
        for translator in translators:
            translated = translator.translate(translated)
    return [[text] for text in translated]
