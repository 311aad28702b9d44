"""What a recipe reads before any step: its tasks, its pile and its models, by content.

What: every task of every size is stored once for the workers, its training texts beside it as the
target of selections; the pile's sources and the models get fingerprints.
Why: a step is named by what decides it, and that is content, not paths.
Trade-off: all of it is read at the start of every command, a second a gigabyte.
Reference: TADPOLE, section 4.2: a subsample is treated as a new task, so its target is those texts.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator

from corpusfit import corpus
from corpusfit.artifacts import write_bytes
from corpusfit.engine import Progress
from corpusfit.evaluate.network import head_fingerprint
from corpusfit.evaluate.plan import metric_of
from corpusfit.evaluate.reading import read_task
from corpusfit.evaluate.task import Task, store_task, task_digest
from corpusfit.manifest import RecipeFolder, digest, source_identity
from corpusfit.pipeline.recipes.cells import task_plan
from corpusfit.pipeline.recipes.recipe import Recipe, RecipeTask
from corpusfit.pipeline.recipes.work import Made, StoredTask

__all__ = ["made_of"]


def made_of(recipe: Recipe, folder: RecipeFolder, progress: Progress, *, store: bool) -> Made:
    """Read all that steps are made of.

    Args:
        recipe: what is asked for.
        folder: where tasks are stored.
        progress: told what is odd.
        store: whether to write the tasks; a dry run does not.

    Raises:
        CorpusfitError: a task, the pile or a model cannot be read.
    """
    read = recipe.selectors[0].select.read
    pile = {}
    if recipe.pile:
        pile = source_identity(corpus.find(recipe.pile, read, spool=folder.work, role="pile"))
    models = {name: head_fingerprint(name) for name in recipe.models}
    tasks = {}
    for entry in recipe.tasks:
        for stored in _stored(recipe, entry, folder, progress, read.text_field, store=store):
            tasks[stored.name, stored.size] = stored
    return Made(recipe, folder, tasks, pile, models)


def _stored(
    recipe: Recipe,
    entry: RecipeTask,
    folder: RecipeFolder,
    progress: Progress,
    field: str,
    *,
    store: bool,
) -> Iterator[StoredTask]:
    """A task in all sizes that it has; those of its own size and above are one."""
    plan = task_plan(recipe, entry)
    whole = read_task(entry.path, plan.task, seed=recipe.seed)
    n = len(whole.train)
    wanted = recipe.train_sizes or (n,)
    for size in sorted({min(size, n) for size in wanted}):
        task = whole if size == n else whole.first(size, recipe.seed)
        if size == n and n < max(wanted):
            progress.warn(f"{entry.name} has {n} training examples, fewer than {max(wanted)}.")
        found = StoredTask(
            entry.name,
            0 if size == n else size,
            size,
            task.kind,
            metric_of(plan.task, task.kind),
            key=task_digest(dataclasses.replace(task, name="", notes=())),
            texts=digest(task.train.texts()),
            judged=digest([task.dev.texts(), task.test.texts()]),
            notes=task.notes,
        )
        if store:
            _store(task, folder, found.key, field)
        yield found


def _store(task: Task, folder: RecipeFolder, key: str, field: str) -> None:
    """Write a task for fine-tuning, and the texts of its splits for selecting and guarding."""
    for split in ("train", "dev", "test"):
        path, texts = folder.texts(key, split), getattr(task, split).texts()
        data = "".join(json.dumps({field: text}) + "\n" for text in texts).encode()
        if not path.exists() or path.read_bytes() != data:  # the field's name is not in the key
            write_bytes(path, data)
    if not folder.task(key).exists():
        store_task(task, folder.task(key))
