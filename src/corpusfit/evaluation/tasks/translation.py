"""Translation: a model that is not fine-tuned translates texts by beam search."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from corpusfit.core.errors import TrainingError, importing
from corpusfit.core.languages import USUAL, bleu_tokenizer
from corpusfit.embed.hardware import Hardware
from corpusfit.evaluation.contract import Answering, TaskType
from corpusfit.evaluation.network import MODEL_TO_EVALUATE, open_translator
from corpusfit.evaluation.plan import EvaluatePlan
from corpusfit.evaluation.task import Examples, Task
from corpusfit.training.decoding import translate
from corpusfit.training.schedule import naming_memory_errors

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
# sacreBLEU's defaults
_SEED = 12_345
_SHUFFLES = 10_000
_RESAMPLES = 1_000
# rounds that are summed at once, to bound the memory
_BLOCK = 500


class Translation(TaskType):
    """Translations of texts, scored by sacreBLEU's BLEU, chrF and chrF++.

    A model is not fine-tuned: it translates dev and test by beam search. An answer is a string, and
    so is the label, the reference. `labels` of a task are its languages, source first,
    and the tokenizer of BLEU if it is not 13a.

    Reference: Post (2018), A Call for Clarity in Reporting BLEU Scores; Popovic (2015, 2017) for
    chrF and chrF++; Koehn (2004) and Riezler and Maxwell (2005) for the paired tests.
    """

    forms = ("pairs",)
    usual = True
    group = "decode"
    doing = "translate"
    truncation = "Texts longer than the model's limit are translated in part"
    wants = "a string that is not blank"
    metrics = ("bleu", "chrf", "chrf++")
    default_metric = "bleu"
    also_shown = ("chrf",)

    def numbers(self, labels: Sequence[Any], number: Mapping[str, int]) -> list[Any]:
        return list(labels)

    def open_model(self, task: Task, plan: EvaluatePlan, hardware: Hardware) -> Answering:
        model, tokenizer = open_translator(MODEL_TO_EVALUATE, plan.model.name, hardware.precision)
        model.to(hardware.device)
        out_of_memory = TrainingError(
            f"Out of memory with {plan.decode.beam} beams. Set a smaller `decode.beam`."
        )

        def answer(examples: Examples, on_done: Callable[[float], None]) -> tuple[list[Any], int]:
            with naming_memory_errors(out_of_memory):
                translated = translate(
                    model, tokenizer, examples.texts(), plan.decode, on_done=on_done
                )
            return list(translated.texts), translated.truncated

        return answer

    def tally(
        self, labels: tuple[str, ...], examples: Examples, answers: NDArray[Any]
    ) -> NDArray[np.int64]:
        """Counts of sacreBLEU for each sentence."""
        bleu, chrf = _bleu(labels), _chrf(_WORDS)
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

    def paired_tests(self, ours: NDArray[Any], base: NDArray[Any]) -> dict[str, dict[str, float]]:
        """The paired bootstrap and approximate randomization of sacreBLEU, with its seed.

        Reference: `sacrebleu.significance` (its defaults: 1,000 resamples, 10,000 shuffles).
        """
        n = len(ours)
        drawn = np.random.default_rng(_SEED).choice(n, size=(_RESAMPLES, n), replace=True)
        draw_counts = np.zeros((_RESAMPLES, n), np.float32)
        np.add.at(draw_counts, (np.arange(_RESAMPLES)[:, None], drawn), 1)
        resampled = [_summed(draw_counts, tallies) for tallies in (ours, base)]
        sides = np.random.default_rng(_SEED).integers(2, size=(_SHUFFLES, n), dtype=bool)
        # a shuffle swaps the answers of both models to half of the sentences
        swapped_difference = _summed(sides, base - ours)
        shuffled = (ours.sum(0) + swapped_difference, base.sum(0) - swapped_difference)
        tests = {}
        for name in self.metrics:
            observed = abs(float(self.score(name, ours.sum(0)) - self.score(name, base.sum(0))))
            differences = np.abs(self.score(name, resampled[0]) - self.score(name, resampled[1]))
            swapped = np.abs(self.score(name, shuffled[0]) - self.score(name, shuffled[1]))
            tests[name] = {
                "p_bootstrap": _share(differences - differences.mean(), observed),
                "p_randomization": _share(swapped, observed),
            }
        return tests


def _bleu(labels: tuple[str, ...]) -> Any:
    """The BLEU of sacreBLEU, with the tokenizer of the target language."""
    with importing("A translation task", "train"):
        from sacrebleu.metrics import BLEU
    candidates = labels[2:] or [bleu_tokenizer(target, ()) for target in labels[1:]] or [USUAL]
    return BLEU(tokenize=candidates[0], force=True)


def _chrf(word_order: int) -> Any:
    with importing("A translation task", "train"):
        from sacrebleu.metrics import CHRF
    return CHRF(word_order=word_order)


def _bleu_of(summed: NDArray[np.float64]) -> NDArray[np.float64]:
    """BLEU of sums [..., 3, k], with exponential smoothing of precisions without a match."""
    correct, total = summed[..., 0, _BLEU], summed[..., 1, _BLEU]
    length, reference_length = summed[..., 1, _LENGTH], summed[..., 2, _LENGTH]
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


def _summed(weights: NDArray[Any], tallies: NDArray[Any]) -> NDArray[np.float64]:
    """[rounds, 3, k]: sums of the tallies [n, 3, k] with weights [rounds, n]."""
    rows = tallies.reshape(len(tallies), -1).astype(np.float64)
    blocks = [weights[at : at + _BLOCK] for at in range(0, len(weights), _BLOCK)]
    summed = np.concatenate([block.astype(np.float64) @ rows for block in blocks])
    return summed.reshape(len(weights), *tallies.shape[1:])


def _share(drawn: NDArray[np.float64], observed: float) -> float:
    """The share of differences that are larger, as sacreBLEU counts it."""
    return (int(np.count_nonzero(drawn > observed)) + 1) / (len(drawn) + 1)
