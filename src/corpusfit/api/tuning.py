"""The command `tune` as a function."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Unpack

from corpusfit.api.inputs import Inputs, inputs
from corpusfit.api.offers import TUNE, offers
from corpusfit.api.plans import build_tune_plan
from corpusfit.api.typed_options import TuneOptions
from corpusfit.core.artifacts import place
from corpusfit.text.context import Machine
from corpusfit.tuning import dry_run, running
from corpusfit.tuning.plan import TunePlan
from corpusfit.tuning.result import Tuned


@offers(TUNE)
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
    **options: Unpack[TuneOptions],
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
        **options: the options of the command line, by the same names; methods, fractions, weights
            and then_task are sequences, or words separated by commas.

    Returns:
        The finished search; `selection` is the winner's, `trials()` lists every trial.

    Raises:
        CorpusfitError: see `corpusfit.core.errors`.
    """
    built = build_tune_plan(plan, settings, **options)
    return running.tune(
        built,
        running.TuneInputs(
            inputs(target, "target", machine, built.target_read.text_field),
            inputs(corpus, "corpus", machine, built.read.text_field),
            inputs(replay, "replay", machine, built.read.text_field),
            inputs(guard, "guard", machine, guard_field or built.target_read.text_field),
            guard_field,
        ),
        place(out, "`out`"),
        train=train,
        machine=machine or Machine(),
        overwrite=overwrite,
    )


@offers(TUNE)
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
    **options: Unpack[TuneOptions],
) -> dict[str, Any]:
    """Dry run of `tune`, measured over a few steps; takes `tune`'s arguments.

    Returns:
        rungs, settings, steps, step_s, scoring_s, seconds, memory_mb, disk_mb.
    """
    built = build_tune_plan(plan, settings, **options)
    return dry_run.estimate_tuning(
        built,
        running.TuneInputs(
            inputs(target, "target", machine, built.target_read.text_field),
            inputs(corpus, "corpus", machine, built.read.text_field),
            inputs(replay, "replay", machine, built.read.text_field),
            inputs(guard, "guard", machine, guard_field or built.target_read.text_field),
            guard_field,
        ),
        machine=machine or Machine(),
    )
