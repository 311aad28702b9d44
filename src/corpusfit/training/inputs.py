"""Finds, checks and samples the texts of a training: data, task and replay."""

from __future__ import annotations

import dataclasses
import heapq
import itertools
import re
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from corpusfit import text as corpus
from corpusfit.core.artifacts import folder_path, is_local
from corpusfit.core.engine import Progress
from corpusfit.core.errors import (
    CorpusfitError,
    EmptyInputError,
    InputError,
    bad_setting,
)
from corpusfit.core.manifest import undamaged
from corpusfit.core.plan import OF_A_TEXT, PAIR, Plan, ReadPlan
from corpusfit.core.types import Document, Shard, Source
from corpusfit.decontamination.finder import ContaminationFinder, HeldoutIndex
from corpusfit.kernels.chance import keys_at, uniform
from corpusfit.selection.folder import SelectionFolder
from corpusfit.text.context import Run
from corpusfit.text.fields import fields_in, is_conversation
from corpusfit.training.chats import no_template
from corpusfit.training.models import LoadedModel
from corpusfit.training.plan import ALL, COMPLETION, TASK, AdaptPlan

TEXTS = "texts"
PAIRS = "pairs"
CHATS = "chats"
"""What a row of a training is: a text, a text and its translation, or a conversation."""
_OVERSAMPLING = 3
_FIRST_ROWS = 1_000
_LARGER = 4  # times a row of the corpus, as a line of a selection may be
_FIELD = re.compile(r"\{([^{}]+)\}")


@dataclass(frozen=True)
class TrainingInputs:
    """The texts of a training."""

    data: list[Source]  # sources to train on; empty to train on the task's texts
    task: list[Source]  # the task's texts, to measure the loss on or to train on
    replay: list[Source]  # general text to mix in
    selection: dict[str, Any] | None = None  # manifest of the selection, if the data is one
    folder: Path | None = None  # folder of that selection
    read: ReadPlan = field(default_factory=ReadPlan)  # how the data's rows become texts
    # how the task's rows become texts; a selection's own setting for its target
    task_read: ReadPlan = field(default_factory=ReadPlan)
    own_task: bool = False  # whether the task is the selection's target
    form: str = TEXTS  # what a row is

    @property
    def on_task(self) -> bool:
        """Whether the model trains on the task's own texts."""
        return not self.data


def find_training_inputs(
    data: Sequence[str],
    task: Sequence[str],
    replay: Sequence[str],
    read: ReadPlan,
    context: Run,
) -> TrainingInputs:
    """Find and fingerprint the texts; the default task of a selection is its target."""

    def find(inputs: Sequence[str], role: str) -> list[Source]:
        return context.find(inputs, read, role) if inputs else []

    require_own_text(data, task)
    tasks = find(task, "task")
    general = find(replay, "replay")
    if list(data) == [TASK]:
        return TrainingInputs([], tasks, general, read=read, task_read=read)
    run = _selection(data)
    if run is None:
        sources = find(data, "data")
        return TrainingInputs(sources, tasks, general, read=read, task_read=read)
    manifest = finished_selection(run, "data")
    task_read = read
    own_task = not tasks
    if own_task:
        with undamaged(run.path):
            task_read = Plan.from_dict(manifest["plan"]).target_read
            tasks = _targets(manifest, task_read, context)
    chosen = find([str(run.path / "selected")], "data")
    plain = read_of_selected(manifest)
    # of pairs the other text may be read
    if manifest["selected"].get("aligned") and read.text_field == PAIR[1]:
        plain = dataclasses.replace(plain, text_field=PAIR[1])
    return TrainingInputs(chosen, tasks, general, manifest, run.path, plain, task_read, own_task)


def require_own_text(data: Sequence[str], task: Sequence[str]) -> None:
    """Raise `UsageError` for --data task without --task."""
    if list(data) == [TASK] and not task:
        cure = "For instance `data=task` `task=train.jsonl`."
        raise bad_setting("`task`", "set with `data=task`", "nothing", cure)


def require_task(texts: TrainingInputs) -> None:
    """Raise `UsageError` if a second phase (`--then-task`) has no text."""
    if not texts.task:
        cure = "For example `task=train.jsonl`."
        raise bad_setting("`task`", "set with `then_task.on`", "nothing", cure)


def _selection(data: Sequence[str]) -> SelectionFolder | None:
    """The selection's folder, if the data is a selection."""
    for name in data:
        run = SelectionFolder(folder_path(name, "`data`"))
        if not (run.work / "run.json").exists() or not run.scores.is_dir():
            continue
        # weights need the scores of one local selection, so it must be the only input
        if len(data) > 1:
            cure = "To use a selection's text without weights, name its folder selected/."
            raise bad_setting("`data`", "one selection, or other inputs", " and ".join(data), cure)
        if not is_local(run.path):
            cure = "Copy the selection here, or name its folder selected/ to use only its text."
            raise bad_setting("`data`", "a selection on this machine", name, cure)
        return run
    return None


def finished_selection(run: SelectionFolder, role: str) -> dict[str, Any]:
    """The manifest of a finished selection that is not empty; `role` names the argument."""
    manifest = run.finished()
    if manifest is None or not manifest.get("selected"):
        raise InputError(
            f"`{role}={run.path}` holds a selection that is not finished. Run the same `corpusfit "
            "select` again."
        )
    with undamaged(run.path):
        empty = not manifest["selected"]["segments"]
    if empty:
        raise EmptyInputError(
            f"`{role}={run.path}` is an empty selection. Select more with `corpusfit choose "
            f"{shlex.quote(str(run.path))} --fraction 0.2`."
        )
    return manifest


def read_of_selected(manifest: dict[str, Any]) -> ReadPlan:
    """How the lines of a selection are read: they hold a text and the fields that it is made of."""
    return ReadPlan(max_row_mb=_LARGER * manifest["plan"]["read"]["max_row_mb"])


def _targets(manifest: dict[str, Any], read: ReadPlan, context: Run) -> list[Source]:
    """The sources of the selection's target; empty if they are gone or changed."""
    sources = [Source(**s) for s in manifest["target"]]
    try:
        now, changed = corpus.current_sources(sources, read, context.engine, context.surveys)
        reason = f"The selection's target {changed[0]} has changed." if changed else ""
    except CorpusfitError as e:
        reason = str(e)
    if reason:
        context.progress.warn(
            f"{reason} The loss on the task's text is not measured; to measure it, set `task` to "
            "the file with the task's texts."
        )
        return []
    return now


def as_objective_reads(
    plan: AdaptPlan, texts: TrainingInputs, base: LoadedModel | None, progress: Progress
) -> TrainingInputs:
    """The texts in the form that the plan's objective reads.

    Args:
        plan: the plan.
        texts: the texts that were found.
        base: the model, whose tokenizer may have a chat template; None for an untrained one.
        progress: is told what is read otherwise than asked.

    Raises:
        UsageError: the data has no pairs, or not what `objective.loss_on` asks for.
        ModelError: the model has no chat template, and `objective.loss_on` needs one.
    """
    kind = plan.objective.kind
    if kind.columns == 2:
        return _as_pairs(texts, progress)
    return _as_conversations(plan, texts, base, progress) if kind.causal else texts


def _as_pairs(texts: TrainingInputs, progress: Progress) -> TrainingInputs:
    """Aligned pairs; a selection's target that is none is dropped."""
    pairs = corpus.is_parallel(texts.data)
    if texts.selection is not None:
        pairs = bool(texts.selection["selected"].get("aligned"))
        if texts.own_task and not corpus.is_parallel(texts.task):
            progress.note(
                "The selection's target has no translations, so the loss on the task is not "
                "measured. Name pairs of the task with `task=pair:dev.de,dev.en`."
            )
            texts = dataclasses.replace(texts, task=[], own_task=False)
    aligned = {"data": pairs, "task": corpus.is_parallel(texts.task)}
    aligned["replay"] = corpus.is_parallel(texts.replay)
    for role in (role for role, is_aligned in aligned.items() if not is_aligned):
        allowed = "aligned pairs, or a selection of them, for this objective"
        cure = f"Name two line-aligned files: `{role}=pair:all.de,all.en`."
        raise bad_setting(f"`{role}`", allowed, "texts", cure)
    return dataclasses.replace(texts, form=PAIRS)


def rows_read(texts: TrainingInputs) -> ReadPlan:
    """How the data's rows are read; of a selection not the segments, but the rows they are of."""
    if texts.selection is None:
        return texts.read
    field = texts.selection["plan"]["read"]["text_field"]
    names = {name: f"row_{name}" if name in OF_A_TEXT else name for name in fields_in(field)}
    field = names.get(field) or _FIELD.sub(lambda match: f"{{{names[match[1]]}}}", field)
    return dataclasses.replace(texts.read, text_field=field)


def holds_conversations(sources: Sequence[Source], read: ReadPlan) -> bool:
    """Whether some of the first rows of texts are conversations."""
    rows = (row for shard in corpus.shards(sources, read) for row in corpus.rows(shard, read))
    return any(
        isinstance(row, Document) and is_conversation(row.fields, read.text_field)
        for row in itertools.islice(rows, _FIRST_ROWS)
    )


def _as_conversations(
    plan: AdaptPlan, texts: TrainingInputs, base: LoadedModel | None, progress: Progress
) -> TrainingInputs:
    """Conversations or completions, if the data has any."""
    loss_on = plan.objective.loss_on
    read = rows_read(texts)
    chats = holds_conversations(texts.data or texts.task, read)
    if not chats and loss_on == ALL:
        return texts
    fields = _FIELD.findall(read.text_field)
    completion = loss_on == COMPLETION and len(set(fields)) == len(fields) > 1
    if not chats and not completion:
        template = (
            ", or a template that ends with it, such as `read.text_field={prompt}{completion}`"
        )
        raise bad_setting(
            "`read.text_field`",
            f"a field with the messages of conversations with `objective.loss_on={loss_on}`"
            + (template if loss_on == COMPLETION else ""),
            read.text_field,
            "For example `read.text_field=messages`, or leave out `objective.loss_on`.",
        )
    if chats and not getattr(base and base.tokenizer, "chat_template", None):
        name = base.name if base is not None else f"`model.init={plan.model.init}`"
        lacking = f"{name} has no chat template"
        if loss_on == ALL:
            progress.note(
                f"{lacking}, so conversations are trained on as plain text, a line for each "
                "message."
            )
            return texts
        raise no_template(name, f"objective.loss_on={loss_on}")
    if texts.selection is not None and texts.selection["plan"]["cut"]["unit"] != "document":
        parts = "The selection holds parts of conversations"
        if loss_on == ALL:
            progress.warn(
                f"{parts}, so they are trained on as plain text, a line for each message. Select "
                "whole ones with `cut.unit=document`."
            )
            return texts
        raise bad_setting(
            "`objective.loss_on`",
            "all for a selection of parts of conversations",
            loss_on,
            "Select whole ones with `cut.unit=document`.",
        )
    return dataclasses.replace(texts, read=read, form=CHATS)


def sample_texts(
    texts: TrainingInputs, seed: int, guarded: Sequence[str], characters: int
) -> Iterator[str]:
    """A sample of about `characters` characters of the data, in order; 0 takes all."""
    # without a guard nothing is searched, as a search of every small file takes longer than reading
    finder = ContaminationFinder(HeldoutIndex.of_texts(guarded)) if guarded else None
    sources = texts.data or texts.task
    size = sum(s.size for s in sources)
    # a heap of negated draws, so that the text with the highest draw is removed first
    sample: list[tuple[float, int, int, str]] = []
    total = 0
    for shard in corpus.shards(sources, texts.read):
        # Of a large corpus, the first shard and a random part of the others are enough. Texts are
        # drawn uniformly from those.
        draw = uniform(keys_at(seed, *_places(shard, 1)))[0]
        if characters and shard.index and draw * size >= _OVERSAMPLING * characters:
            continue
        documents = corpus.documents(shard, texts.read)[0]
        draws = uniform(keys_at(seed + 1, *_places(shard, len(documents)))).tolist()
        holders = set(finder.find(documents.texts).text.tolist()) if finder else set[int]()
        for i, text in enumerate(documents.texts.to_pylist()):
            if i in holders:
                continue
            if not characters:
                yield text
                continue
            heapq.heappush(sample, (-draws[i], shard.index, i, text[:characters]))
            total += len(text[:characters])
            while total - len(sample[0][-1]) >= characters:
                total -= len(heapq.heappop(sample)[-1])
    for *_, text in sorted(sample, key=lambda each: each[1:3]):
        yield text


def _places(shard: Shard, n: int) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
    """The shard's number [n] and the numbers of its first n texts, by which chance draws."""
    return np.full(n, shard.index, np.uint64), np.arange(n)
