"""Augment training examples: TF-IDF word replacement and back-translation."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from corpusfit.core.artifacts import remove, write_bytes
from corpusfit.core.engine import Job, Progress
from corpusfit.core.errors import bad_setting
from corpusfit.core.manifest import digest
from corpusfit.core.plan import CutPlan, size_for
from corpusfit.core.types import Documents, text_array
from corpusfit.embed.folders import ModelSetting
from corpusfit.embed.hardware import resolve_device
from corpusfit.embed.transformer import position_limit, quiet, token_batches
from corpusfit.evaluation.network import open_translator
from corpusfit.evaluation.plan import AugmentPlan
from corpusfit.evaluation.task import Examples, store_examples
from corpusfit.evaluation.tasks import load
from corpusfit.kernels.chance import place_keys, uniform, value_keys
from corpusfit.text.context import Machine
from corpusfit.text.reading import cut_units
from corpusfit.training.special_tokens import source_prefix

if TYPE_CHECKING:
    import torch

_STREAM = 2**41  # a random stream that nothing else draws from
# Texts per piece, minutes of work; another number changes the last bits of a draw.
TEXTS_PER_PIECE = 64


def write_augmented_examples(
    examples: Examples,
    plan: AugmentPlan,
    out: Path,
    *,
    kind: str,
    labels: Sequence[str],
    seed: int,
    device: str,
    machine: Machine,
) -> None:
    """Augment training examples; `load_examples` reads the result.

    Reference: Xie et al. (2019), Unsupervised Data Augmentation, section 2.2.
    """
    require_allowed(plan, kind)
    if plan.kind != "backtranslate":
        store_examples(replace_words(examples, plan, kind=kind, labels=labels, seed=seed), out)
        return
    texts = [text for pieces in examples.pieces for text in pieces]
    job = Backtranslate(plan.mt, plan.mt_back, plan.copies, seed, device)
    folder = out.with_suffix(".parts")
    # Pieces are stored under a digest of the models' names, so that a stopped command resumes; a
    # change of a model's files in between goes unnoticed.
    settings = dataclasses.asdict(job)
    pieces = []
    for first in range(0, len(texts), TEXTS_PER_PIECE):
        passage = tuple(texts[first : first + TEXTS_PER_PIECE])
        name = digest({**settings, "first": first, "texts": passage})
        pieces.append(Passage(passage, first, folder / f"{name}.json"))
    missing = [piece for piece in pieces if not piece.out.exists()]
    if missing:
        machine = machine.for_training(resolve_device(job.device, "finetune"))
        stage = machine.progress.showing("translate", sum(len(p.texts) for p in missing), "texts")
        with stage, machine.start() as engine:
            engine.require_shared(folder.parent, "`out`")
            for done in engine.map(job, missing):
                machine.progress.advance(done, done)
    translated = [text for piece in pieces for text in json.loads(piece.out.read_bytes())]
    store_examples(augment_examples(examples, translated, plan.copies), out)
    remove(folder)


def require_allowed(plan: AugmentPlan, kind: str) -> None:
    """Check that an augmentation method suits the kind of task."""
    allowed = load(kind).augmentations
    if plan.kind not in allowed:
        raise bad_setting(
            "`augment.kind`", f"{' or '.join(allowed)} for {kind}, or left out", plan.kind
        )


def augment_examples(examples: Examples, translated: Sequence[str], copies: int) -> Examples:
    """Augment n examples with paraphrases of their pieces (`backtranslate`)."""
    new, at = [], 0
    for pieces in examples.pieces:
        texts = list(translated[at : at + len(pieces) * copies])
        new += [texts[j::copies] for j in range(copies)]
        at += len(texts)
    return _with_labels(examples, new, copies)


def _with_labels(examples: Examples, pieces: list[list[str]], copies: int) -> Examples:
    return Examples(pieces, [list(labels) for labels in examples.labels for _ in range(copies)])


def replace_words(
    examples: Examples, plan: AugmentPlan, *, kind: str, labels: Sequence[str], seed: int
) -> Examples:
    """Augment training examples by TF-IDF word replacement (`tfidf`).

    Reference: Xie et al. (2019), Unsupervised Data Augmentation, section 2.2 and appendix (TF-IDF
    word replacement); TADPOLE, section 4.1 (Data-Aug).
    """
    # A replacement need not fit its context (as in the paper), and most replacements are rare
    # words. Words are counted as spelled, in the training examples alone. The score for being drawn
    # is the paper's freq(w) IDF(w); the published code sums TF-IDF over texts, which favors words
    # of short texts. Markers (`<e1>`, `[CITE]`, `@GENE$`) and punctuation are never replaced,
    # because in relation tasks they carry the label; text between words is kept exactly.
    fragments = load(kind).fragments(examples, labels)
    words = [[word for parts in example for word in parts[1::2]] for example in fragments]
    model = replacement_model(words, plan.share)
    m, through = len(model.probability), np.cumsum(model.drawn)
    new: list[list[str | None]] = []  # by copy, each word's replacement or None
    for copy in range(plan.copies):
        uniforms = uniform(place_keys(seed, _STREAM + copy, 2 * m))
        replacements: list[str | None] = [None] * m
        if m and through[-1] > 0:
            replaced = np.flatnonzero(uniforms[:m] < model.probability)
            draws = np.searchsorted(through, uniforms[m:][replaced] * through[-1], side="right")
            for i, word in zip(replaced.tolist(), draws.tolist(), strict=True):
                replacements[i] = model.words[word]
        new.append(replacements)
    # fill the replacements in; labels and the text between words stay
    pieces, begin = [], 0
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
    return _with_labels(examples, pieces, plan.copies)


@dataclass(frozen=True, eq=False)
class ReplacementModel:
    """Replacement probabilities of the words of n texts: m words, v distinct."""

    words: list[str]  # the v distinct words, sorted
    # float64 [m], probability that a word is replaced, texts end to end
    probability: NDArray[np.float64]
    # float64 [v], probability that a word is drawn as the replacement; all 0 if all words score the
    # same
    drawn: NDArray[np.float64]


def replacement_model(texts: Sequence[Sequence[str]], share: float) -> ReplacementModel:
    """Replacement probabilities (Xie et al. 2019, appendix on TF-IDF word replacement)."""
    # With TF the share of a word in its text, IDF = log(n / texts with the word), C the highest TF
    # IDF in a text and Z the mean of C - TF IDF over its words, the replacement probability of a
    # word is min(share (C - TF IDF) / Z, 1). With S = (occurrences) IDF, the probability of being
    # drawn is proportional to max S - S. If all words of a text have the same TF IDF, Z is 0 and
    # none is replaced.
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
    drawn = scores.max(initial=0.0) - scores
    total = drawn.sum()
    return ReplacementModel(
        words, np.minimum(probability, 1), drawn / total if total else np.zeros(len(words))
    )


# Sampling temperature (Xie et al. 2019); 0 takes the most likely token.
TEMPERATURE = 0.9
_THERE, _BACK = 2**42, 2**42 + 1  # streams of random numbers
_BUDGET = {"cpu": 2_048, "gpu": 32_768}  # tokens per batch
# a translation of n tokens has at most _MAX_RATIO * n + _EXTRA_TOKENS
_MAX_RATIO = 2
_EXTRA_TOKENS = 16


@dataclass(frozen=True, eq=False)
class BackTranslator:
    """Two sequence-to-sequence models: one translates into another language, one back.

    Reference: Xie et al. (2019), Unsupervised Data Augmentation, section 2.2 and appendix
    (back-translation; random sampling at temperature 0.9); TADPOLE, section 4.1.
    """

    # Tokens are sampled, because beam search gives one cautious translation. A token's random
    # number depends on the seed, its text, its copy and its position alone, so a translation does
    # not depend on the batch, except for rounding. Safetensors only, no code from the model's
    # folder. A multilingual model takes its languages from its folder (`forced_bos_token_id` in
    # generation_config.json, `src_lang` in tokenizer_config.json, `prefix` in config.json). Markers
    # in a text may get lost.

    there: _Translator  # model that translates into the other language
    back: _Translator  # model that translates back

    @classmethod
    def load(
        cls,
        mt: str,
        mt_back: str,
        *,
        temperature: float = TEMPERATURE,
        device: str = "auto",
        budget: int = 0,
    ) -> BackTranslator:
        return cls(
            _Translator.load("`augment.mt`", mt, device, temperature, budget),
            _Translator.load("`augment.mt_back`", mt_back, device, temperature, budget),
        )

    def translate(
        self, texts: Sequence[str], *, copies: int, seed: int, first: int = 0, progress: Progress
    ) -> list[str]:
        translated = [text for text in texts for _ in range(copies)]
        before, n = first * copies, len(translated)
        for translator, stream in ((self.there, _THERE), (self.back, _BACK)):
            keys = place_keys(seed, stream, before + n)[before:]
            translated = translator.translate(translated, keys, progress)
        return translated


@dataclass(frozen=True, eq=False)
class _Translator:
    """A translation model; `max_length` counts special tokens, `prefix` precedes each sentence."""

    model: Any
    tokenizer: Any
    max_length: int
    prefix: str
    temperature: float
    budget: int

    @classmethod
    def load(
        cls, setting: str, name: str, device: str, temperature: float, budget: int
    ) -> _Translator:
        named_by = ModelSetting(
            name=setting,
            allowed="a model folder or a Hugging Face hub id",
            otherwise="use `augment.kind=tfidf`",
            extra="train",
        )
        device = resolve_device(device, "finetune")
        model, tokenizer = open_translator(named_by, name)
        return cls(
            model.to(device).eval(),
            tokenizer,
            min(position_limit(model), tokenizer.model_max_length),
            source_prefix(model),
            temperature,
            budget or size_for(device, _BUDGET),
        )

    def translate(
        self, texts: list[str], keys: NDArray[np.uint64], progress: Progress
    ) -> list[str]:
        """Translate n texts, sentence by sentence, with their random keys, uint64 [n]."""
        sentences = [self._sentences(text) for text in texts]
        flat = [sentence for of_text in sentences for sentence in of_text]
        sentence_keys = [
            place_keys(int(key), 0, len(of_text))
            for key, of_text in zip(keys, sentences, strict=True)
        ]
        each = np.concatenate([np.empty(0, np.uint64), *sentence_keys])
        translated = self._all(flat, each, progress)
        joined, at = [], 0
        for of_text in sentences:
            joined.append("".join(translated[at : at + len(of_text)]))
            at += len(of_text)
        return joined

    def _sentences(self, text: str) -> list[str]:
        """A text's sentences with trailing white space; sentences that are too long are split."""
        if not text:
            return []
        one = Documents(np.zeros(1, np.int64), text_array([text]))
        # models are trained on sentences, and drop text from longer inputs
        cut = cut_units(one, CutPlan(unit="sentence", pieces=self.max_length))[1].to_pylist()
        return [part for sentence in cut for part in self._fitting(sentence)]

    def _fitting(self, text: str) -> list[str]:
        """Split a text until each piece fits the model, at a space near the middle if possible."""
        if len(text) < 2 or len(self._ids([text])[0]) <= self.max_length:
            return [text]
        half = len(text) // 2
        middle = text.rfind(" ", 1, half) + 1 or half
        return self._fitting(text[:middle]) + self._fitting(text[middle:])

    def _ids(self, texts: list[str]) -> list[list[int]]:
        prefixed = [self.prefix + text.strip() for text in texts]
        coded = self.tokenizer(prefixed, return_attention_mask=False, verbose=False)
        ids: list[list[int]] = coded["input_ids"]
        return ids

    def _all(self, texts: list[str], keys: NDArray[np.uint64], progress: Progress) -> list[str]:
        """Translate pieces, keeping their white space; pieces without a letter are not changed."""
        translated = list(texts)
        places = [i for i, text in enumerate(texts) if any(map(str.isalnum, text))]
        if not places:
            return translated
        ids = self._ids([texts[i] for i in places])
        lengths = np.fromiter(map(len, ids), np.int64, len(ids))
        progress.begin("translate", len(ids), "sentences")
        for batch in token_batches(lengths, self.budget):
            rows = [ids[i] for i in batch]
            indices = [places[i] for i in batch]
            for i, new in zip(indices, self._batch(rows, keys[indices]), strict=True):
                # white space around a sentence is kept as it was
                bare = texts[i].strip()
                translated[i] = texts[i].replace(bare, new.strip() or bare, 1)
            progress.advance(len(batch), len(batch))
        progress.end()
        return translated

    def _batch(self, rows: list[list[int]], keys: NDArray[np.uint64]) -> list[str]:
        import torch
        from transformers import LogitsProcessorList

        lengths = [len(row) for row in rows]
        ids = torch.nn.utils.rnn.pad_sequence(
            [torch.tensor(row, dtype=torch.long) for row in rows],
            batch_first=True,
            padding_value=self.tokenizer.pad_token_id,
        ).to(self.model.device)
        real = torch.tensor(lengths, device=ids.device)[:, None]
        mask = torch.arange(ids.shape[1], device=ids.device) < real
        max_new = [min(_MAX_RATIO * n + _EXTRA_TOKENS, self.max_length - 1) for n in lengths]
        draw = LogitsProcessorList(
            [TokenSampler(keys, self.temperature)] if self.temperature else []
        )
        with torch.inference_mode(), quiet():
            generated = self.model.generate(
                input_ids=ids,
                attention_mask=mask.long(),
                do_sample=False,
                num_beams=1,
                num_return_sequences=1,
                # some models force the end token at the last place, so there is one more
                max_new_tokens=max(max_new) + 1,
                logits_processor=draw,
            )
        new = [row[1 : 1 + n] for row, n in zip(generated.tolist(), max_new, strict=True)]
        decoded: list[str] = self.tokenizer.batch_decode(new, skip_special_tokens=True)
        return decoded


@dataclass(frozen=True, eq=False)
class TokenSampler:
    """Logits processor that samples a token with each row's own random number."""

    keys: NDArray[np.uint64]  # uint64 [rows], random key of each row
    temperature: float  # sampling temperature, above 0

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        """Scores [rows, vocabulary] given tokens [rows, n]: 0 for the sampled token, else -inf."""
        import torch

        number = uniform(value_keys(input_ids.shape[1], 0, self.keys))
        exact = scores.cpu() if scores.device.type == "mps" else scores  # mps has no float64
        through = torch.softmax(exact.double() / self.temperature, -1).cumsum(-1)
        drawn = torch.from_numpy(number).to(exact.device)[:, None] * through[:, -1:]
        token = torch.searchsorted(through, drawn, right=True).to(scores.device)
        return torch.full_like(scores, -torch.inf).scatter(1, token, 0.0)


@dataclass(frozen=True)
class Passage:
    """Texts that are translated together."""

    texts: tuple[str, ...]  # n texts
    first: int  # number of the first text in the task
    out: Path  # file of the translations: a JSON list of n * copies texts


@dataclass(frozen=True)
class Backtranslate(Job[Passage, int]):
    """Translate a passage to another language and back; returns the number of texts."""

    # Each worker loads two models and computes on one thread, so that rounding does not depend on
    # the number of workers.

    mt: str  # folder or hub id of the model that translates from the source language
    mt_back: str  # folder or hub id of the model that translates back to it
    copies: int  # number of translations of each text
    seed: int
    device: str  # that of `finetune`

    encodes = True  # two networks are loaded

    def start(self) -> Callable[[Passage], int]:
        models = BackTranslator.load(self.mt, self.mt_back, device=self.device)

        def work(piece: Passage) -> int:
            how = {"copies": self.copies, "seed": self.seed, "first": piece.first}
            translated = models.translate(piece.texts, **how, progress=Progress())
            write_bytes(piece.out, json.dumps(translated).encode())
            return len(piece.texts)

        return work
