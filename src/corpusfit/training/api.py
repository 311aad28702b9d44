"""The function `adapt`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

from corpusfit.core.artifacts import local_folder_path
from corpusfit.core.keywords import Inputs, Keywords, dry_run, with_keywords
from corpusfit.training.defaults import TAPT
from corpusfit.training.plan import TASK, AdaptPlan

if TYPE_CHECKING:
    from corpusfit.core.typed_options import AdaptOptions
    from corpusfit.text.context import Machine
    from corpusfit.training.adapting import Adapted

ADAPT = Keywords(
    AdaptPlan,
    (
        "model",
        "then_task",
        "mix",
        "objective",
        "weights",
        "train",
        "adapter",
        "read.text_field",
        "seed",
    ),
    example="train.micro_tokens=1024",
)


def build_plan(
    keywords: Keywords[AdaptPlan],
    plan: AdaptPlan | Path | str | None,
    settings: Sequence[str],
    options: Mapping[str, object],
    *,
    data: Any = (),
) -> AdaptPlan:
    """Build and check an adaptation's plan, as in `Keywords.build`.

    Training on the task's own texts starts from the settings of Gururangan et al. (2020), Don't
    Stop Pretraining.
    """
    built = keywords.build(plan, settings, options)
    alone = data[0] if isinstance(data, list | tuple) and len(data) == 1 else data
    # a data frame would compare its cells with the word
    if isinstance(alone, str) and alone == TASK:
        start = AdaptPlan()
        for path, value in TAPT.items():
            start = start.with_value(path, value)
        if built.train.max_steps is not None or built.train.epochs is not None:
            start = start.with_value("train.epochs", None)
        built = keywords.build(plan, settings, options, start)
    return built.check()


def _resolve(
    *,
    data: Inputs,
    task: Inputs = (),
    replay: Inputs = (),
    guard: Inputs = (),
    guard_field: str = "",
    plan: AdaptPlan | Path | str | None = None,
    settings: Sequence[str] = (),
    machine: Machine | None = None,
    **options: Any,
) -> tuple[AdaptPlan, list[str], dict[str, Any]]:
    """The plan, the texts to train on and the other arguments of a call."""
    built = build_plan(ADAPT, plan, settings, options, data=data)
    from corpusfit.text.context import machine_of
    from corpusfit.text.in_memory import inputs

    machine = machine_of(machine, options)
    field = built.read.text_field
    others = {
        "task": inputs(task, "task", machine, field),
        "replay": inputs(replay, "replay", machine, field),
        "guard": inputs(guard, "guard", machine, guard_field or field),
        "guard_field": guard_field,
        "machine": machine,
    }
    return built, inputs(data, "data", machine, field), others


@with_keywords(ADAPT)
def adapt(
    *,
    data: Inputs,
    out: Path | str,
    task: Inputs = (),
    replay: Inputs = (),
    guard: Inputs = (),
    guard_field: str = "",
    plan: AdaptPlan | Path | str | None = None,
    settings: Sequence[str] = (),
    track: str = "",
    callbacks: Sequence[Any] = (),
    overwrite: bool = False,
    machine: Machine | None = None,
    **options: Unpack[AdaptOptions],
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
        plan: a plan, or a TOML file with settings.
        track: tracker to log metrics to: tensorboard, wandb or mlflow.
        callbacks: `transformers.TrainerCallback`s, which see the training and may stop it.
        machine: where to tokenize, and where to show progress.

    Returns:
        The finished training; its folder is an adapter, or a model that
        `AutoModel.from_pretrained` loads.
    """
    built, texts, others = _resolve(
        data=data,
        task=task,
        replay=replay,
        guard=guard,
        guard_field=guard_field,
        plan=plan,
        settings=settings,
        machine=machine,
        **options,
    )
    from corpusfit.training import adapting

    folder = local_folder_path(out, "`out`")
    return adapting.adapt(
        built, texts, folder, track=track, callbacks=callbacks, overwrite=overwrite, **others
    )


@dry_run(adapt, without=("out", "track", "callbacks", "overwrite"))
def estimate_adaptation(**options: Any) -> dict[str, Any]:
    """Dry run of `adapt`, measured over a few steps; takes `adapt`'s arguments.

    Returns:
        sources, stored_mb, tokens, parameters, trained, max_steps, words, step_s, seconds (of the
        steps), around_s (to open, measure held-out losses and write), memory_mb (measured),
        memory_gb (of a step of a language model, counted, by part), disk_mb; with
        `then_task=True` these for both phases, and for each in `phases`.
    """
    built, texts, others = _resolve(**options)
    from corpusfit.training import estimating

    return estimating.estimate_adaptation(built, texts, **others)
