"""The texts that `adapt` is given, found and fingerprinted.

What: the data, the task's texts and general text; a selection's folder stands for its text, its
target and its scores, a composition's for its text.
Why: a selection knows its task and how that was read, so that `adapt` need only be told where it
is; any other corpus does as well, without weights.
Trade-off: a selection has to lie on this machine, and be the only data.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from corpusfit import corpus
from corpusfit.adapt.plan import TASK
from corpusfit.artifacts import is_local, place
from corpusfit.corpus.survey import ScanChunks
from corpusfit.engine import Engine
from corpusfit.errors import CorpusfitError, EmptyInputError, InputError, bad_setting
from corpusfit.jobs.survey import scan_with
from corpusfit.manifest import ComposeFolder, RunFolder
from corpusfit.pipeline.run import Machine
from corpusfit.plan import Plan, ReadPlan
from corpusfit.types import Source


@dataclass(frozen=True)
class Given:
    """The texts that a command names.

    Attributes:
        data: what is trained on.
        task: the task's texts, to measure on, or to train on where they are the data.
        replay: general text to mix in.
        selection: the manifest of the selection that the data is.
        folder: that selection's folder.
        read: how the data's rows become texts.
        task_read: how the task's do: as the selection read it, unless the command names it.
        own_task: the task is the selection's target.
    """

    data: list[Source]
    task: list[Source]
    replay: list[Source]
    selection: dict[str, Any] | None = None
    folder: Path | None = None
    read: ReadPlan = field(default_factory=ReadPlan)
    task_read: ReadPlan = field(default_factory=ReadPlan)
    own_task: bool = False

    @property
    def on_task(self) -> bool:
        """Whether the task's own texts are what is trained on."""
        return not self.data


def given(
    data: Sequence[str],
    task: Sequence[str],
    replay: Sequence[str],
    read: ReadPlan,
    spool: Path,
    engine: Engine,
    machine: Machine,
) -> Given:
    """Find and fingerprint the texts; a selection's task is its target, unless one is named.

    Raises:
        CorpusfitError: an input cannot be found or read; --data task without --task.
    """
    scan = partial(scan_with, engine)

    def find(inputs: Sequence[str], role: str) -> list[Source]:
        if not inputs:
            return []
        return corpus.find(inputs, read, spool=spool, role=role, scan=scan)

    tasks, general = find(task, "task"), find(replay, "replay")
    if list(data) == [TASK]:
        if not tasks:
            cure = "For instance --data task --task train.jsonl."
            raise bad_setting("--task", "given with --data task", "nothing", cure)
        return Given([], tasks, general, read=read, task_read=read)
    folder, manifest = _selection(data)
    if folder is None or manifest is None:
        texts = [_composed(given) for given in data]
        return Given(find(texts, "data"), tasks, general, read=read, task_read=read)
    task_read, own = read, not tasks
    if own:
        task_read = Plan.from_dict(manifest["plan"]).read
        tasks = _targets(manifest, task_read, scan, machine)
    chosen = find([str(folder / "selected")], "data")
    plain = ReadPlan()
    return Given(chosen, tasks, general, manifest, folder, plain, task_read, own)


def _selection(data: Sequence[str]) -> tuple[Path | None, dict[str, Any] | None]:
    """The folder and the manifest of the finished selection that the data is, if it is one.

    Raises:
        UsageError: it is named beside other data, or lies in a store.
        InputError: it is not finished, or holds nothing.
    """
    for given in data:
        found = RunFolder(place(given, "--data") if "://" in given else Path(given))
        if not (found.work / "run.json").exists() or not found.scores.is_dir():
            continue
        if len(data) > 1:
            cure = "Name its folder selected/ to use its text like any other, without weights."
            raise bad_setting("--data", "one selection, or other inputs", " and ".join(data), cure)
        if not is_local(found.path):
            cure = "Copy it here first, or name its folder selected/ to use its text alone."
            raise bad_setting("--data", "a selection on this machine", given, cure)
        return found.path, _finished(found)
    return None, None


def _composed(given: str) -> str:
    """The texts of the composition that an input is, or the input.

    Raises:
        InputError: the composition is not finished.
    """
    found = ComposeFolder(place(given, "--data") if "://" in given else Path(given))
    if not found.is_composition():
        return given
    if found.finished() is None:
        raise InputError(
            f"--data {given} holds a composition that is not finished. Run the same `corpusfit "
            "compose` again."
        )
    return str(found.composed)


def _finished(found: RunFolder) -> dict[str, Any]:
    """The manifest of a selection that holds something."""
    manifest = found.finished()
    if manifest is None or not manifest.get("selected"):
        raise InputError(
            f"--data {found.path} holds a selection that is not finished. Run the same `corpusfit "
            "select` again, or `corpusfit choose` if it was only scored."
        )
    if not manifest["selected"]["segments"]:
        raise EmptyInputError(f"--data {found.path} is a selection of nothing: choose more of it.")
    return manifest


def _targets(
    manifest: dict[str, Any], read: ReadPlan, scan: ScanChunks, machine: Machine
) -> list[Source]:
    """The selection's target, if it is still there."""
    sources = [Source(**s) for s in manifest["target"]]
    try:
        now, changed = corpus.found_again(sources, read, scan)
    except CorpusfitError:
        now, changed = [], [s.name for s in sources]
    if changed:
        machine.progress.warn(
            f"The selection's target {changed[0]} is gone or has changed, so the loss on the "
            "task's text is not measured. Name it with --task."
        )
        return []
    return now
