"""The function `tune`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

from corpusfit.core.artifacts import folder_path
from corpusfit.core.offers import Inputs, Offer, dry_run, offers
from corpusfit.tuning.plan import TunePlan

if TYPE_CHECKING:
    from corpusfit.core.typed_options import TuneOptions
    from corpusfit.text.context import Machine
    from corpusfit.tuning.folder import Tuned
    from corpusfit.tuning.running import TuneInputs

TUNE = Offer(
    TunePlan,
    (
        "model.name",
        "search",
        "mix",
        "train",
        "objective.name",
        "adapter",
        "embed",
        "cut",
        "read.text_field",
        "fit.target_field",
        "seed",
    ),
    required=("model",),
    differs={
        "model": {
            "help": "Model to adapt: a model folder or a Hugging Face hub id "
            "(`OWNER/NAME[@REVISION]`)"
        },
        "learning_rate": {"default": "3e-4 below 50 million weights, else 1e-4"},
        "max_steps": {
            "help": "Training steps on the winner's selection, with `train`",
            "default": "3 passes over the selection, at most 2,000 steps on a CPU and 50,000 on "
            "a GPU",
        },
        "epochs": {"help": "Passes over the winner's selection, with `train`"},
    },
    example="train.learning_rate=1e-4",
)


def _resolve(
    *,
    target: Inputs,
    corpus: Inputs,
    replay: Inputs = (),
    guard: Inputs = (),
    guard_field: str = "",
    plan: TunePlan | Path | str | None = None,
    settings: Sequence[str] = (),
    machine: Machine | None = None,
    **options: Any,
) -> tuple[TunePlan, TuneInputs, Machine]:
    """The plan, the texts and the machine of a call."""
    built = TUNE.build(plan, settings, options).check()
    from corpusfit.evaluation.decontamination.heldout import as_target
    from corpusfit.text.context import machine_of
    from corpusfit.text.in_memory import inputs
    from corpusfit.tuning.running import TuneInputs

    machine, field = machine_of(machine, options), built.target_read.text_field
    texts = TuneInputs(
        as_target(inputs(target, "target", machine, field), field, machine),
        inputs(corpus, "corpus", machine, built.read.text_field),
        inputs(replay, "replay", machine, built.read.text_field),
        inputs(guard, "guard", machine, guard_field or field),
        guard_field,
    )
    return built, texts, machine


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

    Returns:
        The finished search; `selection` is the winner's, `trials()` lists every trial.
    """
    built, texts, machine = _resolve(
        target=target,
        corpus=corpus,
        replay=replay,
        guard=guard,
        guard_field=guard_field,
        plan=plan,
        settings=settings,
        machine=machine,
        **options,
    )
    from corpusfit.tuning import running

    into = folder_path(out, "`out`")
    return running.tune(built, texts, into, train=train, machine=machine, overwrite=overwrite)


@dry_run(tune, without=("out", "train", "overwrite"))
def estimate_tuning(**options: Any) -> dict[str, Any]:
    """Dry run of `tune`, measured over a few steps; takes `tune`'s arguments.

    Returns:
        rungs, settings, steps, step_s, scoring_s, seconds, memory_mb, disk_mb.
    """
    built, texts, machine = _resolve(**options)
    from corpusfit.tuning import running

    return running.estimate_tuning(built, texts, machine=machine)
