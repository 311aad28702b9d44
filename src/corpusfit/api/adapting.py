"""Adapt a model, and what is asked before: the commands with the command line's words."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from corpusfit import pipeline
from corpusfit.adapt.plan import AdaptPlan
from corpusfit.api.plans import Inputs, build_adapt_plan, listed
from corpusfit.artifacts import is_local, place
from corpusfit.errors import bad_setting
from corpusfit.pipeline import (
    Adapted,
    Contamination,
    Forecast,
    Machine,
)
from corpusfit.plan import ReadPlan


def contamination(
    *,
    task: Inputs,
    data: Inputs,
    text_field: str | None = None,
    task_field: str = "",
    machine: Machine | None = None,
) -> Contamination:
    """Report what of a task's dev and test texts lies in text that is to be trained on.

    Args:
        task: tasks' folders or `hub:NAME`, of which dev and test are meant, or files of such
            texts. Labels are not needed.
        data: the folder of a `select`, or any inputs as for `corpus` there.
        text_field: name of the field with the text, of both.
        task_field: the same of the task, where it is another than the data's.
        machine: as in `select`.

    Returns:
        Counts by split and source, examples, and the texts of the data that should be left out.

    Raises:
        CorpusfitError: see `corpusfit.errors`.
    """
    return pipeline.report_contamination(
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
    """Say how near selections are to their task, and how new that is to a model; trains nothing.

    Args:
        data: folders of `select`; several are set side by side.
        plan: as in `adapt`.
        settings: further settings as `"mix.heldout=1000"`.
        machine: as in `adapt`.
        **words: model, objective, length, seed: as in `adapt`.

    Returns:
        For each selection how much nearer to the task it is than its corpus, and what the task's
        text costs the model; and all of it in words.
    """
    return pipeline.forecast(
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
    """Continue the pre-training of a language model on what was selected.

    Args:
        data: the folder of a `select`, any inputs as for `corpus` there, or `"task"` for the task's
            own texts.
        out: a new or empty folder of this machine, or one of the same training to resume.
        task: texts of the task, to measure the loss on; a selection's target if not given.
        replay: general text to mix in.
        guard: tasks' folders or `hub:NAME`, of which dev and test are meant, or files of such
            texts: what holds one of them is not trained on.
        guard_field: name of the field with the text there, if it is another than the data's.
        preset: a paper's settings: tadpole, mdapt, mdapt-adapter or tapt.
        plan: a plan, in which case without a preset, or a TOML file to start from.
        settings: further settings as `"train.warmup=0.06"`.
        track: tensorboard, wandb or mlflow.
        overwrite: replace another training in `out`.
        machine: where text is tokenised, and what is told of it all.
        **words: model, init, new_head, objective, whole_word, weights, replay_share, steps, epochs,
            batch, length, rate, adapter, text_field, seed: as the options of the same name.

    Returns:
        The finished training; its folder loads with `AutoModel.from_pretrained`, or is an adapter.

    Raises:
        CorpusfitError: see `corpusfit.errors`.
    """
    folder = place(out, "--out")
    if not is_local(folder):
        raise bad_setting("--out", "a folder of this machine", str(out))
    return pipeline.adapt(
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
    """What `adapt` would take, measured over a few steps; takes `adapt`'s arguments.

    Returns:
        sources, stored_mb, tokens, parameters, trained, steps, words, step_s, seconds, memory_mb,
        disk_mb.
    """
    return pipeline.estimate_adaptation(
        build_adapt_plan(plan, settings, preset, data, **words),
        listed(data),
        task=listed(task),
        replay=listed(replay),
        guard=listed(guard),
        guard_field=guard_field,
        machine=machine or Machine(),
    )
