"""The contract of kinds of tasks: labels, head, encoding, loss, answers, metrics, defaults."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from corpusfit.core.errors import bad_setting
from corpusfit.core.settings import NoSettings
from corpusfit.embed.hardware import Hardware
from corpusfit.embed.prediction import Predictor
from corpusfit.evaluation.formats import Labeled
from corpusfit.evaluation.metrics import METRICS, from_counts
from corpusfit.evaluation.plan import EvaluatePlan, FinetunePlan, TaskPlan
from corpusfit.evaluation.points import POINTS
from corpusfit.evaluation.task import Examples, Task
from corpusfit.text.fields import label_of
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

    pools: ClassVar[bool] = True  # each selected state is the first of a row

    def _parts(self) -> Iterator[Any]:
        base = self.model.base_model
        yield getattr(base, "encoder", None)  # BERT's pooler follows in its base model
        yield base

    def _expected_and_hooked(
        self, inputs: dict[str, torch.Tensor]
    ) -> tuple[torch.Tensor, torch.Tensor]:
        import torch

        expected = self.model(**inputs).logits.flip(0)  # fails for a hook without effect
        at = torch.tensor([4, 0], device=self.model.device)
        return expected, self.logits(self.model, inputs, at)

    def _for_head(self, states: torch.Tensor) -> torch.Tensor:
        return states[:, None]  # each state is a row of its own

    def logits(self, call: Any, inputs: dict[str, Any], at: torch.Tensor) -> torch.Tensor:
        """Logits of texts, from their first tokens."""
        logits: torch.Tensor = self._call_with_hooks(call, inputs, at).logits
        return logits


_NUMBER = re.compile(r"-?\d+(\.\d+)?")
# A model that answers n examples: their answers, and the number of truncated examples; it calls the
# second argument with the number of examples answered since the last call, possibly fractional.
Answering = Callable[[Examples, Callable[[float], None]], tuple[list[Any], int]]
# The examples of `train`, `dev` and `test`, or of those that a task has.
Splits = dict[str, Labeled]
# A task's name, texts with labels by split, names of labels, and notes for the user.
Read = tuple[str, Mapping[str, Sequence[tuple[str, Any]]], tuple[str, ...], Sequence[str]]


class TaskType(ABC):
    """A kind of task: labels, head, loss, metrics. Stateless; defaults suit one label per text.

    To add a kind, add one file to `evaluation/tasks/`, named like the kind, with one `TaskType`.
    The command line, recipes, reports and contract tests find it there, and in other packages by
    entry points of the group `corpusfit.tasks`.

    An example has pieces (one text, or the words of a sentence), each with a label and an answer;
    an answer is a number, or an array for each piece.
    """

    forms: ClassVar[tuple[str, ...]] = ("rows",)
    """The formats that it reads (of `reading.FORMS`)."""
    conversations: ClassVar[bool] = False
    """Whether `task.loss_on` decides which part of a conversation it measures."""
    usual: ClassVar[bool] = False
    """Whether `task.kind = "auto"` is this kind where no kind claims the labels."""
    wants: ClassVar[str] = "a string, a whole number or a boolean"
    """What `parse` accepts, in words."""
    head: ClassVar[str] = "AutoModelForSequenceClassification"
    """The transformers auto class that opens a model with its head."""
    predictor: ClassVar[type[Predictor]] = FirstToken
    """How logits are computed at `places`."""
    metrics: ClassVar[tuple[str, ...]] = METRICS
    """Metrics, all stored; of every metric higher is better, so an error is negated."""
    unit: ClassVar[str] = POINTS
    """What a score is shown in: points (hundredths), or the unit of a negated error."""
    default_metric: ClassVar[str]
    """The default of `--metric`."""
    learns: ClassVar[bool] = True
    """Whether a model is fine-tuned, by a seed and train; otherwise it answers as it is."""
    group: ClassVar[str] = ""
    """The plan's group by which a model answers as it is, beside `settings`; may be none."""
    settings: ClassVar[type] = NoSettings
    """Its own settings, `task.NAME`: a frozen dataclass; fields with limits by `setting`."""
    answered: ClassVar[tuple[str, ...]] = ("dev", "test")
    """The splits that a model answers as it is."""
    doing: ClassVar[str] = "fine-tune"
    """What a model does, for the progress of a command."""
    truncation: ClassVar[str] = ""
    """What happens to texts that are too long, for a warning, where a model answers as it is."""
    probes: ClassVar[str] = ""
    """What a probe of a frozen model classifies: each `text`, each `word`, or nothing."""
    also_shown: ClassVar[tuple[str, ...]] = ()
    """Metrics that tables show beside the one that is compared."""
    finetuning: ClassVar[FinetunePlan] = FinetunePlan(
        epochs=5, learning_rate=3e-5, batch=8, warmup_steps=0.1, patience=0
    )
    """Defaults of the fine-tuning: for texts those of TADPOLE, section 4."""
    with_adapter: ClassVar[Mapping[str, Any]] = {}
    """Fields of `finetuning` that differ where an adapter is trained."""

    def unit_of(self, metric: str) -> str:
        """What a metric's score is shown in: `unit`, unless a kind has metrics of several."""
        return self.unit

    def __init__(self, kind: str) -> None:
        self.kind = kind  # its name

    def claims(self, labels: Sequence[object]) -> bool:
        """Whether these values of a label field, none missing, can only be of this kind."""
        return False

    def parse(self, value: object) -> list[Any] | None:
        """Parse an example's label field; None without a usable label.

        Args:
            value: as the format has it: a string, a number, a boolean, a list, or None.
        """
        fraction = isinstance(value, float) and value % 1
        label = "" if fraction else label_of(value)
        return [label] if label else None

    def read(self, location: str, plan: TaskPlan) -> Read | None:
        """Read a task that is in none of `forms`; None if its forms are read.

        Only `task.kind` names such a kind, as no format shows it.

        Raises:
            InputError: its texts cannot be read.
            UsageError: the location or a setting does not fit.
        """
        del location, plan
        return None

    def prepare(self, splits: Splits, names: Sequence[str]) -> tuple[Splits, list[str]]:
        """The splits with labels in one form, and notes for the user on what was converted.

        Args:
            splits: the splits, with labels as `parse` or a format gives them.
            names: names for label numbers, from 0, by the plan or the data set; may be empty.

        Raises:
            InputError: the labels have several forms.
            UsageError: the names do not fit.
        """
        return splits, []

    def labels(self, splits: Splits) -> tuple[tuple[str, ...], int]:
        """The names of all labels, those of train first, and the number of outputs of the head.

        Raises:
            InputError: nothing can be learned from the labels of train.
        """
        by_split = {split: labeled.different() for split, labeled in splits.items()}
        learned = self.learned(by_split["train"], len(splits["train"]))
        others = set.union(*by_split.values()) - set(learned)
        return (*learned, *in_order(others)), len(learned)

    def learned(self, labels: set[str], examples: int) -> list[str]:
        """The labels of train in order.

        Args:
            labels: the different labels of train.
            examples: number of training examples.

        Raises:
            InputError: nothing can be learned from them.
        """
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

    def metrics_of(self, labels: tuple[str, ...]) -> tuple[str, ...]:
        """The metrics that are defined for these labels."""
        return self.metrics

    def numbers(self, labels: Sequence[Any], number: Mapping[str, int]) -> list[float]:
        """Encode an example's labels for storage: as label numbers, or as values.

        Args:
            labels: labels of the example, from `parse` or a format.
            number: the number of every label.
        """
        return [number[label] for label in labels]

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

    def open_model(self, task: Task, plan: EvaluatePlan, hardware: Hardware) -> Answering:
        """Open a model that answers without fine-tuning; for kinds that do not learn only.

        Args:
            task: the task, with its training examples.
            plan: the model, and the settings of `group` and `settings`.
            hardware: device and precision.

        Raises:
            UsageError: the model is neither a folder nor a hub id, or a setting does not fit.
            ModelError: the model cannot be loaded, or cannot answer.
        """
        raise NotImplementedError(f"{self.kind} is learned")

    @abstractmethod
    def tally(
        self, labels: tuple[str, ...], examples: Examples, answers: NDArray[Any]
    ) -> NDArray[Any]:
        """Sums of each example, from which all metrics follow.

        Resampling draws and swaps whole examples, so their sums are the units of significance.

        Args:
            labels: names of the labels.
            examples: n examples.
            answers: [pieces, …], examples end to end.

        Returns:
            int64 or float64 [n, 3, k]: of gold and answer together, of the answer alone, and of
            gold alone.
        """

    def score(self, name: str, summed: NDArray[Any]) -> NDArray[np.float64]:
        """A metric of sums of tallies, numbers [..., 3, k]; returns float64 [...]."""
        return from_counts(name, summed)

    def measure(
        self, labels: tuple[str, ...], examples: Examples, answers: NDArray[Any]
    ) -> dict[str, float]:
        """Every metric by name; arguments and errors are those of `tally`."""
        summed = self.tally(labels, examples, answers).sum(0)
        return {name: float(self.score(name, summed)) for name in self.metrics_of(labels)}

    def constant(self, task: Task) -> dict[str, float]:
        """Test metrics of a constant answer, as a baseline; empty where that is meaningless."""
        return {}

    def signatures(self, labels: tuple[str, ...]) -> dict[str, str]:
        """Signature of each metric, such as sacreBLEU's; empty for most kinds."""
        return {}


def in_order(labels: Collection[str]) -> list[str]:
    """Sorted by value if all labels are numbers, otherwise as strings."""
    if all(map(_NUMBER.fullmatch, labels)):
        return sorted(labels, key=lambda label: (float(label), label))
    return sorted(labels)
