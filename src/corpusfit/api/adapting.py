"""The commands `adapt`, `contamination` and `forecast` as functions."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from corpusfit import workflows
from corpusfit.adapt.plan import AdaptPlan
from corpusfit.api.plans import Inputs, build_adapt_plan, listed
from corpusfit.artifacts import is_local, place
from corpusfit.errors import bad_setting
from corpusfit.plan import ReadPlan
from corpusfit.workflows import Adapted, Contamination, Forecast, Machine


def contamination(
    *,
    task: Inputs,
    data: Inputs,
    text_field: str | None = None,
    task_field: str = "",
    machine: Machine | None = None,
) -> Contamination:
    """Find a task's dev and test texts in training text.

    Args:
        task: held-out texts: a task's folder or `hub:NAME` (its dev and test splits), or files;
            labels are not read.
        data: training texts: the folder of a `select`, or inputs as for its `corpus`.
        text_field: field with the text.
        task_field: text field of the task's files (default: `text_field`).
        machine: as in `select`.

    Returns:
        Counts by split and source, examples, and the training texts to leave out.

    Raises:
        CorpusfitError: see `corpusfit.errors`.
    """
    return workflows.report_contamination(
        listed(task),
        listed(data),
        read=ReadPlan() if text_field is None else ReadPlan(text_field=text_field),
        task_field=task_field,
        machine=machine or Machine(),
    )


def forecast(
    *,
    data: Inputs,
    plan: AdaptPlan | Path | str | None = None,
    settings: Sequence[str] = (),
    machine: Machine | None = None,
    **words: Any,
) -> Forecast:
    """Compute predictors of the gain from selections; trains nothing.

    Args:
        data: folders of `select`.
        plan: as in `adapt`.
        settings: further settings, such as `"mix.heldout=1000"`.
        machine: as in `adapt`.
        **words: model, objective, length, seed: as in `adapt`.

    Returns:
        For each selection the KL reduction, the loss of the model on the task's text before
        training, and the conclusions in sentences.
    """
    return workflows.forecast(
        build_adapt_plan(plan, settings, None, data, **words),
        listed(data),
        machine=machine or Machine(),
    )


def adapt(
    *,
    data: Inputs,
    out: Path | str,
    task: Inputs = (),
    replay: Inputs = (),
    guard: Inputs = (),
    guard_field: str = "",
    preset: str | None = None,
    plan: AdaptPlan | Path | str | None = None,
    settings: Sequence[str] = (),
    track: str = "",
    overwrite: bool = False,
    machine: Machine | None = None,
    **words: Any,
) -> Adapted:
    """Continue the pre-training of a language model on a selection.

    Args:
        data: texts to train on: the folder of a `select`, inputs as for its `corpus`, or `"task"`
            for the task's own texts.
        out: local folder that is new, empty, or of the same training, which resumes.
        task: texts of the task to measure the loss on (default: the target of the selection); with
            `then_task=True` the texts of a second phase, too.
        replay: general texts to mix in, against forgetting.
        guard: held-out texts to decontaminate `data` against: a task's folder or `hub:NAME` (its
            dev and test splits), or files.
        guard_field: text field of the `guard` files (default: that of `data`).
        preset: settings of a paper: tadpole, mdapt, mdapt-adapter or tapt.
        plan: a plan, which excludes a preset, or a TOML file with settings.
        settings: further settings, such as `"train.warmup=0.06"`.
        track: tracker to log metrics to: tensorboard, wandb or mlflow.
        overwrite: replace a different training in `out`.
        machine: where to tokenise, and where to show progress.
        **words: model, init, new_head, objective, whole_word, weights, replay_share, steps, epochs,
            batch, length, rate, adapter, then_task, text_field, seed: as the options of the same
            name.

    Returns:
        The finished training; its folder is an adapter, or a model that
        `AutoModel.from_pretrained` loads.

    Raises:
        CorpusfitError: see `corpusfit.errors`.
    """
    folder = place(out, "--out")
    if not is_local(folder):
        raise bad_setting("--out", "a folder of this machine", str(out))
    return workflows.adapt(
        build_adapt_plan(plan, settings, preset, data, **words),
        listed(data),
        folder,
        task=listed(task),
        replay=listed(replay),
        guard=listed(guard),
        guard_field=guard_field,
        track=track,
        machine=machine or Machine(),
        overwrite=overwrite,
    )


def estimate_adaptation(
    *,
    data: Inputs,
    task: Inputs = (),
    replay: Inputs = (),
    guard: Inputs = (),
    guard_field: str = "",
    preset: str | None = None,
    plan: AdaptPlan | Path | str | None = None,
    settings: Sequence[str] = (),
    machine: Machine | None = None,
    **words: Any,
) -> dict[str, Any]:
    """Dry run of `adapt`, measured over a few steps; takes `adapt`'s arguments.

    Returns:
        sources, stored_mb, tokens, parameters, trained, steps, words, step_s, seconds, memory_mb,
        disk_mb; with `then_task=True` these for both phases, and for each in `phases`.
    """
    return workflows.estimate_adaptation(
        build_adapt_plan(plan, settings, preset, data, **words),
        listed(data),
        task=listed(task),
        replay=listed(replay),
        guard=listed(guard),
        guard_field=guard_field,
        machine=machine or Machine(),
    )
