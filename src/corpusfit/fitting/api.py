"""The function `fit`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

from corpusfit.core.artifacts import local_folder_path
from corpusfit.core.engine.pace import parse_duration
from corpusfit.core.errors import UsageError, bad_setting
from corpusfit.core.keywords import Inputs, Keywords, dry_run, with_keywords
from corpusfit.core.options import typed
from corpusfit.core.plan import DEFAULT_METHOD
from corpusfit.core.settings import one_of
from corpusfit.evaluation.plan import EvaluatePlan
from corpusfit.training.objectives import OBJECTIVES
from corpusfit.training.objectives import load as load_objective

if TYPE_CHECKING:
    from corpusfit.core.typed_options import FitOptions
    from corpusfit.fitting.fitting import Fitted
    from corpusfit.fitting.resolving import Request
    from corpusfit.text.context import Machine

FIT = Keywords(
    EvaluatePlan,
    (
        *("model.name", "task.kind", "task.metric", "task.text_field", "task.label_field"),
        *("task.loss_on", "seed"),
    ),
    required=("model",),
    differs={
        "model": {
            "help": "Model to adapt: a model folder, a Hugging Face hub id "
            "(`OWNER/NAME[@REVISION]`) or `minilm`",
            "default": "none; required",
        },
        "kind": {
            "help": "Kind of task, such as `classification` or `tagging`; `language_modeling` is "
            "plain text without labels",
            "default": "by format and labels",
        },
    },
)


def _resolve(
    *,
    task: Inputs,
    corpus: Inputs,
    method: str = DEFAULT_METHOD,
    corpus_field: str = "text",
    where: str = "",
    keep: str | Sequence[str] = "",
    scores: str = "",
    objective: str = "",
    general: Inputs = (),
    replay: float | str | None = None,
    train_with: str = "",
    seeds: int | None = None,
    tokens: int | None = None,
    machine: Machine | None = None,
    **options: Any,
) -> tuple[Request, Machine]:
    """What is asked for, checked, and the machine."""
    built = FIT.build(None, (), options).check()
    if not built.model.name:
        raise UsageError(
            "`model` must be given: a model folder, a Hugging Face hub id or minilm. For example "
            "`model=bert-base-uncased`."
        )
    from corpusfit.core.where import parsed
    from corpusfit.fitting.program import Program
    from corpusfit.fitting.resolving import Request
    from corpusfit.fitting.schedule import FEWEST
    from corpusfit.scoring.names import require
    from corpusfit.text.context import absolute, machine_of
    from corpusfit.text.in_memory import inputs

    require(method)
    if where:
        parsed(where)
    machine = machine_of(machine, options)
    if built.task.loss_on:  # files of both are read together
        field = built.task.text_field
        if corpus_field not in ("text", field):
            allowed = f"that of the task, {field!r}, with `task.loss_on`"
            raise bad_setting("`corpus_field`", allowed, corpus_field)
        corpus_field = field
    place, *more = inputs(task, "task", machine, built.task.text_field)
    if more:
        raise bad_setting("`task`", "one task", ", ".join([place, *more]))
    texts = inputs(corpus, "corpus", machine, corpus_field)
    if replay is not None and (isinstance(replay, str) or not 0 < replay < 1):
        allowed = "above 0 and below 1: the share of general text in both trainings"
        cure = "For example `replay=0.1`. A file of general text is named by `general`."
        raise bad_setting("`replay`", allowed, replay, cure)
    if replay is not None and train_with:
        cure = "The program mixes in what it wants."
        raise bad_setting("`replay`", "left out with `train_with`", replay, cure)
    if "-" in (place, *texts):
        allowed = "files: they are read several times"
        cure = "Write it to a file first."
        raise bad_setting("`task` and `corpus`", allowed, "-", cure)
    if objective:
        one_of("`objective`", objective, tuple(OBJECTIVES.names()))
        if load_objective(objective).columns == 2:
            raise bad_setting("`objective`", "one that trains on texts", objective)
    seeds = typed("`seeds`", "int | None", seeds)
    tokens = typed("`tokens`", "int | None", tokens)
    for name, number, least in (("seeds", seeds, FEWEST), ("tokens", tokens, 1)):
        if number is not None and not train_with:
            cure = "Otherwise `time` decides it."
            raise bad_setting(f"`{name}`", "left out without `train_with`", number, cure)
        if number is not None and number < least:
            raise bad_setting(f"`{name}`", f"{least} or more", number)
    request = Request(
        built,
        place,
        tuple(texts),
        method,
        corpus_field,
        where,
        keep if isinstance(keep, str) else ",".join(keep),
        absolute([scores])[0],
        objective,
        tuple(inputs(general, "general", machine, corpus_field)) if general else (),
        replay or 0.0,
        program=Program.parsed(train_with) if train_with else None,
        seeds=FEWEST if seeds is None else seeds,
        tokens=tokens or 0,
    )
    return request, machine


def _seconds(time: str | float, train_with: str) -> float:
    """The time; none is set for a program, which nobody knows the speed of."""
    if time == "" and train_with:
        return math.inf
    return parse_duration("`time`", time or "30min")


@with_keywords(FIT)
def fit(
    *,
    task: Inputs,
    corpus: Inputs,
    out: Path | str,
    time: str | float = "",
    method: str = DEFAULT_METHOD,
    corpus_field: str = "text",
    where: str = "",
    keep: str | Sequence[str] = "",
    scores: str = "",
    objective: str = "",
    general: Inputs = (),
    replay: float | None = None,
    train_with: str = "",
    seeds: int | None = None,
    tokens: int | None = None,
    overwrite: bool = False,
    machine: Machine | None = None,
    **options: Unpack[FitOptions],
) -> Fitted:
    """Select for a task, adapt a model on the selection and on random text, and compare them.

    Args:
        task: a labeled task as for `evaluate`, or plain texts; a test split is drawn if there is
            none, and no held-out text is trained on.
        corpus: texts to choose from, as for `select`.
        out: local folder that is new, empty, or of the same fit, which resumes; with more `time`
            it goes on.
        time: about how long all of it may take, such as "20min", "2h", or seconds (default:
            30min); with `train_with`, when a program that still runs is stopped (default: never).
        method: how the selection scores the corpus, as for `select`.
        corpus_field: field of the corpus with the text.
        where: rows of the corpus to use, by their fields, as for `select` (default: all).
        keep: columns of the corpus to carry into the selection, by which the report counts it, such
            as "language,url" (default: none).
        scores: folder with side files of the corpus files, as for `select` (default: none).
        objective: training objective, as for `adapt` (default: that of the model).
        general: general texts, on which the loss is measured before and after, in the field of the
            corpus (default: held-out random text of the corpus).
        replay: share of general text to mix into both trainings, against forgetting, such as 0.1
            (default: none).
        train_with: command of a program that trains in place of `adapt`, such as
            "python train.py {model} {data} {out}"; it is run without a shell.
        seeds: trainings of each with `train_with` (default: 3).
        tokens: word pieces to select with `train_with` (default: a fifth of the corpus).

    Returns:
        The verdict: `sentence`, `keep` (the folder or name of the model to use), `rows()`.
    """
    seconds = _seconds(time, train_with)
    request, machine = _resolve(
        task=task,
        corpus=corpus,
        method=method,
        corpus_field=corpus_field,
        where=where,
        keep=keep,
        scores=scores,
        objective=objective,
        general=general,
        replay=replay,
        train_with=train_with,
        seeds=seeds,
        tokens=tokens,
        machine=machine,
        **options,
    )
    from corpusfit.fitting import fitting

    folder = local_folder_path(out, "`out`")
    return fitting.fit(request, folder, seconds, machine=machine, overwrite=overwrite)


@dry_run(fit, without=("out", "overwrite"))
def estimate_fit(*, time: str | float = "", **options: Any) -> dict[str, Any]:
    """Dry run of `fit`, measured over a few steps; takes `fit`'s arguments.

    Returns:
        What `fit` would read and do: max_steps, tokens, replicates, finetunings, and the seconds of
        each part. With `train_with` nothing is measured.
    """
    seconds = _seconds(time, options.get("train_with", ""))
    request, machine = _resolve(**options)
    from corpusfit.fitting import fitting

    return fitting.estimate_fit(request, seconds, machine=machine)
