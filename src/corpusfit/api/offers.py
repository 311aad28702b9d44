"""What each command offers: options of a plan, and how a caller writes them."""

from __future__ import annotations

import functools
import inspect
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Generic, ParamSpec, TypeVar

from corpusfit.api.bars import Bars, in_notebook
from corpusfit.api.logged import Logged
from corpusfit.core.engine.progress import Progress
from corpusfit.core.options import Setting, settings_of
from corpusfit.core.plan import Plan
from corpusfit.core.settings import Settings
from corpusfit.domains.plan import ClustersPlan
from corpusfit.evaluation.plan import EvaluatePlan
from corpusfit.evaluation.splitting.plan import SplitPlan
from corpusfit.training.plan import AdaptPlan
from corpusfit.tuning.plan import TunePlan

_P = ParamSpec("_P")
_R = TypeVar("_R")
_S = TypeVar("_S", bound=Settings)


@dataclass(frozen=True)
class Offer(Generic[_S]):
    """The options that a command offers: settings of a plan that have a word.

    Attributes:
        plan: the class of the plan.
        parts: groups of the plan, or single settings, in the order of `--help`.
        required: words that the command line requires.
        differs: fields of an `Option` that are different for this command, by word.
        aliases: words of the command's own for settings of the plan, by path.
    """

    plan: type[_S]
    parts: tuple[str, ...]
    required: tuple[str, ...] = ()
    differs: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    aliases: Mapping[str, str] = field(default_factory=dict)

    @cached_property
    def settings(self) -> dict[str, Setting]:
        """The settings by their words, in the order of `--help`."""
        every = settings_of(self.plan).items()
        found = {
            setting.option.word: setting
            for part in self.parts
            for path, setting in every
            if setting.option.word and f"{path}.".startswith(f"{part}.")
        }
        for word, other in self.differs.items():
            found[word] = replace(found[word], option=replace(found[word].option, **other))
        return found


def offers(offer: Offer[Any] | None = None) -> Callable[[Callable[_P, _R]], Callable[_P, _R]]:
    """Give a function of the API the keywords of a command.

    At run time the signature and the documentation list the keywords one by one; type checkers read
    them from `typed_options`.
    """

    def wrap(function: Callable[_P, _R]) -> Callable[_P, _R]:
        takes_machine = "machine" in inspect.signature(function).parameters

        @functools.wraps(function)
        def call(*args: _P.args, **keywords: _P.kwargs) -> _R:
            given = dict(keywords)
            if takes_machine:
                given["machine"] = speaking(given.get("machine"))
            return function(*args, **given)  # type: ignore[arg-type]

        if offer is not None:
            _list_keywords(call, inspect.signature(function), offer)
        return call

    return wrap


def speaking(machine: Any) -> Any:
    """A machine, or this one for None.

    Where it shows no progress of its own, messages go to the logger and to Python's warnings; a
    notebook also shows bars.
    """
    from corpusfit.text.context import Machine  # imports NumPy

    machine = machine or Machine()
    if type(machine.progress) is not Progress:
        return machine
    return replace(machine, progress=Bars() if in_notebook() else Logged())


def _list_keywords(call: Any, signature: inspect.Signature, offer: Offer[Any]) -> None:
    """Put each keyword in the place of `**options`."""
    *own, options = signature.parameters.values()
    listed = [
        inspect.Parameter(word, options.KEYWORD_ONLY, default=None, annotation=keyword_type(s))
        for word, s in offer.settings.items()
    ]
    call.__signature__ = signature.replace(parameters=[*own, *listed])
    helps = "".join(
        f"    {word}: {setting.option.help} (default: {setting.shown_default}).\n"
        for word, setting in offer.settings.items()
    )
    call.__doc__ = f"{inspect.getdoc(call)}\n\nOptions:\n{helps}"


def keyword_type(setting: Setting) -> str:
    """The type of a setting's keyword, as an annotation."""
    option, types = setting.option, [t for t in setting.types if t != "None"]
    if option.items is not None:
        item = option.items.__name__
        several = f"Sequence[{item}]"
        return " | ".join([*dict.fromkeys(("str", item)), several, "None"])
    if option.allowed:
        words = ", ".join(json.dumps(word) for word in option.allowed)
        types = [f"Literal[{words}]" if t == "str" else t for t in types]
    if option.metavar in ("FOLDER", "MODEL"):
        types.append("Path")
    return " | ".join([*types, "None"])


SCORE = Offer(
    Plan, ("method", "embed", "auto", "cascade", "cut", "read", "fit.target_field", "seed")
)
CHOOSE = Offer(Plan, ("choose",))
SELECT = Offer(
    Plan,
    ("method", "embed", "auto", "cascade", "choose", "cut", "read", "fit.target_field", "seed"),
)
RANK = Offer(Plan, ("embed", "cut", "read.text_field", "read.side", "fit.target_field", "seed"))
RETRIEVAL = Offer(Plan, ("seed",), aliases={"embed.embedder": "model"})
TOKENIZERS = Offer(Plan, ("read.text_field", "read.side", "seed"))
CONTAMINATION = Offer(Plan, ("read.text_field",))
DEMO = Offer(
    Plan,
    ("method", "embed", "seed"),
    differs={"method": {"default": "moore_lewis, or domain_classifier without the extra train"}},
)
CLUSTERS = Offer(
    ClustersPlan, ("mixture", "draw", "embed", "cut", "read.text_field", "read.side", "seed")
)
SPLIT = Offer(
    SplitPlan,
    (
        *("split", "read.text_field", "read.strict", "read.normalise", "read.max_words"),
        *("read.max_length_ratio", "seed"),
    ),
)
OVERLAPS = Offer(SplitPlan, ("split.near", "read.text_field"))
ADAPT = Offer(
    AdaptPlan,
    (
        *("model", "then_task", "mix", "objective", "weights", "train", "adapter"),
        *("read.text_field", "read.side", "read.normalise", "read.max_words"),
        *("read.max_length_ratio", "seed"),
    ),
)
FORECAST = Offer(
    AdaptPlan, ("model.name", "objective.name", "train.length", "seed"), required=("model",)
)
EVALUATE = Offer(
    EvaluatePlan,
    ("model", "task", "augment", "finetune", "decode", "likelihood", "seed"),
    required=("model",),
)
TUNE = Offer(
    TunePlan,
    (
        *("model.name", "search", "mix", "train", "objective.name", "adapter", "embed", "cut"),
        *("read.text_field", "fit.target_field", "seed"),
    ),
    required=("model",),
    differs={
        "model": {"help": "Model to adapt: a model folder or a Hugging Face hub id"},
        "rate": {"default": "3e-4 below 50 million weights, else 1e-4"},
        "steps": {
            "help": "Training steps with `train`",
            "default": "3 passes over the selection, at most 2,000 steps on a CPU and 50,000 on a "
            "GPU",
        },
        "epochs": {"help": "Passes over the selection with `train`"},
    },
)
