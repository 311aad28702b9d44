"""Plans from the options of the command line or the keywords of the API."""

from __future__ import annotations

import difflib
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from corpusfit.api.offers import ADAPT, EVALUATE, SELECT, TUNE, Offer
from corpusfit.core.errors import bad_setting
from corpusfit.core.options import Setting
from corpusfit.core.plan import Plan
from corpusfit.core.settings import Settings
from corpusfit.evaluation.plan import EvaluatePlan
from corpusfit.scoring.names import require
from corpusfit.training.plan import TASK, AdaptPlan
from corpusfit.training.presets import preset as preset_of
from corpusfit.tuning.plan import TunePlan

_P = TypeVar("_P", bound=Settings)


def build(
    offer: Offer[_P],
    plan: Settings | Path | str | None,
    settings: Sequence[str],
    options: Mapping[str, object],
    start: _P | None = None,
) -> _P:
    """A plan, or a TOML file's, changed by keywords, then by `a.b=c` settings; not checked.

    Args:
        offer: the keywords.
        plan: a plan of the offer's class, a TOML file, or None.
        settings: settings by their paths.
        options: values by keyword; None is left out.
        start: the plan that a file changes (default: all settings have their defaults).

    Raises:
        UsageError: a keyword or a setting does not exist, or its value has the wrong type.
    """
    for word in options.keys() - offer.settings.keys():
        similar = difflib.get_close_matches(word, offer.settings, n=1)
        cure = f"Perhaps {similar[0]}?" if similar else "Other settings: settings=['a.b=VALUE']."
        raise bad_setting("A keyword", f"one of {', '.join(offer.settings)}", word, cure)
    built = start or offer.plan()
    if isinstance(plan, offer.plan):
        built = plan
    elif plan is not None:
        built = built.with_toml(Path(str(plan)))
    for word, value in options.items():
        if value is not None:
            setting = offer.settings[word]
            built = built.with_value(setting.path, _plain(setting, value))
    return built.with_overrides(settings)


def _plain(setting: Setting, value: Any) -> Any:
    """A keyword's value as a plan holds it: lists, paths and folders of runs as texts."""
    if setting.option.items is not None and not isinstance(value, str):
        items = value if isinstance(value, Sequence) else [value]
        return ",".join(map(str, items))
    return os.fspath(value) if isinstance(value, os.PathLike) else value


def build_plan(
    plan: Plan | Path | str | None = None,
    settings: Sequence[str] = (),
    offer: Offer[Plan] = SELECT,
    **options: object,
) -> Plan:
    """A selection's plan, as `build` makes it, checked.

    Raises:
        UsageError: a keyword or a setting does not exist, or its value is not allowed.
    """
    built = build(offer, plan, settings, options).check()
    require(built.method.name)
    return built


def build_adapt_plan(
    plan: AdaptPlan | Path | str | None = None,
    settings: Sequence[str] = (),
    offer: Offer[AdaptPlan] = ADAPT,
    *,
    preset: str | None = None,
    data: Any = (),
    **options: object,
) -> AdaptPlan:
    """An adaptation's plan: a preset, changed as in `build`, checked.

    Training on the task's own texts has the preset `tapt` (Gururangan et al. 2020, Don't Stop
    Pretraining) unless another is named.

    Raises:
        UsageError: as `build_plan`; there is no such preset.
    """
    if preset and isinstance(plan, AdaptPlan):
        cure = "Leave out `preset`, or pass settings in place of the plan."
        raise bad_setting("`preset`", "left out with a plan", preset, cure)
    asked = build(offer, plan, settings, options)
    preset = preset or ("tapt" if _is_task(data) else None)
    if preset:
        start = AdaptPlan()
        for path, value in preset_of(preset, asked.weights.policy).items():
            start = start.with_value(path, value)
        if asked.train.steps is not None or asked.train.epochs is not None:
            start = start.with_value("train.steps", None).with_value("train.epochs", None)
        asked = build(offer, plan, settings, options, start)
    return asked.check()


def _is_task(data: Any) -> bool:
    """Whether the inputs are the word `task`."""
    if isinstance(data, str):
        return data == TASK
    return isinstance(data, Sequence) and len(data) == 1 and _is_task(data[0])


def build_evaluate_plan(
    plan: EvaluatePlan | Path | str | None = None, settings: Sequence[str] = (), **options: object
) -> EvaluatePlan:
    """An evaluation's plan; raises as `build_plan`, and without a model."""
    built = build(EVALUATE, plan, settings, options).check()
    if not built.model.name:
        allowed = "a model folder, an adapter's folder or a Hugging Face hub id"
        cure = "For example `model.name=bert-base-uncased`."
        raise bad_setting("`model.name`", allowed, "nothing", cure)
    return built


def build_tune_plan(
    plan: TunePlan | Path | str | None = None, settings: Sequence[str] = (), **options: object
) -> TunePlan:
    """A tuning's plan; raises as `build_plan`."""
    return build(TUNE, plan, settings, options).check()


def local_place(out: Path | str) -> Path:
    """The folder `out`, which must be one of this machine.

    Raises:
        UsageError: it is in a store.
    """
    from corpusfit.core.artifacts import is_local, place

    folder = place(out, "`out`")
    if not is_local(folder):
        raise bad_setting("`out`", "a folder of this machine", str(out))
    return folder
