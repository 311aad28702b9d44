"""Translation: a model that is not fine-tuned translates texts by beam search."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from corpusfit.contracts import AnsweredTaskType, UsageError, setting
from corpusfit_papers.translation.models import open_translator, translate
from corpusfit_papers.translation.reading import read_splits

# orders of BLEU's n-grams, and of the n-grams of characters and of words in chrF and chrF++
_ORDERS = 4
_CHARACTERS = 6
_WORDS = 2
_BETA_SQUARED = 2**2
# The columns of a tally are BLEU's n-grams, the length, and the n-grams of chrF and chrF++. Its
# three rows are the matches, the translation and the reference.
_BLEU = slice(0, _ORDERS)
_LENGTH = _ORDERS
_CHRF = {
    "chrf": slice(_LENGTH + 1, _LENGTH + 1 + _CHARACTERS),
    "chrf++": slice(_LENGTH + 1, _LENGTH + 1 + _CHARACTERS + _WORDS),
}
_CHINESE = ("zh", "zho", "chi", "cmn", "yue")
_UNSPACED = (
    "ja",
    "jpn",
    "ko",
    "kor",
    "th",
    "tha",
    "lo",
    "lao",
    "km",
    "khm",
    "my",
    "mya",
    "bo",
    "bod",
)


@dataclass(frozen=True)
class TranslationSettings:
    """The settings of the kind of task `translation`.

    Attributes:
        direction: Languages, source first, such as `de-en`: the endings of the task's files, or
            the columns of its .tsv (default: from the names in pair:…).
        num_beams: Number of beams (default: 5).
        max_new_tokens: Most tokens of a translation, including its end token (default: 100).
        length_penalty: Exponent of the length that divides a translation's log probability
            (default: 1.0).

    Reference: Aharoni and Goldberg (2020), appendix A.1.
    """

    direction: str = ""
    num_beams: int = setting(5, above=0)
    max_new_tokens: int = setting(100, above=0)
    length_penalty: float = 1.0


class Translation(AnsweredTaskType):
    """Translations of texts, scored by sacreBLEU's BLEU, chrF and chrF++.

    A model is not fine-tuned: it translates test by `generate` of transformers. An answer is a
    string, and so is the label, the reference. `labels` of a task are its languages, source first.

    Reference: Post (2018), A Call for Clarity in Reporting BLEU Scores; Popovic (2015, 2017) for
    chrF and chrF++.
    """

    forms = ()
    settings = TranslationSettings
    answered = ("test",)
    doing = "translate"
    truncation = "Texts longer than the model's limit are translated in part"
    metrics = ("bleu", "chrf", "chrf++")
    default_metric = "bleu"
    also_shown = ("chrf",)

    def read(self, location: str, plan: Any) -> Any:
        return read_splits(location, plan.own.direction)

    def numbers(self, labels: Sequence[Any], number: Mapping[str, int]) -> list[Any]:
        return list(labels)

    def open_model(self, task: Any, plan: Any, hardware: Any, setting: Any) -> Any:
        import torch

        model, tokenizer = open_translator(plan.model.name)
        half = hardware.precision == "bf16"
        model.to(hardware.device, torch.bfloat16 if half else torch.float32)
        how = asdict(plan.task.own)
        del how["direction"]

        def answer(examples: Any, on_done: Callable[[float], None]) -> tuple[list[Any], int]:
            translated = translate(model, tokenizer, examples.texts(), **how, on_done=on_done)
            return translated.texts, translated.truncated

        return answer

    def tally(
        self, labels: tuple[str, ...], examples: Any, answers: NDArray[Any]
    ) -> NDArray[np.int64]:
        """Counts of sacreBLEU for each sentence."""
        bleu = _bleu(labels)
        chrf = _chrf(_WORDS)
        sums = np.zeros((len(examples), 3, _CHRF["chrf++"].stop), np.int64)
        if not len(examples):
            return sums
        references = [[str(labels_of[0]) for labels_of in examples.labels]]
        answered = [str(answer) for answer in answers]
        statistics = np.array(bleu._extract_corpus_statistics(answered, references), np.int64)
        # sacreBLEU lists both lengths, then the matches and the totals by order
        sums[:, 1, _LENGTH] = statistics[:, 0]
        sums[:, 2, _LENGTH] = statistics[:, 1]
        sums[:, 0, _BLEU] = statistics[:, 2 : 2 + _ORDERS]
        sums[:, 1, _BLEU] = statistics[:, 2 + _ORDERS :]
        grams = np.array(chrf._extract_corpus_statistics(answered, references), np.int64)
        # of chrF it lists the translation's, the reference's and the matching n-grams of each order
        sums[:, 0, _CHRF["chrf++"]] = grams[:, 2::3]
        sums[:, 1, _CHRF["chrf++"]] = grams[:, 0::3]
        sums[:, 2, _CHRF["chrf++"]] = grams[:, 1::3]
        return sums

    def score(self, name: str, summed: NDArray[Any]) -> NDArray[np.float64]:
        """BLEU, chrF or chrF++ in [0, 1], from sums of `tally`."""
        summed = np.asarray(summed, np.float64)
        return _bleu_of(summed) if name == "bleu" else _chrf_of(summed[..., _CHRF[name]])

    def signatures(self, labels: tuple[str, ...]) -> dict[str, str]:
        metrics = (_bleu(labels), _chrf(0), _chrf(_WORDS))
        for metric in metrics:
            metric.num_refs = 1
        return {n: str(m.get_signature()) for n, m in zip(self.metrics, metrics, strict=True)}


def _bleu(labels: tuple[str, ...]) -> Any:
    """The BLEU of sacreBLEU, with the tokenizer of the target language.

    That of sacreBLEU for Chinese, and characters for other languages without spaces and Korean,
    because their own tokenizers need further libraries.

    Reference: Post (2018), A Call for Clarity in Reporting BLEU Scores.
    """
    language = re.split("[-_]", labels[1].lower())[0] if len(labels) > 1 else ""
    tokenizer = "zh" if language in _CHINESE else "char" if language in _UNSPACED else "13a"
    return _metrics().BLEU(tokenize=tokenizer, force=True)


def _chrf(word_order: int) -> Any:
    return _metrics().CHRF(word_order=word_order)


def _metrics() -> Any:
    """The metrics of sacreBLEU."""
    try:
        from sacrebleu import metrics
    except ImportError as e:
        cure = "pip install 'corpusfit-papers[translation]'"
        raise UsageError(f"A translation task needs sacreBLEU: {cure}") from e
    return metrics


def _bleu_of(summed: NDArray[np.float64]) -> NDArray[np.float64]:
    """BLEU of sums [..., 3, k], with exponential smoothing of precisions without a match."""
    correct = summed[..., 0, _BLEU]
    total = summed[..., 1, _BLEU]
    length = summed[..., 1, _LENGTH]
    reference_length = summed[..., 2, _LENGTH]
    missed = (correct == 0) & (total > 0)
    smooth = 2.0 ** np.cumsum(missed, -1)
    counts = np.where(missed, 1 / smooth, correct)
    precision = counts / np.where(total > 0, total, 1)
    with np.errstate(divide="ignore"):
        logs = np.log(precision).mean(-1)
    brevity = np.minimum(0.0, 1 - reference_length / np.where(length > 0, length, 1))
    any_match = (correct > 0).any(-1) & (length > 0)
    return np.asarray(np.where(any_match, np.exp(logs + brevity), 0.0), np.float64)


def _chrf_of(grams: NDArray[np.float64]) -> NDArray[np.float64]:
    """The F-score of mean precision and recall over the orders that occur, [..., 3, orders]."""
    match, answer, gold = (grams[..., row, :] for row in range(3))
    occurs = (answer > 0) & (gold > 0)
    orders = np.maximum(occurs.sum(-1), 1)
    precision, recall = (
        np.where(occurs, match / np.where(occurs, total, 1), 0.0).sum(-1) / orders
        for total in (answer, gold)
    )
    both = _BETA_SQUARED * precision + recall
    score = (1 + _BETA_SQUARED) * precision * recall / np.where(both > 0, both, 1)
    return np.asarray(score, np.float64)
