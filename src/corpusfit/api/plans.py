"""Plans from the options of the command line or the keywords of the API."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

from corpusfit.adapt.plan import TASK, AdaptPlan
from corpusfit.adapt.presets import preset as preset_of
from corpusfit.errors import bad_setting
from corpusfit.evaluate.plan import EvaluatePlan
from corpusfit.explore.plan import ClustersPlan
from corpusfit.plan import Plan
from corpusfit.score.names import require
from corpusfit.settings import Settings
from corpusfit.workflows.tuning.plan import TunePlan

Inputs: TypeAlias = str | Path | Sequence[str | Path]

_WORDS = {
    "method": "method.name",
    "fraction": "choose.fraction",
    "segments": "choose.segments",
    "tokens": "choose.tokens",
    "threshold": "choose.threshold",
    "weights": "choose.policy",
    "balance": "choose.balance",
    "clusters": "choose.clusters",
    "embedder": "embed.embedder",
    "budget": "auto.budget",
    "cascade": "cascade.stages",
    "recall": "cascade.recall",
    "unit": "cut.unit",
    "text_field": "read.text_field",
    "strict": "read.strict",
    "seed": "seed",
}
"""The keywords of a selection and their settings in the plan; `settings` sets the others."""


_ADAPT_WORDS = {
    "model": "model.name",
    "init": "model.init",
    "new_head": "model.new_head",
    "objective": "objective.name",
    "whole_word": "objective.whole_word",
    "weights": "weights.policy",
    "replay_share": "mix.replay_share",
    "steps": "train.steps",
    "epochs": "train.epochs",
    "batch": "train.batch",
    "length": "train.length",
    "rate": "train.rate",
    "adapter": "adapter.kind",
    "then_task": "then_task.on",
    "text_field": "read.text_field",
    "seed": "seed",
}
"""The keywords of an adaptation and their settings."""

_EVALUATE_WORDS = {
    "model": "model.name",
    "adapter": "model.adapter",
    "metric": "task.metric",
    "text_field": "task.text_field",
    "label_field": "task.label_field",
    "epochs": "finetune.epochs",
    "rate": "finetune.rate",
    "batch": "finetune.batch",
    "length": "finetune.length",
    "augment": "augment.kind",
    "mt": "augment.mt",
    "mt_back": "augment.mt_back",
    "seed": "seed",
}
"""The keywords of an evaluation and their settings."""


_CLUSTERS_WORDS = {
    "k": "mixture.k",
    "components": "mixture.components",
    "baselines": "mixture.baselines",
    "sample": "draw.sample",
    "per_source": "draw.per_source",
    "truth": "draw.truth",
    "embedder": "embed.embedder",
    "unit": "cut.unit",
    "text_field": "read.text_field",
    "seed": "seed",
}
"""The keywords of a clustering and their settings."""

_TUNE_WORDS = {
    "model": "model.name",
    "budget": "search.budget",
    "methods": "search.methods",
    "fractions": "search.fractions",
    "weights": "search.weights",
    "then_task": "search.then_task",
    "objective": "objective.name",
    "replay_share": "mix.replay_share",
    "steps": "train.steps",
    "epochs": "train.epochs",
    "batch": "train.batch",
    "length": "train.length",
    "rate": "train.rate",
    "adapter": "adapter.kind",
    "embedder": "embed.embedder",
    "unit": "cut.unit",
    "text_field": "read.text_field",
    "seed": "seed",
}
"""The keywords of a tuning and their settings."""

_P = TypeVar("_P", bound=Settings)


def build_plan(plan: Plan | Path | str | None, settings: Sequence[str], **words: Any) -> Plan:
    """A selection's plan: a plan or a TOML file, changed by keywords, then by `a.b=c` settings.

    Raises:
        UsageError: a keyword or a setting does not exist, or its value is not allowed.
    """
    built = _built(Plan(), _WORDS, plan, settings, words).check()
    require(built.method.name)
    return built


def build_adapt_plan(
    plan: AdaptPlan | Path | str | None,
    settings: Sequence[str],
    preset: str | None,
    data: Inputs,
    **words: Any,
) -> AdaptPlan:
    """An adaptation's plan: a preset, changed as in `build_plan`.

    Training on the task's own texts has the preset `tapt` (Gururangan et al. 2020, Don't Stop
    Pretraining) unless another is named.

    Raises:
        UsageError: as `build_plan`; there is no such preset.
    """
    if preset and isinstance(plan, AdaptPlan):
        cure = "Leave out preset, or pass settings in place of the plan."
        raise bad_setting("preset", "left out with a plan", preset, cure)
    asked = _built(AdaptPlan(), _ADAPT_WORDS, plan, settings, words)
    preset = preset or ("tapt" if listed(data) == [TASK] else None)
    if preset:
        start = AdaptPlan()
        for path, value in preset_of(preset, asked.weights.policy).items():
            start = start.with_value(path, value)
        if asked.train.steps is not None or asked.train.epochs is not None:
            start = start.with_value("train.steps", None).with_value("train.epochs", None)
        asked = _built(start, _ADAPT_WORDS, plan, settings, words)
    return asked.check()


def build_evaluate_plan(
    plan: EvaluatePlan | Path | str | None, settings: Sequence[str], **words: Any
) -> EvaluatePlan:
    """An evaluation's plan; raises as `build_plan`, and without a model."""
    built = _built(EvaluatePlan(), _EVALUATE_WORDS, plan, settings, words).check()
    if not built.model.name:
        allowed = "a model folder, an adapter's folder or a Hugging Face hub id"
        raise bad_setting("--model", allowed, "nothing", "For example --model bert-base-uncased.")
    return built


def build_clusters_plan(
    plan: ClustersPlan | Path | str | None, settings: Sequence[str], **words: Any
) -> ClustersPlan:
    """A clustering's plan; raises as `build_plan`."""
    k = words.pop("k", None)
    numbers = ",".join(map(str, k)) if isinstance(k, Sequence) and not isinstance(k, str) else k
    words["k"] = None if numbers is None else str(numbers)
    return _built(ClustersPlan(), _CLUSTERS_WORDS, plan, settings, words).check()


def build_tune_plan(
    plan: TunePlan | Path | str | None, settings: Sequence[str], **words: Any
) -> TunePlan:
    """A tuning's plan; raises as `build_plan`.

    Methods, fractions, weights and then_task may be sequences.
    """
    for word in ("methods", "fractions", "weights", "then_task"):
        given = words.get(word)
        if given is not None and not isinstance(given, str):
            several = given if isinstance(given, Sequence) else [given]
            words[word] = ",".join(map(str, several)) or None
    return _built(TunePlan(), _TUNE_WORDS, plan, settings, words).check()


def _built(
    start: _P,
    words_of: Mapping[str, str],
    plan: Settings | Path | str | None,
    settings: Sequence[str],
    words: Mapping[str, Any],
) -> _P:
    """A plan changed by a file, then by keywords, then by settings."""
    for word in words.keys() - words_of.keys():
        similar = difflib.get_close_matches(word, words_of, n=1)
        cure = f"Perhaps {similar[0]}?" if similar else ""
        raise bad_setting("A keyword", f"one of {', '.join(words_of)}", word, cure)
    built = start
    if isinstance(plan, type(start)):
        built = plan
    elif plan is not None:
        built = start.with_toml(Path(str(plan)))
    for word, value in words.items():
        if value is not None:
            plain = str(value) if isinstance(value, Path) else value
            built = built.with_value(words_of[word], plain)
    return built.with_overrides(settings)


def listed(inputs: Inputs) -> list[str]:
    """One input or several, as a list."""
    if isinstance(inputs, Sequence) and not isinstance(inputs, str):
        return [str(i) for i in inputs]
    return [str(inputs)]  # also a path of a store, which is a sequence
