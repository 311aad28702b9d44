"""Reads a recipe's tasks, pile and models, and fingerprints their content."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from corpusfit import CorpusfitError, Machine, Plan
from corpusfit import text as corpus
from corpusfit.contracts import EmbedPlan, LearnedTaskType, bad_setting, write_bytes
from corpusfit.core.engine import Progress
from corpusfit.core.hub import downloaded
from corpusfit.core.manifest import digest, source_identity
from corpusfit.core.plan import PAIR, ReadPlan
from corpusfit.core.types import Source
from corpusfit.embed import prepare
from corpusfit.evaluation.network import head_fingerprint
from corpusfit.evaluation.plan import TaskPlan, metric_of
from corpusfit.evaluation.reading import read_task
from corpusfit.evaluation.rows import row_of
from corpusfit.evaluation.task import (
    Examples,
    Task,
    notable,
    split_overlaps,
    store_task,
    task_digest,
)
from corpusfit.evaluation.tasks import load
from corpusfit.selection.resolving import embedder_for
from corpusfit.training.plan import TASK
from corpusfit_papers.experiments.config import (
    BASE,
    COMPOSE,
    INIT,
    ORACLE,
    TRANSLATION,
    Recipe,
    RecipeTask,
    Selector,
)
from corpusfit_papers.experiments.fingerprints import encoders_of, method_of, translators
from corpusfit_papers.experiments.folder import RecipeFolder
from corpusfit_papers.experiments.grid import task_plan
from corpusfit_papers.mixing.plan import CompositionPlan
from corpusfit_papers.mixing.plan import read_recipe as read_composition


@dataclass(frozen=True)
class StoredTask:
    """A task of some size, in the recipe's folder."""

    name: str
    size: int  # number of training examples that the recipe asks for; 0 for all
    examples: int  # number of training examples that it has
    kind: str
    metric: str
    # digests: of the whole task, of its training texts, of those that selections score, of its
    # training examples with their labels, of its dev and test texts
    key: str
    texts: str
    target: str
    learned: str
    judged: str
    splits: tuple[int, int] = (0, 0)  # numbers of dev and test examples
    copies: int = 0  # test examples whose text is in train too
    notes: tuple[str, ...] = ()
    turned: bool = False  # whether it translates into the texts of the corpus that are read


@dataclass(frozen=True)
class RecipeInputs:
    """The inputs of all steps, with fingerprints."""

    recipe: Recipe
    folder: RecipeFolder
    tasks: Mapping[tuple[str, int], StoredTask]  # by name and size
    # fingerprints: sources of the corpus, models (translation models too), encoders, and files
    # that methods read
    pile: Mapping[str, str]
    models: Mapping[str, str]
    encoders: Mapping[EmbedPlan, str] = field(default_factory=dict)
    files: Mapping[str, str] = field(default_factory=dict)
    # by recipe, the plan of a composition with what decides its text
    compositions: Mapping[str, tuple[CompositionPlan, str]] = field(default_factory=dict)
    # settings that the search chose, by task and size
    found: Mapping[tuple[str, int], dict[str, int]] = field(default_factory=dict)
    only: tuple[str, ...] = ()  # tasks whose cells are run; empty for all

    def runs(self, task: str) -> bool:
        """Whether the cells of a task are run."""
        return not self.only or task in self.only

    def first(self) -> StoredTask:
        """The first task, for selections that do not depend on the task."""
        return next(iter(self.tasks.values()))


def load_inputs(
    recipe: Recipe, folder: RecipeFolder, machine: Machine, *, store: bool
) -> RecipeInputs:
    """Read and fingerprint everything that steps depend on, at about a second per gigabyte."""
    downloaded.clear()  # each command asks the hub again
    read = recipe.selectors[0].select.read
    pile = {}
    names = ("", "")  # of the two texts of a row
    models = {
        name: name if name.startswith(INIT) else head_fingerprint(name, key)
        for name, key in recipe.every_model.items()
    }
    models |= {name: head_fingerprint(name, flag) for name, flag in translators(recipe).items()}
    if recipe.corpus:
        sources = corpus.find(recipe.corpus, read, role="corpus", note=machine.progress.note)
        pile = source_identity(sources)
        trains = [s for s in recipe.selectors if s.strategy not in (BASE, TASK, COMPOSE)]
        translates = any(s.adapt.objective.kind.columns == 2 for s in trains)
        if translates and not corpus.is_parallel(sources):
            allowed = "aligned pairs, as adapt.objective.name trains on them"
            raise bad_setting("corpus", allowed, ", ".join(recipe.corpus))
        # resolve what depends on the corpus, as steps are identified by final settings
        recipe = dataclasses.replace(recipe, selectors=_with_embedders(recipe, sources))
        if corpus.is_parallel(sources):
            names = corpus.sides(sources)
    plans = [s.select for s in recipe.selectors if s.selects and s.strategy != ORACLE]
    encoders = {
        embed: prepare(embed)
        for embed in dict.fromkeys(e for plan in plans for e in encoders_of(plan))
    }
    files = {
        file: corpus.fingerprint(file)[0]
        for file in dict.fromkeys(f for p in plans for f in method_of(p).files)
    }
    tasks = {}
    for entry in recipe.tasks:
        for stored in _stored(recipe, entry, names, folder, machine.progress, store=store):
            tasks[stored.name, stored.size] = stored
    recipe = _with_direction(recipe, list(tasks.values()))
    composition_files = (s.composition_for(task) for s in recipe.selectors for task in recipe.tasks)
    files_of = filter(None, dict.fromkeys(composition_files))
    compositions = {file: _composition(file) for file in files_of}
    return RecipeInputs(recipe, folder, tasks, pile, models, encoders, files, compositions)


def _composition(file: str) -> tuple[CompositionPlan, str]:
    """A composition's plan, and the digest of its settings and its texts."""
    plan = read_composition(Path(file))
    decides = dataclasses.asdict(plan)
    for source, settings in zip(plan.sources, decides["sources"], strict=True):
        for name in ("path", "target"):
            inputs = getattr(source, name)
            settings[name] = {}
            if inputs:
                role = f"source {source.name}: {name}"
                sources = corpus.find(inputs, source.read, role=role)
                settings[name] = source_identity(sources)
    return plan, digest(decides)


def _with_embedders(recipe: Recipe, sources: Sequence[Source]) -> tuple[Selector, ...]:
    """The selectors, with embedder `auto` resolved."""
    return tuple(
        dataclasses.replace(s, select=_with_embedder(s.select, sources))
        if s.selects and s.strategy != ORACLE
        else s
        for s in recipe.selectors
    )


def _with_embedder(plan: Plan, sources: Sequence[Source]) -> Plan:
    encodes = method_of(plan).encodes
    return plan.with_value("embed.embedder", embedder_for(plan.embed, sources, encodes=encodes)[0])


def _with_direction(recipe: Recipe, tasks: Sequence[StoredTask]) -> Recipe:
    """The recipe with trainings from the texts that the tasks translate, whichever are scored."""
    turned = {task.turned for task in tasks if task.kind == TRANSLATION}
    if turned == {False, True}:
        raise bad_setting("tasks", "translations in one direction", "both directions")
    if turned != {True}:
        return recipe
    selectors = (
        dataclasses.replace(s, adapt=s.adapt.with_value("read.text_field", PAIR[1]))
        for s in recipe.selectors
    )
    return dataclasses.replace(recipe, selectors=tuple(selectors))


def _stored(
    recipe: Recipe,
    entry: RecipeTask,
    names: tuple[str, str],
    folder: RecipeFolder,
    progress: Progress,
    *,
    store: bool,
) -> Iterator[StoredTask]:
    """A task in each size that it reaches, with its texts as the target (TADPOLE, section 4.2)."""
    plan = task_plan(recipe, entry)
    try:
        whole = read_task(entry.path, plan.task, seed=recipe.seed)
    except CorpusfitError as e:
        e.within.append(f"the task {entry.name} of the recipe")
        raise
    common = split_overlaps(whole)
    for note in (*whole.notes, *notable(common)):
        progress.warn(f"{entry.name}: {note}")
    read = recipe.selectors[0].select.read
    n = len(whole.train)
    learns = isinstance(load(whole.kind), LearnedTaskType)
    if plan.task.loss_on and plan.task.text_field != read.text_field:  # one training reads both
        allowed = f"that of the corpus, {read.text_field!r}, with `task.loss_on`"
        raise bad_setting("evaluate.task.text_field", allowed, plan.task.text_field)
    parallel = whole.kind == TRANSLATION
    turned = parallel and (whole.labels[1], whole.labels[0]) == names
    if parallel and n:
        progress.warn(f"{entry.name}: train ({n:,} pairs), not dev, is the target of selections.")
    sizes = (sorted(recipe.train_sizes) if learns else []) or [0]
    beyond = [size for size in sizes if size > n]
    if beyond:
        progress.warn(
            f"{entry.name} has {n:,} training examples, fewer than {beyond[0]:,}; its largest row "
            "uses all of them."
        )
    for size in [*(size for size in sizes if size <= n), *beyond[:1]]:
        task = whole.first(size, recipe.seed) if 0 < size < n else whole
        stored = StoredTask(
            entry.name,
            size,
            len(task.train),
            task.kind,
            metric_of(plan.task, task.kind),
            key=task_digest(dataclasses.replace(task, name="", notes=())),
            texts=digest(_guarded(_target(task), parallel=parallel)),
            target=digest(_scored_texts(_target(task), turned=turned)),
            learned=digest([task.kind, task.labels, task.train.pieces, task.train.labels]),
            judged=digest(
                [_guarded(examples, parallel=parallel) for examples in (task.dev, task.test)]
            ),
            splits=(len(task.dev), len(task.test)),
            copies=(common if task is whole else split_overlaps(task))[1].shared,
            notes=task.notes,
            turned=turned,
        )
        if store:
            _store(task, folder, stored, read, plan.task)
        yield stored


def _target(task: Task) -> Examples:
    """The examples whose texts are the target: train, or dev of a task without it.

    Reference: Aharoni and Goldberg (2020), section 4.1, selects by the dev set of each domain.
    """
    return task.train if len(task.train) else task.dev


def _guarded(examples: Examples, *, parallel: bool) -> list[str]:
    """Texts that no training text may contain; both sides for a translation task."""
    labels = (str(label) for names in examples.labels for label in names)
    return [*examples.texts(), *(labels if parallel else ())]


def _scored_texts(examples: Examples, *, turned: bool) -> list[str]:
    """The texts that selections score: in the language of the corpus's texts that are read."""
    return _translations(examples) if turned else examples.texts()


def _translations(examples: Examples) -> list[str]:
    return [str(label[0]) for label in examples.labels]


def _store(
    task: Task, folder: RecipeFolder, stored: StoredTask, read: ReadPlan, plan: TaskPlan
) -> None:
    """Write a task for fine-tuning, and the texts of its splits for `--target` and `--guard`.

    Of a translation task, texts of the target and of dev are also written with their translations,
    in the order of the corpus's pairs.
    """
    key = stored.key
    turned = stored.turned
    parallel = task.kind == TRANSLATION
    target = _target(task)
    heldout = {s: _guarded(getattr(task, s), parallel=parallel) for s in ("dev", "test")}
    for split, texts in {"train": _scored_texts(target, turned=turned), **heldout}.items():
        path = folder.texts(key, split)
        rows = (row_of(text, plan, read.text_field) for text in texts)
        data = "".join(json.dumps(row) + "\n" for row in rows).encode()
        # the file is compared whole, because no digest covers how it is read
        if not path.exists() or path.read_bytes() != data:
            write_bytes(path, data)
    for split, examples in (("train", target), ("dev", task.dev)) if parallel else ():
        others = examples.texts() if turned else _translations(examples)
        pairs = zip(_scored_texts(examples, turned=turned), others, strict=True)
        lines = [f"{_one_line(text)}\t{_one_line(other)}\n" for text, other in pairs]
        write_bytes(folder.pairs(key, split), "".join(lines).encode())
    if not folder.task(key).exists():
        store_task(task, folder.task(key))


def _one_line(text: str) -> str:
    return " ".join(text.split())
