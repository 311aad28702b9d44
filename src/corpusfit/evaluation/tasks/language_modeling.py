"""Language modeling: the bits that a causal model as it is needs for held-out text."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from corpusfit.embed.hardware import Hardware
from corpusfit.evaluation.contract import Answering, TaskType
from corpusfit.evaluation.likelihood import open_decoder
from corpusfit.evaluation.plan import EvaluatePlan
from corpusfit.evaluation.task import Examples, Task

_CONTEXT = 2_048


class LanguageModeling(TaskType):
    """Bits per byte of plain text: the negated log2-likelihood of all text by its bytes in UTF-8.

    An answer is the bits of a document. Bytes do not depend on the tokenizer, so models with
    different ones can be compared, unless a tokenizer changes the text (lower case, unknown words).
    The score is negated, so that higher is better.

    Reference: Gao et al. (2020), The Pile, section 3.1 (bits per byte).
    """

    forms = ("texts",)
    usual = True
    group = "likelihood"
    uses_train = False
    doing = "measure"
    metrics = ("neg_bits_per_byte",)
    unit = "bits per byte"
    default_metric = "neg_bits_per_byte"
    augmentations = ()

    def open_model(
        self, task: Task, plan: EvaluatePlan, seed: int, hardware: Hardware
    ) -> Answering:
        """Measure each document by itself, in consecutive windows; nothing is drawn."""
        decoder = open_decoder(plan.model.name, hardware, plan.likelihood.context, _CONTEXT)

        def answer(examples: Examples, on_done: Callable[[float], None]) -> tuple[list[Any], int]:
            windows = [
                list(decoder.windows(of_text)) for of_text in decoder.tokens(examples.texts())
            ]
            counts = np.array([len(of_text) for of_text in windows])
            owner = np.repeat(np.arange(len(windows)), counts)
            nats = decoder.log_likelihoods(
                list(chain.from_iterable(windows)),
                lambda numbers: on_done(float((1 / counts[owner[numbers]]).sum())),
            )
            bits = np.bincount(owner, nats, len(windows)) / -math.log(2)
            return bits.tolist(), 0

        return answer

    def tally(
        self, labels: tuple[str, ...], examples: Examples, answers: NDArray[Any]
    ) -> NDArray[np.float64]:
        """float64 [n, 3, 1]: the bits, nothing, and the bytes."""
        sums = np.zeros((len(examples), 3, 1))
        sums[:, 0, 0] = answers
        sums[:, 2, 0] = [len(text.encode("utf-8", "replace")) for text in examples.texts()]
        return sums

    def score(self, name: str, summed: NDArray[Any]) -> NDArray[np.float64]:
        return np.asarray(-summed[..., 0, 0] / summed[..., 2, 0], np.float64)
