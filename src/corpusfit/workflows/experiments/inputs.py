"""Reads a recipe's tasks, pile and models, and fingerprints their content."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator, Sequence
from pathlib import Path

from corpusfit import corpus
from corpusfit.adapt.plan import TASK, TRANSLATION
from corpusfit.artifacts import write_bytes
from corpusfit.compose.plan import CompositionPlan
from corpusfit.compose.plan import read_recipe as read_composition
from corpusfit.embed.load import prepare
from corpusfit.engine import Progress
from corpusfit.errors import bad_setting, called_by
from corpusfit.evaluate.network import head_fingerprint
from corpusfit.evaluate.overlaps import split_overlaps
from corpusfit.evaluate.plan import metric_of
from corpusfit.evaluate.reading import read_task
from corpusfit.evaluate.registry import load, names
from corpusfit.evaluate.task import Examples, Task, store_task, task_digest
from corpusfit.manifest import digest, source_identity
from corpusfit.types import Source
from corpusfit.workflows.context import Machine
from corpusfit.workflows.experiments.config import COMPOSE, INIT, ORACLE, Recipe, Selector
from corpusfit.workflows.experiments.entries import BASE, RecipeTask
from corpusfit.workflows.experiments.fingerprints import encoders_of, methods_of, translators
from corpusfit.workflows.experiments.folder import RecipeFolder
from corpusfit.workflows.experiments.graph import with_found
from corpusfit.workflows.experiments.grid import task_plan
from corpusfit.workflows.experiments.nodes import RecipeInputs, StoredTask
from corpusfit.workflows.experiments.recipe_keys import RecipeKeys
from corpusfit.workflows.selection.embedder_by_size import by_size


def load_inputs(
    recipe: Recipe, folder: RecipeFolder, machine: Machine, *, store: bool
) -> RecipeInputs:
    """Read and fingerprint everything that steps depend on.

    Every command reads all of it, at about a second per gigabyte.

    Args:
        recipe: the recipe.
        folder: where tasks are stored.
        machine: its cache stores missing encoders; its progress gets the warnings.
        store: whether to write the tasks; false for a dry run.

    Raises:
        CorpusfitError: a task, the corpus, a model or a file cannot be read.
    """
    read = recipe.selectors[0].select.read
    pile = {}
    with called_by(RecipeKeys("evaluate")):
        models = {
            name: name if name.startswith(INIT) else head_fingerprint(name)
            for name in recipe.every_model
        }
        models |= {name: head_fingerprint(name, flag) for name, flag in translators(recipe).items()}
    with called_by(RecipeKeys("select")):
        if recipe.corpus:
            found = corpus.find(
                recipe.corpus, read, spool=folder.work, role="corpus", note=machine.progress.note
            )
            pile = source_identity(found)
            trains = [s for s in recipe.selectors if s.strategy not in (BASE, TASK, COMPOSE)]
            translates = any(s.adapt.objective.name == TRANSLATION for s in trains)
            if translates and not corpus.is_parallel(found):
                allowed = "aligned pairs with adapt.objective.name = translation"
                raise bad_setting("corpus", allowed, ", ".join(recipe.corpus))
            recipe = dataclasses.replace(recipe, selectors=_with_embedders(recipe, found))
        plans = [s.select for s in recipe.selectors if s.selects and s.strategy != ORACLE]
        encoders = {
            embed: prepare(embed, machine.cache_folder())
            for embed in dict.fromkeys(e for plan in plans for e in encoders_of(plan))
        }
        files = {
            file: corpus.fingerprint(file)[0]
            for file in dict.fromkeys(f for p in plans for m in methods_of(p) for f in m.files)
        }
    tasks = {}
    with called_by(RecipeKeys("evaluate")):
        for entry in recipe.tasks:
            for stored in _stored(recipe, entry, folder, machine.progress, store=store):
                tasks[stored.name, stored.size] = stored
    compositions = {file: _composition(file, folder) for file in _compositions(recipe)}
    inputs = RecipeInputs(recipe, folder, tasks, pile, models, encoders, files, compositions)
    return with_found(inputs)


def _compositions(recipe: Recipe) -> Iterator[str]:
    """The recipes of compositions, each once."""
    named = (
        selector.composition_for(task) for selector in recipe.selectors for task in recipe.tasks
    )
    yield from filter(None, dict.fromkeys(named))


def _composition(file: str, folder: RecipeFolder) -> tuple[CompositionPlan, str]:
    """A composition's plan, and the digest of its settings and its texts."""
    plan = read_composition(Path(file))
    decides = dataclasses.asdict(plan)
    for source, settings in zip(plan.sources, decides["sources"], strict=True):
        for name in ("path", "target"):
            inputs = getattr(source, name)
            settings[name] = {}
            if inputs:
                role = f"source {source.name}: {name}"
                found = corpus.find(inputs, source.read, spool=folder.work, role=role)
                settings[name] = source_identity(found)
    return plan, digest(decides)


def _with_embedders(recipe: Recipe, sources: Sequence[Source]) -> tuple[Selector, ...]:
    """The selectors, each with an embedder in the place of `auto`."""
    return tuple(
        dataclasses.replace(s, select=by_size(s.select, sources, workers=1, cascade=False)[0])
        if s.selects and s.strategy != ORACLE
        else s
        for s in recipe.selectors
    )


def _stored(
    recipe: Recipe, entry: RecipeTask, folder: RecipeFolder, progress: Progress, *, store: bool
) -> Iterator[StoredTask]:
    """A task in each size that it reaches, with its texts as the target (TADPOLE, section 4.2)."""
    plan = task_plan(recipe, entry)
    kind = plan.task.kind
    if kind in names() and not load(kind).forms:  # without texts to decontaminate against
        cure = f"Evaluate on {entry.name} with `corpusfit evaluate`."
        raise bad_setting("tasks.evaluate.task.kind", "a kind that reads files", kind, cure)
    whole = read_task(entry.path, plan.task, seed=recipe.seed)
    common = split_overlaps(whole)
    for note in (*whole.notes, *common.notes()):
        progress.warn(f"{entry.name}: {note}")
    n, learns = len(whole.train), load(whole.kind).learns
    parallel = load(whole.kind).parallel
    asked = (sorted(recipe.train_sizes) if learns else []) or [0]
    beyond = [size for size in asked if size > n]
    if beyond:
        progress.warn(
            f"{entry.name} has {n:,} training examples, fewer than {beyond[0]:,}; its largest row "
            "uses all of them."
        )
    for size in [*(size for size in asked if size <= n), *beyond[:1]]:
        task = whole.first(size, recipe.seed) if 0 < size < n else whole
        found = StoredTask(
            entry.name,
            size,
            len(task.train),
            task.kind,
            metric_of(plan.task, task.kind),
            key=task_digest(dataclasses.replace(task, name="", notes=())),
            texts=digest(_target(task).texts()),
            learned=digest([task.kind, task.labels, task.train.pieces, task.train.labels]),
            judged=digest([_guarded(own, parallel=parallel) for own in (task.dev, task.test)]),
            splits=(len(task.dev), len(task.test)),
            copies=(common if task is whole else split_overlaps(task)).between[1].shared,
            notes=task.notes,
        )
        if store:
            _store(task, folder, found.key, recipe.selectors[0].select.read.text_field)
        yield found


def _target(task: Task) -> Examples:
    """The examples whose texts are the target: train, or dev of a task without it.

    Reference: Aharoni and Goldberg (2020), section 4.1, selects by the dev set of each domain.
    """
    return task.train if len(task.train) else task.dev


def _guarded(examples: Examples, *, parallel: bool) -> list[str]:
    """The texts that no training text may contain; of a translation task those of both sides."""
    labels = (str(label) for own in examples.labels for label in own)
    return [*examples.texts(), *(labels if parallel else ())]


def _store(task: Task, folder: RecipeFolder, key: str, field: str) -> None:
    """Write a task for fine-tuning, and the texts of its splits for `--target` and `--guard`.

    Of a translation task, the target's texts are also written with their translations.
    """
    parallel, target = load(task.kind).parallel, _target(task)
    held = {s: _guarded(getattr(task, s), parallel=parallel) for s in ("dev", "test")}
    for split, texts in {"train": target.texts(), **held}.items():
        path = folder.texts(key, split)
        data = "".join(json.dumps({field: text}) + "\n" for text in texts).encode()
        if not path.exists() or path.read_bytes() != data:  # no digest covers the field's name
            write_bytes(path, data)
    if parallel:
        pairs = zip(target.texts(), target.labels, strict=True)
        lines = [f"{_one_line(text)}\t{_one_line(own[0])}\n" for text, own in pairs]
        write_bytes(folder.pairs(key), "".join(lines).encode())
    if not folder.task(key).exists():
        store_task(task, folder.task(key))


def _one_line(text: str) -> str:
    return " ".join(text.split())
