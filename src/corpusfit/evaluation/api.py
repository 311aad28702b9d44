"""Functions that measure or split: `evaluate`, `contamination`, `split`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

from corpusfit.core.artifacts import local_folder_path
from corpusfit.core.errors import bad_setting
from corpusfit.core.keywords import Inputs, Keywords, dry_run, with_keywords
from corpusfit.core.plan import Plan
from corpusfit.evaluation.plan import EvaluatePlan, SplitPlan

if TYPE_CHECKING:
    from corpusfit.core.typed_options import (
        ContaminationOptions,
        EvaluateOptions,
        SplitOptions,
    )
    from corpusfit.evaluation.contamination import Contamination
    from corpusfit.evaluation.evaluating import Evaluated
    from corpusfit.evaluation.resolving import Request
    from corpusfit.evaluation.splitting import Split
    from corpusfit.text.context import Machine

EVALUATE = Keywords(
    EvaluatePlan,
    ("model", "task", "finetune", "likelihood", "seed"),
    required=("model",),
    example="task.dev_share=0.2",
)
_FIELDS = {
    "text_field": {
        "help": "Field or column that holds the text, a template of fields such as "
        "'{title}\\n{body}', or several fields, separated by commas, whose texts are all checked",
    }
}
CONTAMINATION = Keywords(Plan, ("read.text_field",), differs=_FIELDS)
SPLIT = Keywords(
    SplitPlan,
    (
        "split",
        "read.text_field",
        "read.strict",
        "seed",
    ),
    differs=_FIELDS,
    example="read.id_field=key",
)


def _request(
    *,
    task: Inputs,
    base: str | Path = "",
    seeds: int = 8,
    train_sizes: Sequence[int] = (),
    plan: EvaluatePlan | Path | str | None = None,
    settings: Sequence[str] = (),
    machine: Machine | None = None,
    **options: Any,
) -> tuple[Request, Machine]:
    """What an evaluation is asked for, with a model; and its machine."""
    built = EVALUATE.build(plan, settings, options).check()
    if not built.model.name:
        allowed = "a model folder, an adapter's folder or a Hugging Face hub id"
        cure = "For example `model.name=bert-base-uncased`."
        raise bad_setting("`model.name`", allowed, "nothing", cure)
    from corpusfit.evaluation.resolving import Request
    from corpusfit.text.context import machine_of
    from corpusfit.text.in_memory import inputs

    machine = machine_of(machine, options)
    place = inputs(task, "task", machine, built.task.text_field)[0]
    return Request(built, place, str(base), seeds, train_sizes), machine


@with_keywords(EVALUATE)
def evaluate(
    *,
    task: Inputs,
    out: Path | str,
    base: str | Path = "",
    seeds: int = 8,
    train_sizes: Sequence[int] = (),
    plan: EvaluatePlan | Path | str | None = None,
    settings: Sequence[str] = (),
    overwrite: bool = False,
    machine: Machine | None = None,
    **options: Unpack[EvaluateOptions],
) -> Evaluated:
    """Fine-tune a model on a labeled task with several seeds, and compare it with its base.

    Causal models are evaluated as they are with `kind="language_modeling"`.

    Args:
        task: a folder with train, dev and test in any supported format, a file, or `hub:NAME`.
        out: local folder that is new, empty, or of the same task and settings.
        base: model to compare with (default: none).
        seeds: number of fine-tunings of each model and size; `{seed}` in the name of a model stands
            for the seed, so that each has a model of its own.
        train_sizes: numbers of training examples (default: all examples).
        plan: a plan, or a TOML file with settings.

    Returns:
        The finished evaluation: `manifest["results"]`, `manifest["comparisons"]`, `outcomes()`.
    """
    request, machine = _request(
        task=task,
        base=base,
        seeds=seeds,
        train_sizes=train_sizes,
        plan=plan,
        settings=settings,
        machine=machine,
        **options,
    )
    from corpusfit.evaluation import evaluating

    folder = local_folder_path(out, "`out`")
    return evaluating.evaluate(request, folder, machine=machine, overwrite=overwrite)


@dry_run(evaluate, without=("out", "overwrite"))
def estimate_evaluation(**options: Any) -> dict[str, Any]:
    """Dry run of `evaluate`, measured over a few steps; takes `evaluate`'s arguments.

    Returns:
        fine_tunings, runs (in words), train, dev, test (examples), examples_per_second, seconds,
        words.
    """
    request, machine = _request(**options)
    from corpusfit.evaluation import evaluating

    return evaluating.estimate_evaluation(request, machine=machine)


@with_keywords(CONTAMINATION)
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

    Returns:
        Counts by split and source, examples, and the training texts to leave out.
    """
    read = CONTAMINATION.build(None, (), options).check().read
    from corpusfit.evaluation.contamination import report_contamination
    from corpusfit.text.context import machine_of
    from corpusfit.text.in_memory import inputs

    machine = machine_of(machine, options)
    return report_contamination(
        inputs(task, "task", machine, task_field or read.text_field),
        inputs(data, "data", machine, read.text_field),
        read=read,
        task_field=task_field,
        machine=machine,
    )


@with_keywords(SPLIT)
def split(
    *,
    data: Inputs,
    out: Path | str,
    plan: SplitPlan | Path | str | None = None,
    settings: Sequence[str] = (),
    overwrite: bool = False,
    machine: Machine | None = None,
    **options: Unpack[SplitOptions],
) -> Split:
    """Split a corpus into train, dev and test without overlap.

    Args:
        data: inputs as for `corpus` in `select`. Of rows with several texts, those of aligned pairs
            (`pair:train.de,train.en`) or of several fields, no text is kept twice.
        out: local folder that is new, empty, or of the same split.

    Returns:
        The finished split: `manifest["counts"]`, `manifest["splits"]`.
    """
    built = SPLIT.build(plan, settings, options)
    from corpusfit.evaluation import splitting
    from corpusfit.text.context import machine_of
    from corpusfit.text.in_memory import inputs

    machine = machine_of(machine, options)
    return splitting.split(
        built,
        inputs(data, "data", machine, built.read.text_field),
        local_folder_path(out, "`out`"),
        machine=machine,
        overwrite=overwrite,
    )
