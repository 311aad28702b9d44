"""Decides a fit before anything of it runs: its task, base and objective, and what is refused."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from corpusfit.core.engine import Progress
from corpusfit.core.errors import bad_setting, require_one_process
from corpusfit.core.manifest import read_object, versions
from corpusfit.core.plan import ReadPlan
from corpusfit.embed.folders import find, require_extra
from corpusfit.evaluation.learned import LearnedTaskType
from corpusfit.evaluation.network import MODEL_TO_EVALUATE
from corpusfit.evaluation.plan import EvaluatePlan, TaskPlan
from corpusfit.evaluation.reading import read_task
from corpusfit.evaluation.rows import fields_like_labels, read_rows
from corpusfit.evaluation.task import Task, task_digest
from corpusfit.evaluation.tasks import load
from corpusfit.fitting.folder import FitFolder
from corpusfit.fitting.program import TRAIN_WITH, Program
from corpusfit.fitting.schedule import FEWEST
from corpusfit.labeled.formats.conll import read_tagged_text
from corpusfit.labeled.heldout import held_out
from corpusfit.labeled.splits import find_splits
from corpusfit.text.context import absolute
from corpusfit.text.contract import format_of
from corpusfit.training.models import fingerprint
from corpusfit.training.objectives import load as load_objective

PLAIN = "language_modeling"


@dataclass(frozen=True)
class Request:
    """What is asked for."""

    plan: EvaluatePlan  # the model, the task and the seed
    task: str
    corpus: tuple[str, ...]
    method: str
    corpus_field: str
    where: str = ""  # the rows of the corpus to use; empty for all
    keep: str = ""  # columns of the corpus in the selection, by which the report counts it
    scores: str = ""  # the folder with its side files
    objective: str = ""  # of the training; empty for that of the model
    general: tuple[str, ...] = ()  # general text; empty for random text of the corpus
    replay: float = 0.0  # share of it in both trainings; with 0 the loss on it is measured
    program: Program | None = None  # of others, which trains in place of `adapt`
    seeds: int = FEWEST  # replicates by a program
    tokens: int = 0  # to select for a program; 0 for the usual share of the corpus


@dataclass(frozen=True)
class Resolved:
    """A fit whose inputs are read and whose settings are decided; nothing changes them later."""

    request: Request
    plan: EvaluatePlan  # that of the request, with the kind of the task
    task: Task
    model: Path  # the folder of the base
    objective: str  # of the training
    reason: str = ""  # why the kind of the task is what it is, where that was not asked for

    def identity(self) -> dict[str, Any]:
        """What must be equal to resume; each step's own folder refuses other texts."""
        request = self.request
        settings = request.plan.as_dict()
        return {
            "command": "fit",
            "task": {self.task.name: task_digest(self.task)},
            "settings": {"task": settings["task"], "seed": settings["seed"]},
            "base": fingerprint(self.model),
            "corpus": dict.fromkeys(absolute(list(request.corpus)), ""),
            "method": request.method,
            "corpus_field": request.corpus_field,
            "where": request.where,
            "keep": request.keep,
            **({"scores": request.scores} if request.scores else {}),
            "objective": request.objective,
            "general": dict.fromkeys(absolute(list(request.general)), ""),
            "replay": request.replay,
            **({"train_with": "a program", "tokens": request.tokens} if request.program else {}),
            "versions": {"corpusfit": versions()["corpusfit"]},
        }


def resolve(request: Request, folder: FitFolder | None = None) -> Resolved:
    """Read the task and find the base; refuse what cannot be fitted, or be written to a folder."""
    require_extra("Fitting a model", "train")
    if folder is not None:
        require_one_process("fit")
        folder.claim()
    asked = request.plan.task
    kind = asked.kind
    place = request.task
    if kind == "auto":
        kind, place = _plain_or_auto(asked, place)
    task = read_task(place, dataclasses.replace(asked, kind=kind), seed=request.plan.seed)
    if task.kind != PLAIN and not isinstance(load(task.kind), LearnedTaskType):
        cure = "For example `task.kind=classification`."
        allowed = "a task that a model is fine-tuned for, or plain text"
        raise bad_setting("`task.kind`", allowed, task.kind, cure)
    if request.replay and asked.loss_on and not request.general:
        cure = "A sample of the corpus has no conversations to mix in."
        raise bad_setting("`general`", "a file with `replay` and `loss_on`", "nothing", cure)
    if request.general:  # the trainings, which come late, call it by another name
        read = ReadPlan(text_field=request.corpus_field)
        cure = f"Name the field of their texts {request.corpus_field!r}, as it is in the corpus"
        held_out(request.general, read, Progress(), setting="general", cure=cure)
    model = find(request.plan.model.name, setting=MODEL_TO_EVALUATE)
    objective = request.objective or objective_of(model)
    if request.program is not None and load_objective(objective).embeds:
        allowed = "left out for a sentence encoder: its loss depends on how it is trained"
        raise bad_setting(TRAIN_WITH, allowed, request.program.text)
    reason = ""
    if asked.kind == "auto" and task.kind == PLAIN:
        reason = "Nothing in it has a label, so the loss on held-out texts is compared."
    plan = request.plan.with_value("task.kind", task.kind)
    return Resolved(request, plan, task, model, objective, reason)


def _plain_or_auto(asked: TaskPlan, place: str) -> tuple[str, str]:
    """The kind of a task for which none is set, and its place: without any label, plain text."""
    files = find_splits(place)
    train = files.places.get("train", [])
    if files.form == "rows":
        named = asked.label_field != TaskPlan().label_field  # then it must be there
        every = [path for paths in files.places.values() for path in paths]
        plain = not named and not read_rows(every, asked, "").values()
        if plain and (fields := fields_like_labels(every, asked)):
            raise bad_setting(
                "`task.label_field`",
                "a field of the rows of `task`",
                asked.label_field,
                f"If the labels are in {' or '.join(fields)}, set `task.label_field="
                f"{fields[0]}`; if there are none, set `task.kind={PLAIN}`.",
            )
    else:  # a .txt file may be both
        may_be = files.form == "conll" and all(map(format_of, train))
        plain = may_be and read_tagged_text(train, "train") is None
    if not plain:
        return "auto", place
    alone = list(files.places) == ["train"] and len(train) == 1
    return PLAIN, train[0] if alone else place  # plain texts without splits are divided later


def objective_of(model: Path) -> str:
    """The objective that a model was trained with, by its folder."""
    if any((model / name).exists() for name in ("modules.json", "1_Pooling")):
        return "tsdae"  # of sentence-transformers
    names = read_object(model / "config.json").get("architectures") or ()
    causal = any(n.endswith(("CausalLM", "LMHeadModel")) and "With" not in n for n in names)
    return "causal" if causal else "mlm"
