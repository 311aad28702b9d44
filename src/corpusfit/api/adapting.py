"""The commands `adapt`, `contamination` and `forecast` as functions."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Unpack

from corpusfit.api.inputs import Inputs, inputs
from corpusfit.api.offers import ADAPT, CONTAMINATION, FORECAST, offers
from corpusfit.api.plans import build_adapt_plan, build_plan, local_place
from corpusfit.api.typed_options import AdaptOptions, ContaminationOptions, ForecastOptions
from corpusfit.evaluation import forecast as forecasting
from corpusfit.evaluation.contamination import report
from corpusfit.evaluation.contamination.report import Contamination
from corpusfit.evaluation.forecast import Forecast
from corpusfit.text.context import Machine
from corpusfit.training import adapting, dry_run
from corpusfit.training.adapting import Adapted
from corpusfit.training.plan import AdaptPlan


@offers(CONTAMINATION)
def contamination(
    *,
    task: Inputs,
    data: Inputs,
    task_field: str = "",
    machine: Machine | None = None,
    **options: Unpack[ContaminationOptions],
) -> Contamination:
    """Find a task's dev and test texts in training text.

    Args:
        task: held-out texts: a task's folder or `hub:NAME` (its dev and test splits), or files;
            labels are not read.
        data: training texts: the folder of a `select`, or inputs as for its `corpus`.
        task_field: text field of the task's files (default: `text_field`).
        machine: as in `select`.
        **options: the options of the command line, by the same names.

    Returns:
        Counts by split and source, examples, and the training texts to leave out.

    Raises:
        CorpusfitError: see `corpusfit.core.errors`.
    """
    read = build_plan(None, (), CONTAMINATION, **options).read
    return report.report_contamination(
        inputs(task, "task", machine, task_field or read.text_field),
        inputs(data, "data", machine, read.text_field),
        read=read,
        task_field=task_field,
        machine=machine or Machine(),
    )


@offers(FORECAST)
def forecast(
    *,
    data: Inputs,
    plan: AdaptPlan | Path | str | None = None,
    settings: Sequence[str] = (),
    machine: Machine | None = None,
    **options: Unpack[ForecastOptions],
) -> Forecast:
    """Compute predictors of the gain from selections; trains nothing.

    Args:
        data: folders of `select`.
        plan: as in `adapt`.
        settings: further settings, such as `"mix.heldout=1000"`.
        machine: as in `adapt`.
        **options: the options of the command line, by the same names.

    Returns:
        For each selection the KL reduction, the loss of the model on the task's text before
        training, and the conclusions in sentences.
    """
    built = build_adapt_plan(plan, settings, FORECAST, data=data, **options)
    return forecasting.forecast(
        built, inputs(data, "data", machine, built.read.text_field), machine=machine or Machine()
    )


@offers(ADAPT)
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
    **options: Unpack[AdaptOptions],
) -> Adapted:
    """Continue the pre-training of a language model on a selection, or train a translation model.

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
        preset: settings of a paper: tadpole, mdapt, mdapt-adapter, domain-clusters or tapt.
        plan: a plan, which excludes a preset, or a TOML file with settings.
        settings: further settings, such as `"train.warmup=0.06"`.
        track: tracker to log metrics to: tensorboard, wandb or mlflow.
        overwrite: replace a different training in `out`.
        machine: where to tokenise, and where to show progress.
        **options: the options of the command line, by the same names.

    Returns:
        The finished training; its folder is an adapter, or a model that
        `AutoModel.from_pretrained` loads.

    Raises:
        CorpusfitError: see `corpusfit.core.errors`.
    """
    folder = local_place(out)
    built = build_adapt_plan(plan, settings, preset=preset, data=data, **options)
    return adapting.adapt(
        built,
        inputs(data, "data", machine, built.read.text_field),
        folder,
        task=inputs(task, "task", machine, built.read.text_field),
        replay=inputs(replay, "replay", machine, built.read.text_field),
        guard=inputs(guard, "guard", machine, guard_field or built.read.text_field),
        guard_field=guard_field,
        track=track,
        machine=machine or Machine(),
        overwrite=overwrite,
    )


@offers(ADAPT)
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
    **options: Unpack[AdaptOptions],
) -> dict[str, Any]:
    """Dry run of `adapt`, measured over a few steps; takes `adapt`'s arguments.

    Returns:
        sources, stored_mb, tokens, parameters, trained, steps, words, step_s, seconds, memory_mb,
        disk_mb; with `then_task=True` these for both phases, and for each in `phases`.
    """
    built = build_adapt_plan(plan, settings, preset=preset, data=data, **options)
    return dry_run.estimate_adaptation(
        built,
        inputs(data, "data", machine, built.read.text_field),
        task=inputs(task, "task", machine, built.read.text_field),
        replay=inputs(replay, "replay", machine, built.read.text_field),
        guard=inputs(guard, "guard", machine, guard_field or built.read.text_field),
        guard_field=guard_field,
        machine=machine or Machine(),
    )
