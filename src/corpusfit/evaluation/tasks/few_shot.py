"""Few-shot classification: the likeliest label after a prompt, of a causal model as it is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from corpusfit.core.errors import bad_setting
from corpusfit.embed.hardware import Hardware
from corpusfit.evaluation.contract import Answering
from corpusfit.evaluation.likelihood import Decoder, TokenSequence, open_decoder
from corpusfit.evaluation.plan import EvaluatePlan
from corpusfit.evaluation.task import Examples, Task
from corpusfit.evaluation.tasks.classification import Classification
from corpusfit.kernels.chance import place_keys

_DRAWN = 2  # a random stream other than those of `nested_places` and missing splits


class FewShot(Classification):
    """A class of a text, answered without training.

    The prompt has a few training examples, drawn by the random seed and the same for all texts,
    then the text. The answer is the label with the highest log-likelihood by bytes of its text.

    Reference: Brown et al. (2020), Language Models are Few-Shot Learners, section 2.4; Gao et al.
    (2021), whose `acc_bytes` is this accuracy.
    """

    usual = False
    group = "likelihood"
    doing = "answer"
    truncation = "Prompts longer than the model's limit lose their beginning"
    augmentations = ()

    def open_model(
        self, task: Task, plan: EvaluatePlan, seed: int, hardware: Hardware
    ) -> Answering:
        shots, n = plan.likelihood.shots, len(task.train)
        if shots > n:
            allowed = f"0 to {n:,}, the number of training examples"
            raise bad_setting("`likelihood.shots`", allowed, shots)
        drawn = np.argsort(place_keys(seed, _DRAWN, n), kind="stable")[:shots]
        shown = task.train.take(drawn.tolist())
        labels = task.labels[: task.learnable]
        before = "".join(
            f"{plan.likelihood.begun(text)}{labels[number]}\n\n"
            for text, (number,) in zip(shown.texts(), shown.labels, strict=True)
        )
        sizes = np.array([len(label.encode("utf-8", "replace")) for label in labels])
        decoder = open_decoder(plan.model.name, hardware, plan.likelihood.context)

        def answer(examples: Examples, on_done: Callable[[float], None]) -> tuple[list[Any], int]:
            prompts = [before + plan.likelihood.begun(text) for text in examples.texts()]
            encoded = [_sequences(decoder, prompt, labels) for prompt in prompts]
            nats = decoder.log_likelihoods(
                [sequence for of_prompt, _ in encoded for sequence in of_prompt],
                lambda numbers: on_done(len(numbers) / len(labels)),
            )
            # longer labels are less likely, so a label counts by its bytes
            answers = (nats.reshape(-1, len(labels)) / sizes).argmax(1)
            return answers.tolist(), sum(cut for _, cut in encoded)

        return answer


def _sequences(
    decoder: Decoder, prompt: str, labels: tuple[str, ...]
) -> tuple[list[TokenSequence], bool]:
    """The prompt followed by each label, and whether a prompt was truncated."""
    # Prompt and label are tokenised together; white space at the end of the prompt is the label's.
    begin = prompt.rstrip()
    rest = prompt[len(begin) :]
    alone, *whole = decoder.tokens([begin, *(f"{begin}{rest}{label}" for label in labels)])
    ids = [[*decoder.special.prefix, *sequence] for sequence in whole]
    sizes = [max(1, len(sequence) - len(alone)) for sequence in whole]
    if max(sizes) > decoder.context:
        allowed = f"{max(sizes)} or more, the tokens of a label"
        raise bad_setting("`likelihood.context`", allowed, decoder.context)
    max_tokens = decoder.context + 1
    cut = []
    for sequence, size in zip(ids, sizes, strict=True):
        kept = sequence[-max_tokens:]
        cut.append((kept, np.arange(len(kept) - size, len(kept))))
    return cut, any(len(sequence) > max_tokens for sequence in ids)
