"""The command `tune` as a function."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from corpusfit import workflows
from corpusfit.api.plans import Inputs, build_tune_plan, listed
from corpusfit.artifacts import place
from corpusfit.workflows import Machine, Tuned, TunePlan


def tune(
    *,
    target: Inputs,
    corpus: Inputs,
    out: Path | str,
    replay: Inputs = (),
    guard: Inputs = (),
    guard_field: str = "",
    train: bool = False,
    plan: TunePlan | Path | str | None = None,
    settings: Sequence[str] = (),
    overwrite: bool = False,
    machine: Machine | None = None,
    **words: Any,
) -> Tuned:
    """Find what to select for a model and a task, within a budget of steps or time.

    Args:
        target: texts of the task, as in `select`; a part is held out to measure the loss on.
        corpus: texts to choose from, as in `select`.
        out: local folder that is new, empty, or of the same search, which resumes.
        replay: general texts to mix into every adaptation, as in `adapt`.
        guard: held-out texts to decontaminate target and corpus against, as in `adapt`.
        guard_field: text field of the `guard` files (default: that of the target).
        train: also adapt the model on the winner's selection.
        plan: a plan or a TOML file with settings.
        settings: further settings, such as `"search.eta=4"`.
        overwrite: replace a different search in `out`.
        machine: where to run, with how many workers, and where to show progress.
        **words: model, budget, methods, fractions, weights, then_task, replay_share, objective,
            steps and epochs (of the winner), batch, length, rate, adapter, embedder, unit,
            text_field, seed: as the options of the same name; methods, fractions, weights and
            then_task are sequences, or words separated by commas.

    Returns:
        The finished search; `selection` is the winner's, `trials()` lists every trial.

    Raises:
        CorpusfitError: see `corpusfit.errors`.
    """
    return workflows.tune(
        build_tune_plan(plan, settings, **words),
        workflows.TuneInputs(
            listed(target), listed(corpus), listed(replay), listed(guard), guard_field
        ),
        place(out, "--out"),
        train=train,
        machine=machine or Machine(),
        overwrite=overwrite,
    )


def estimate_tuning(
    *,
    target: Inputs,
    corpus: Inputs,
    replay: Inputs = (),
    guard: Inputs = (),
    guard_field: str = "",
    plan: TunePlan | Path | str | None = None,
    settings: Sequence[str] = (),
    machine: Machine | None = None,
    **words: Any,
) -> dict[str, Any]:
    """Dry run of `tune`, measured over a few steps; takes `tune`'s arguments.

    Returns:
        rungs, settings, steps, step_s, scoring_s, seconds, memory_mb, disk_mb.
    """
    return workflows.estimate_tuning(
        build_tune_plan(plan, settings, **words),
        workflows.TuneInputs(
            listed(target), listed(corpus), listed(replay), listed(guard), guard_field
        ),
        machine=machine or Machine(),
    )
