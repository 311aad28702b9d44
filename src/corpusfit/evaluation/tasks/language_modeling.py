"""Language modeling: the bits that a causal model as it is needs for held-out text."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable, Mapping, Sequence
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from corpusfit.core.errors import InputError
from corpusfit.embed.folders import ModelSetting
from corpusfit.embed.hardware import Hardware
from corpusfit.evaluation.answered import AnsweredTaskType, Answering
from corpusfit.evaluation.likelihood import folder_of, open_decoder, open_tokenizer
from corpusfit.evaluation.plan import EvaluatePlan
from corpusfit.evaluation.task import Examples, Task
from corpusfit.text.rejects import RefusedError
from corpusfit.training.adapter import model_under
from corpusfit.training.chats import ChatEncoder, Chats, conversation_in, no_template
from corpusfit.training.special_tokens import special_tokens_of

_CONTEXT = 2_048


class LanguageModeling(AnsweredTaskType):
    """Bits per byte of plain text: the negated log2-likelihood of all text by its bytes in UTF-8.

    An answer is the bits of a document. Bytes do not depend on the tokenizer, so models with
    different ones can be compared, unless a tokenizer changes the text (lower case, unknown words).
    The score is negated, so that higher is better.

    With `task.loss_on`, the tokens are those of training (`ChatEncoder`), and the bits and bytes
    are of what the loss is on; what marks the end of a turn has bits, too.

    Reference: Gao et al. (2020), The Pile, section 3.1 (bits per byte).
    """

    forms = ("texts",)
    conversations = True
    usual = True
    group = "likelihood"
    doing = "measure"
    metrics = ("neg_bits_per_byte",)
    unit = "bits per byte"
    default_metric = "neg_bits_per_byte"

    def open_model(
        self, task: Task, plan: EvaluatePlan, hardware: Hardware, setting: ModelSetting
    ) -> Answering:
        """Measure each document by itself, in consecutive windows; nothing is random."""
        encode = _conversation_encoder(plan, setting) if plan.task.loss_on else None
        if encode is not None:  # what is refused is said before the model is loaded
            encode(task.dev)
            encode(task.test)
        context = plan.likelihood.context
        decoder = open_decoder(plan.model.name, hardware, context, _CONTEXT, setting)

        def answer(examples: Examples, on_done: Callable[[float], None]) -> tuple[list[Any], int]:
            if encode is not None:
                tokens = encode(examples)
            else:
                begins = [False] * len(decoder.start)
                tokens = [
                    ([*decoder.start, *ids], np.array(begins + [True] * len(ids)))
                    for ids in decoder.tokens(examples.texts())
                ]
            windows = [list(decoder.windows(ids, counted)) for ids, counted in tokens]
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
        texts = examples.texts()
        # the label of a conversation is its number of bytes
        sums[:, 2, 0] = [
            label[0] if label else len(text.encode("utf-8", "replace"))
            for text, label in zip(texts, examples.labels, strict=True)
        ]
        return sums

    def numbers(self, labels: Sequence[Any], number: Mapping[str, int]) -> list[float]:
        return list(labels)

    def score(self, name: str, summed: NDArray[Any]) -> NDArray[np.float64]:
        return np.asarray(-summed[..., 0, 0] / summed[..., 2, 0], np.float64)


def _conversation_encoder(
    plan: EvaluatePlan, setting: ModelSetting
) -> Callable[[Examples], list[tuple[Sequence[int], NDArray[np.bool_]]]]:
    """Open what encodes rows as in training: ids with all special tokens, and which are counted.

    Raises:
        ModelError: the model has no chat template and a row is a conversation, or the assistant's
            turns cannot be found in what it writes.
        InputError: the template refuses conversations.
    """
    name = plan.model.name
    loss_on = plan.task.loss_on
    field = plan.task.text_field
    tokenizer = open_tokenizer(name, setting)
    special = special_tokens_of(tokenizer, name, sys.maxsize, setting.name)
    # longer ones are not cut as in training, but read in windows
    chats = Chats(loss_on, sys.maxsize, special.prefix)
    folder = model_under(folder_of(name, setting))
    encoder = ChatEncoder(folder, chats, special.end, setting.name, "task")

    def encode(examples: Examples) -> list[tuple[Sequence[int], NDArray[np.bool_]]]:
        encoded: list[tuple[Sequence[int], NDArray[np.bool_]]] = []
        refused: list[str] = []
        for text in examples.texts():
            row = json.loads(text)
            if not tokenizer.chat_template and conversation_in(row["fields"], field):
                raise no_template(name, f"task.loss_on={loss_on}", setting.name)
            try:
                tokens = encoder.encode(row["text"], row["fields"], field)
            except RefusedError as e:
                refused.append(f"{row['text'][:60]!r}: {e}")
            else:
                encoded.append((tokens.ids, tokens.counted))
        if refused:
            raise InputError(
                f"`task`: {name} cannot be measured on {len(refused):,} of {len(examples):,} "
                f"conversations, such as {refused[0]}. Remove them from the task, so that all "
                "models are measured on the same ones."
            )
        return encoded

    return encode
