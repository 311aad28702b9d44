"""The contract of kinds of tasks that a model is fine-tuned for: head, places, loss, answers."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from corpusfit.core.errors import bad_setting
from corpusfit.embed.prediction import Predictor
from corpusfit.evaluation.contract import Splits, TaskType, in_order
from corpusfit.evaluation.plan import EvaluatePlan, FinetunePlan, TaskPlan, metric_of
from corpusfit.evaluation.task import Task
from corpusfit.evaluation.tasks import load
from corpusfit.labeled.formats import Labeled
from corpusfit.training.special_tokens import SpecialTokens

if TYPE_CHECKING:
    import torch


class FirstToken(Predictor):
    """The logits of texts from their first tokens, anywhere in a row.

    transformers' heads for texts read the first token of a row. A hook gives them the selected
    tokens as rows of their own, so texts can share a row. If the logits differ from the model's own
    (`hooked` is false; a head that averages, a decoder that reads the last token), a row holds one
    text.
    """

    selects_first: ClassVar[bool] = True

    def _parts(self) -> Iterator[Any]:
        base = self.model.base_model
        yield getattr(base, "encoder", None)  # BERT's pooler follows in its base model
        yield base

    def _expected_and_hooked(
        self, inputs: dict[str, torch.Tensor]
    ) -> tuple[torch.Tensor, torch.Tensor]:
        import torch

        expected = self.model(**inputs).logits.flip(0)  # differs from a hook without effect
        at = torch.tensor([4, 0], device=self.model.device)
        return expected, self.logits(self.model, inputs, at)

    def _for_head(self, states: torch.Tensor) -> torch.Tensor:
        return states[:, None]  # each state is a row of its own

    def logits(self, call: Any, inputs: dict[str, Any], at: torch.Tensor) -> torch.Tensor:
        """Logits of texts, from their first tokens."""
        logits: torch.Tensor = self._call_with_hooks(call, inputs, at).logits
        return logits


class LearnedTaskType(TaskType):
    """A kind of task that a model is fine-tuned for; defaults suit one label per text."""

    head: ClassVar[str] = "AutoModelForSequenceClassification"
    """The transformers auto class that opens a model with its head."""
    predictor: ClassVar[type[Predictor]] = FirstToken
    """How logits are computed at `places`."""
    probes: ClassVar[str] = ""
    """What a probe of a frozen model classifies: each `text`, each `word`, or nothing."""
    finetuning: ClassVar[FinetunePlan] = FinetunePlan(
        epochs=5, learning_rate=3e-5, batch=8, warmup_steps=0.1, patience=0
    )
    """Defaults of the fine-tuning: for texts those of TADPOLE, section 4."""
    with_adapter: ClassVar[Mapping[str, Any]] = {}
    """Fields of `finetuning` that differ where an adapter is trained."""

    def unlearnable(self, train: Labeled) -> str:
        """Why nothing can be learned from the labels of train, and a cure; empty if they can."""
        return ""

    def labels(self, splits: Splits) -> tuple[tuple[str, ...], int]:
        """The names of all labels, those of train first, and the number of outputs of the head."""
        by_split = {split: labeled.different() for split, labeled in splits.items()}
        learned = self.learned(by_split["train"])
        others = set.union(*by_split.values()) - set(learned)
        return (*learned, *in_order(others)), len(learned)

    def learned(self, labels: set[str]) -> list[str]:
        """The different labels of train in order."""
        return in_order(labels)

    def ordered(self, labels: tuple[str, ...], plan: TaskPlan) -> tuple[str, ...]:
        """Order the labels as the plan asks; a label's position is its number.

        Raises:
            UsageError: the plan's metric or positive label does not fit the labels.
        """
        if plan.positive:
            allowed = f"left out for {self.kind}"
            raise bad_setting("`task.positive`", allowed, plan.positive)
        return labels

    def places(
        self,
        words: Sequence[str],
        offsets: Sequence[tuple[int, int]],
        tokens: int,
        special: SpecialTokens,
    ) -> NDArray[np.int64]:
        """int64 [pieces]: the token that predicts each piece, or `encoding.NOWHERE`.

        Default: a text is predicted at its first token, or at its last if the tokenizer has no
        token before a text (Devlin et al. 2019, section 4.1).

        Args:
            words: pieces of an example, joined by spaces.
            offsets: begin and end of each token in the joined text; special tokens have none.
            tokens: number of tokens with special ones.
            special: the special tokens.
        """
        return np.array([0 if special.prefix else tokens - 1], np.int64)

    def targets(self, labels: Sequence[float]) -> NDArray[Any]:
        """[pieces, …]: the labels of one example in the form of the loss."""
        return np.asarray(labels, np.int64)

    def loss(self, logits: torch.Tensor, targets: torch.Tensor, task: Task) -> torch.Tensor:
        """The mean loss of m pieces.

        Args:
            logits: float32 [m, outputs].
            targets: [m, …], from `targets`.
            task: the task, with its training examples.
        """
        import torch

        return torch.nn.functional.cross_entropy(logits, targets)

    def answers(self, logits: torch.Tensor, task: Task) -> NDArray[Any]:
        """[m, …]: the answers to m pieces from their logits, float [m, outputs].

        A piece without a token is answered by 0, the first label.
        """
        likeliest: NDArray[Any] = logits.argmax(-1).cpu().numpy().astype(np.int32)
        return likeliest

    def settled(self, plan: EvaluatePlan, *, adapter: bool, max_length: int) -> EvaluatePlan:
        """The plan of an evaluation with this kind's defaults for what it leaves open."""
        start = dataclasses.replace(self.finetuning, **(self.with_adapter if adapter else {}))
        explicit = {name: value for name, value in vars(plan.finetune).items() if value is not None}
        finetune = dataclasses.replace(start, **explicit)
        length = min(finetune.length or max_length, max_length)
        finetune = dataclasses.replace(finetune, length=length)
        metric = metric_of(plan.task, self.kind)
        task = dataclasses.replace(plan.task, kind=self.kind, metric=metric)
        return dataclasses.replace(plan, finetune=finetune, task=task)


def load_learned(kind: str) -> LearnedTaskType:
    """The type of a kind of task that a model is fine-tuned for."""
    task_type = load(kind)
    if not isinstance(task_type, LearnedTaskType):
        raise TypeError(f"{kind} is not learned")
    return task_type
