"""The commands `evaluate` and `run` as functions."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Unpack

from corpusfit.api.inputs import Inputs, inputs
from corpusfit.api.offers import EVALUATE, offers
from corpusfit.api.plans import build_evaluate_plan, local_place
from corpusfit.api.typed_options import EvaluateOptions
from corpusfit.core.artifacts import place
from corpusfit.evaluation import dry_run, evaluating
from corpusfit.evaluation.evaluating import Evaluated
from corpusfit.evaluation.plan import EvaluatePlan
from corpusfit.experiments import running, status
from corpusfit.experiments.config import Recipe
from corpusfit.experiments.loader import read_recipe
from corpusfit.experiments.running import Ran
from corpusfit.experiments.status import Missing
from corpusfit.text.context import Machine


@offers(EVALUATE)
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
    """Fine-tune a model on a labelled task with several seeds, and compare it with its base.

    Translation models are evaluated as they are, and so are causal models with
    `kind="language_modelling"`, `kind="few_shot"` or `kind="lm_eval"`.

    Args:
        task: a folder with train, dev and test in any supported format, a file, or `hub:NAME`; for
            translation models line-aligned files in a folder, or `pair:FILE,FILE`; for
            `kind="lm_eval"` the name or the YAML file of a task.
        out: local folder that is new, empty, or of the same task and settings.
        base: model to compare with (default: none).
        seeds: number of fine-tunings of each model and size; `{seed}` in the name of a model stands
            for the seed, so that each has a model of its own.
        train_sizes: numbers of training examples (default: all examples).
        plan: a plan, or a TOML file with settings.
        settings: further settings, such as `"finetune.warmup=0.06"`.
        overwrite: replace a different evaluation in `out`.
        machine: where to run, with how many workers, and where to show progress.
        **options: the options of the command line, by the same names.

    Returns:
        The finished evaluation: `manifest["results"]`, `manifest["comparisons"]`, `outcomes()`.

    Raises:
        CorpusfitError: see `corpusfit.core.errors`.
    """
    folder = local_place(out)
    built = build_evaluate_plan(plan, settings, **options)
    return evaluating.evaluate(
        built,
        inputs(task, "task", machine, built.task.text_field)[0],
        folder,
        base=str(base),
        seeds=seeds,
        train_sizes=train_sizes,
        machine=machine or Machine(),
        overwrite=overwrite,
    )


@offers(EVALUATE)
def estimate_evaluation(
    *,
    task: Inputs,
    base: str | Path = "",
    seeds: int = 8,
    train_sizes: Sequence[int] = (),
    plan: EvaluatePlan | Path | str | None = None,
    settings: Sequence[str] = (),
    machine: Machine | None = None,
    **options: Unpack[EvaluateOptions],
) -> dict[str, Any]:
    """Dry run of `evaluate`, measured over a few steps; takes `evaluate`'s arguments.

    Returns:
        fine_tunings, train, dev, test (examples), examples_per_second, seconds, words.
    """
    built = build_evaluate_plan(plan, settings, **options)
    return dry_run.estimate_evaluation(
        built,
        inputs(task, "task", machine, built.task.text_field)[0],
        base=str(base),
        seeds=seeds,
        train_sizes=train_sizes,
        machine=machine or Machine(),
    )


@offers()
def run(
    recipe: Recipe | Path | str,
    *,
    out: Path | str,
    keep_overlap: bool = False,
    cells: Path | str | None = None,
    only: Sequence[str] = (),
    overwrite: bool = False,
    machine: Machine | None = None,
) -> Ran:
    """Run a recipe: select, adapt and evaluate with several seeds, then compare.

    Args:
        recipe: a TOML file or a `Recipe`.
        out: local folder that is new, empty, or of the same recipe; finished steps are not
            repeated.
        keep_overlap: also train on copies of dev and test texts.
        cells: folder of finished cells' small files, of this recipe and others, which may be kept
            where selections and models cannot: what is there is not repeated, and what is
            finished is added.
        only: names of the tasks to run and compare (default: all).
        overwrite: delete a different recipe's steps in `out`.
        machine: where to run, with how many workers, and where to show progress.

    Returns:
        The tables with every figure, and the failed cells (`judged.failed`).

    Raises:
        CorpusfitError: see `corpusfit.core.errors`; finished steps are kept.
    """
    return running.run_recipe(
        _recipe(recipe, keep_overlap=keep_overlap),
        place(out, "`out`"),
        file=None if isinstance(recipe, Recipe) else Path(recipe),
        cells=_place(cells),
        only=only,
        machine=machine or Machine(),
        overwrite=overwrite,
    )


@offers()
def missing(
    recipe: Recipe | Path | str,
    *,
    out: Path | str,
    keep_overlap: bool = False,
    cells: Path | str | None = None,
    only: Sequence[str] = (),
    machine: Machine | None = None,
    overwrite: bool = False,
) -> Missing:
    """Dry run of `run`; takes its arguments, and writes only encoders to the cache."""
    found = _recipe(recipe, keep_overlap=keep_overlap)
    return status.missing(
        found,
        place(out, "`out`"),
        cells=_place(cells),
        only=only,
        machine=machine or Machine(),
        overwrite=overwrite,
    )


def _place(cells: Path | str | None) -> Path | None:
    return None if cells is None else place(cells, "`cells`")


def _recipe(recipe: Recipe | Path | str, *, keep_overlap: bool) -> Recipe:
    found = recipe if isinstance(recipe, Recipe) else read_recipe(Path(recipe))
    return dataclasses.replace(found, keep_overlap=True) if keep_overlap else found
