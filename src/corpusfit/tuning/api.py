"""The function `tune`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

from corpusfit.core.offers import Inputs, Offer, offers
from corpusfit.tuning.plan import TunePlan

if TYPE_CHECKING:
    from corpusfit.core.typed_options import TuneOptions
    from corpusfit.text.context import Machine
    from corpusfit.tuning.result import Tuned

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
    built = TUNE.build(plan, settings, options).check()
    from corpusfit.core.artifacts import place
    from corpusfit.text.context import machine_of
    from corpusfit.text.in_memory import inputs
    from corpusfit.tuning import running

    machine = machine_of(machine, options)
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
        machine=machine,
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
    built = TUNE.build(plan, settings, options).check()
    from corpusfit.text.context import machine_of
    from corpusfit.text.in_memory import inputs
    from corpusfit.tuning import dry_run, running

    machine = machine_of(machine, options)
    return dry_run.estimate_tuning(
        built,
        running.TuneInputs(
            inputs(target, "target", machine, built.target_read.text_field),
            inputs(corpus, "corpus", machine, built.read.text_field),
            inputs(replay, "replay", machine, built.read.text_field),
            inputs(guard, "guard", machine, guard_field or built.target_read.text_field),
            guard_field,
        ),
        machine=machine,
    )
