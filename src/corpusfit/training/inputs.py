"""Finds and fingerprints the texts of a training: data, task and replay."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from corpusfit import text as corpus
from corpusfit.core.artifacts import is_local, place
from corpusfit.core.errors import CorpusfitError, EmptyInputError, InputError, bad_setting
from corpusfit.core.manifest import OutFolder, undamaged
from corpusfit.core.plan import SECOND, Plan, ReadPlan
from corpusfit.core.types import Source
from corpusfit.selection.folder import SelectionFolder
from corpusfit.text.context import RunContext
from corpusfit.text.contract import SIDES
from corpusfit.text.survey_job import scan_with
from corpusfit.training.plan import TASK


@dataclass(frozen=True)
class TrainingInputs:
    """The texts of a training.

    Attributes:
        data: sources to train on; empty to train on the task's texts.
        task: the task's texts, to measure the loss on or to train on.
        replay: general text to mix in.
        selection: manifest of the selection, if the data is one.
        folder: folder of that selection.
        read: how the data's rows become texts.
        task_read: how the task's rows become texts; a selection's own setting for its target.
        own_task: whether the task is the selection's target.
        then: texts of a second phase other than the task's, read as these; empty for the task's.
    """

    data: list[Source]
    task: list[Source]
    replay: list[Source]
    selection: dict[str, Any] | None = None
    folder: Path | None = None
    read: ReadPlan = field(default_factory=ReadPlan)
    task_read: ReadPlan = field(default_factory=ReadPlan)
    own_task: bool = False
    then: list[Source] = field(default_factory=list)

    @property
    def on_task(self) -> bool:
        """Whether the model trains on the task's own texts."""
        return not self.data


def find_training_inputs(
    data: Sequence[str],
    task: Sequence[str],
    replay: Sequence[str],
    read: ReadPlan,
    context: RunContext,
) -> TrainingInputs:
    """Find and fingerprint the texts; the default task of a selection is its target.

    A selection must be on this machine and the only data; any other corpus has no weights.
    """

    def find(inputs: Sequence[str], role: str) -> list[Source]:
        return context.find(inputs, read, role) if inputs else []

    require_own_text(data, task)
    tasks, general = find(task, "task"), find(replay, "replay")
    if list(data) == [TASK]:
        return TrainingInputs([], tasks, general, read=read, task_read=read)
    folder, manifest = _selection(data)
    if folder is None or manifest is None:
        found = find([_composed(name) for name in data], "data")
        return TrainingInputs(found, tasks, general, read=read, task_read=read)
    task_read, own = read, not tasks
    if own:
        with undamaged(folder):
            task_read = Plan.from_dict(manifest["plan"]).target_read
            tasks = _targets(manifest, task_read, context)
    chosen = find([str(folder / "selected")], "data")
    second = manifest["plan"]["read"].get("side") == SECOND  # of pairs, which was scored
    plain = ReadPlan(text_field=SIDES[second])
    return TrainingInputs(chosen, tasks, general, manifest, folder, plain, task_read, own)


def require_own_text(data: Sequence[str], task: Sequence[str]) -> None:
    """Raise `UsageError` for --data task without --task."""
    if list(data) == [TASK] and not task:
        cure = "For instance `data=task` `task=train.jsonl`."
        raise bad_setting("`task`", "set with `data=task`", "nothing", cure)


def require_task(texts: TrainingInputs) -> None:
    """Raise `UsageError` without texts for the second phase of `--then-task`."""
    if not texts.task:
        cure = "For example `task=train.jsonl`."
        raise bad_setting("`task`", "set with `then_task.on`", "nothing", cure)


def with_task_phase(
    texts: TrainingInputs, then: Sequence[str], context: RunContext
) -> TrainingInputs:
    """The same texts with those of a second phase, which are read as the task's."""
    if not then:
        return texts
    found = context.find(then, texts.task_read, "task")
    return dataclasses.replace(texts, then=found)


def _selection(data: Sequence[str]) -> tuple[Path | None, dict[str, Any] | None]:
    """The folder and the manifest of the selection that the data is, or two times None."""
    for name in data:
        found = SelectionFolder(place(name, "`data`") if "://" in name else Path(name))
        if not (found.work / "run.json").exists() or not found.scores.is_dir():
            continue
        if len(data) > 1:
            cure = "To use a selection's text without weights, name its folder selected/."
            raise bad_setting("`data`", "one selection, or other inputs", " and ".join(data), cure)
        if not is_local(found.path):
            cure = "Copy the selection here, or name its folder selected/ to use only its text."
            raise bad_setting("`data`", "a selection on this machine", name, cure)
        return found.path, _finished(found)
    return None, None


def _composed(name: str) -> str:
    """The folder of texts of a finished composition, or the input itself if it is none."""
    found = OutFolder(place(name, "`data`") if "://" in name else Path(name))
    if found.command() != "compose":
        return name
    if found.finished() is None:
        raise InputError(
            f"`data={name}` holds a composition that is not finished. Run the same `corpusfit "
            "compose` again."
        )
    return str(found.path / "composed")


def _finished(found: SelectionFolder) -> dict[str, Any]:
    """The manifest of a finished selection that is not empty."""
    manifest = found.finished()
    if manifest is None or not manifest.get("selected"):
        raise InputError(
            f"`data={found.path}` holds a selection that is not finished. Run the same `corpusfit "
            "select` again, or `corpusfit choose` if the corpus was only scored."
        )
    with undamaged(found.path):
        empty = not manifest["selected"]["segments"]
    if empty:
        raise EmptyInputError(
            f"`data={found.path}` is an empty selection. Select more with `corpusfit choose "
            f"{found.path} --fraction 0.2`."
        )
    return manifest


def _targets(manifest: dict[str, Any], read: ReadPlan, context: RunContext) -> list[Source]:
    """The sources of the selection's target; empty if they are gone or changed."""
    sources = [Source(**s) for s in manifest["target"]]
    try:
        now, changed = corpus.found_again(sources, read, partial(scan_with, context.engine))
    except CorpusfitError:
        now, changed = [], [s.name for s in sources]
    if changed:
        context.progress.warn(
            f"The selection's target {changed[0]} is gone or has changed, so the loss on the "
            "task's text is not measured. Set `task` to the file with the task's texts."
        )
        return []
    return now
