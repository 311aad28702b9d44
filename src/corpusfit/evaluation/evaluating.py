"""The command `evaluate`: score models on a task with several seeds and compare them."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from corpusfit.core.engine import Meter, Progress
from corpusfit.core.errors import bad_setting
from corpusfit.core.lock import locked
from corpusfit.core.manifest import Finished, versions
from corpusfit.embed.extras import require_extras
from corpusfit.embed.hardware import resolve, resolve_device
from corpusfit.evaluation.answering import answering_hardware
from corpusfit.evaluation.augment import require_allowed
from corpusfit.evaluation.augmenting import write_augmented_examples
from corpusfit.evaluation.contract import TaskType
from corpusfit.evaluation.finetune_job import FineTune, FineTuning
from corpusfit.evaluation.folder import EvaluateFolder
from corpusfit.evaluation.network import head_fingerprint
from corpusfit.evaluation.opening import require_models
from corpusfit.evaluation.outcome import Outcome
from corpusfit.evaluation.overlaps import split_overlaps
from corpusfit.evaluation.plan import EvaluatePlan, metric_of
from corpusfit.evaluation.reading import read_task
from corpusfit.evaluation.registry import load
from corpusfit.evaluation.resampling import Metric
from corpusfit.evaluation.sides import Side
from corpusfit.evaluation.significance import compare, holm, interval, spread, verdict
from corpusfit.evaluation.task import Task, store_task, task_digest
from corpusfit.text.context import HERE, Machine
from corpusfit.text.pair_languages import check_languages
from corpusfit.text.reproduce import absolute, command_words, named_model

OURS, BASE = "model", "base"
SETTINGS = {OURS: "`model.name`", BASE: "`base`"}
"""The settings that name the models."""


class Evaluated(Finished):
    """A finished evaluation; its manifest has `results` and `comparisons`."""

    def outcomes(self, model: str = OURS, size: int = 0) -> list[Outcome]:
        """The outcomes by seed, of `model` or `base`; `size` as in `train_sizes`, 0 for all."""
        folder, facts = EvaluateFolder(self.path), self.manifest["models"][model]
        each = facts.get("by_seed") or [facts["fingerprint"]] * self.manifest["seeds"]
        frozen = self.manifest["plan"]["model"].get("frozen", False)
        drawn = differs_by_seed(self.manifest["task"]["kind"], frozen=frozen)
        return [
            Outcome.read(folder.outcome(fingerprint, size, seed * drawn))
            for seed, fingerprint in enumerate(each)
        ]


def evaluate(
    plan: EvaluatePlan,
    task: str,
    out: Path,
    *,
    base: str = "",
    seeds: int = 8,
    train_sizes: Sequence[int] = (),
    machine: Machine = HERE,
    overwrite: bool = False,
) -> Evaluated:
    """Fine-tune a model and its base with several seeds, and compare them.

    For a task that uses no train (translation, plain text) each model answers as it is, once; for
    a few-shot task, once for each seed's prompt. `{seed}` in the name of a model stands for the
    random seed: each seed has a model of its own.

    Every answer of every seed is kept, so the same folder takes more seeds and sizes later.

    Reference: TADPOLE, section 4 and Table 3; mDAPT, section 4.
    """
    plan = plan.check()
    found, sizes, seeds = prepare(plan, task, base, seeds, train_sizes, machine.progress)
    task_type = load(found.kind)
    folder = EvaluateFolder(out)
    folder.claim()
    with locked(folder.work, "evaluate", make=True):
        models = {OURS: side_of(plan, found, "", seeds)}
        if base:
            models[BASE] = side_of(plan, found, base, seeds)
        folder.begin(_identity(plan, found), overwrite=overwrite)
        common = split_overlaps(found)
        for note in (*found.notes, *common.notes()):
            machine.progress.warn(note)
        evaluation = _Evaluation(plan, found, folder, models, sizes, seeds)
        evaluation.fine_tune(machine)
        results, comparisons = evaluation.results(), evaluation.comparisons()
        for warning in _warnings(results, task_type, frozen=plan.model.frozen):
            machine.progress.warn(warning)
        given: dict[str, str | int] = {
            "model": named_model(plan.model.name),
            "base": named_model(base),
            "seeds": seeds,
            "train-size": ",".join(map(str, train_sizes)),
        }
        settings = plan.with_value("model.name", "").overrides()
        where = [found.place] if found.place else absolute([task])
        facts = {
            "command": "evaluate",
            "repeat": command_words("evaluate", {"task": where}, given, settings),
            "versions": versions(),
            "plan": plan.as_dict(),
            "models": {role: model.as_dict() for role, model in models.items()},
            "task": _description(found),
            "overlaps": common.as_dict(),
            "seeds": seeds,
            "metric": evaluation.metric,
            "unit": task_type.unit,
            "signatures": task_type.signatures(found.labels),
            "constant": task_type.constant(found),
            "results": results,
            "comparisons": comparisons,
        }
        folder.finish(facts)
    return Evaluated(out, facts)


def prepare(
    plan: EvaluatePlan,
    task: str,
    base: str,
    seeds: int,
    train_sizes: Sequence[int],
    progress: Progress,
) -> tuple[Task, list[int], int]:
    """Read the task, and check that it and the settings suit each other."""
    require_extras("Evaluating a model", "models", plan.model.name, base)
    if seeds < 1:
        raise bad_setting("`seeds`", "1 or more", seeds)
    found = read_task(task, plan.task, seed=plan.seed)
    task_type = load(found.kind)
    task_type.signatures(found.labels)  # raises if the library of its metrics is missing
    if not task_type.learns:
        _require_answerable(plan, train_sizes, found.kind)
    elif plan.model.frozen and not task_type.one_class:
        cure = "Its answers are not one class of a text."
        raise bad_setting("`model.frozen`", f"left out for {found.kind}", True, cure)
    if plan.augment.kind:
        require_allowed(plan.augment, found.kind)
    seeds = seeds_of(plan, found.kind, seeds, base)
    sizes = training_sizes(train_sizes, len(found.train))
    if task_type.parallel:
        references = (str(own[0]) for own in found.test.labels)
        pairs = zip(found.test.texts(), references, strict=True)
        check_languages(pairs, "`task`", progress.warn)
    return found, sizes, seeds


def side_of(plan: EvaluatePlan, task: Task, base: str, seeds: int) -> Side:
    """The model of a plan, or its base if that is named; raises `head_fingerprint`'s errors."""
    return Side.of(plan.model, base, plan.seed, seeds, learns=load(task.kind).learns)


def differs_by_seed(kind: str, *, frozen: bool) -> bool:
    """Whether outcomes of one model may differ by seed; not where nothing is drawn from train."""
    return load(kind).uses_train and not frozen


def training_sizes(asked: Sequence[int], n: int) -> list[int]:
    """The training sizes, each once, in ascending order; 0 is all examples."""
    for size in asked:
        if not 1 <= size <= n:
            raise bad_setting("`train_sizes`", f"1 to {n:,}, the number of training examples", size)
    return sorted(set(asked)) or [0]


def seeds_of(plan: EvaluatePlan, kind: str, seeds: int, base: str = "") -> int:
    """How many of the seeds decide on the answers: all, or one where no seed draws anything."""
    shown = load(kind).learns or plan.likelihood.shots
    drawn = differs_by_seed(kind, frozen=plan.model.frozen) and shown
    return seeds if drawn or any("{seed}" in name for name in (plan.model.name, base)) else 1


def _require_answerable(plan: EvaluatePlan, train_sizes: Sequence[int], kind: str) -> None:
    """Raise `UsageError` for settings of a fine-tuning where nothing is learned."""
    for name, value in (
        ("`train_sizes`", ",".join(map(str, train_sizes))),
        ("`model.adapter`", plan.model.adapter),
        ("`model.frozen`", plan.model.frozen),
        ("`augment.kind`", plan.augment.kind),
    ):
        if value:
            raise bad_setting(name, f"left out for {kind}, for which no model is trained", value)


def _identity(plan: EvaluatePlan, task: Task) -> dict[str, Any]:
    """What must be equal to compare outcomes; models are in the outcomes' own names."""
    settings = plan.as_dict()
    del settings["model"]["name"]
    task_type = load(task.kind)
    if not plan.model.frozen:  # older evaluations have no such settings
        del settings["model"]["frozen"]
    for group in {"decode", "likelihood"} - {task_type.group}:
        del settings[group]
    if not plan.task.positive:
        del settings["task"]["positive"]
    if not task_type.parallel:
        del settings["task"]["direction"], settings["task"]["normalise"]
    hardware = (
        resolve(plan.finetune, "finetune")
        if task_type.learns
        else answering_hardware(plan, task.kind)
    )
    settings["finetune"] |= {"device": hardware.device, "precision": hardware.precision}
    for name in filter(settings["augment"].get, ("mt", "mt_back")):
        named = settings["augment"][name]
        settings["augment"][name] = head_fingerprint(named, f"`augment.{name}`")
    known = versions()
    libraries = {n: known[n].split(".")[0] for n in ("torch", "transformers") if n in known}
    return {
        "command": "evaluate",
        **settings,
        "task": {task.name: task_digest(task)},
        "versions": {"corpusfit": known["corpusfit"], **libraries},
    }


@dataclass(frozen=True, eq=False)
class _Evaluation:
    plan: EvaluatePlan
    task: Task
    folder: EvaluateFolder
    models: Mapping[str, Side]
    sizes: Sequence[int]
    seeds: int

    @property
    def metric(self) -> str:
        """The metric that is compared."""
        return metric_of(self.plan.task, self.task.kind)

    @property
    def _score(self) -> Metric:
        return partial(load(self.task.kind).score, self.metric)

    def fine_tune(self, machine: Machine) -> None:
        """Run missing fine-tunings, in parallel; on a GPU one at a time."""
        pieces = self._missing()
        if not pieces:
            return
        pending = {piece.plan.model for piece in pieces}
        if len(pending) > 1 or self.plan.augment.kind:  # else the first piece opens the only one
            for role, side in self.models.items():
                own = [model.plan for model in side.models if model.plan in pending]
                plans = (dataclasses.replace(self.plan, model=plan) for plan in own)
                require_models(self.task, plans, SETTINGS[role])
        store_task(self.task, self.folder.task)
        for size in self.sizes:
            self._augment(size, machine)
        machine = machine.for_training(resolve_device(self.plan.finetune.device, "finetune"))
        doing = "classify" if self.plan.model.frozen else load(self.task.kind).doing
        stage = machine.progress.showing(doing, len(pieces), "models")
        with stage, machine.start() as engine:
            engine.require_shared(self.folder.path, "`out`")
            meter = Meter(machine.progress)
            for _ in engine.map(FineTune(), meter.weighed(pieces), meter):
                machine.progress.advance(0, 1)

    @property
    def _learned(self) -> int:
        """Number of training examples of a fine-tuning on all; 0 where nothing is learned."""
        return len(self.task.train) * load(self.task.kind).learns

    def _outcome(self, role: str, size: int, seed: int) -> Path:
        """The file of an outcome; one seed stands for all where they do not differ."""
        model = self.models[role].models[seed].fingerprint
        drawn = differs_by_seed(self.task.kind, frozen=self.plan.model.frozen)
        return self.folder.outcome(model, size, seed * drawn)

    def _missing(self) -> list[FineTuning]:
        """The missing fine-tunings; two names of one model count once."""
        found = {}
        for size, seed in itertools.product(self.sizes, range(self.seeds)):
            extra = self.folder.companions(size) if self.plan.augment.kind else None
            for role, side in self.models.items():
                plan = dataclasses.replace(self.plan, model=side.models[seed].plan)
                out = self._outcome(role, size, seed)
                found[out] = FineTuning(self.folder.task, plan, size, plan.seed + seed, extra, out)
        return [piece for out, piece in found.items() if not out.exists()]

    def _augment(self, size: int, machine: Machine) -> None:
        """Augment the training examples of a size, if the plan asks for it."""
        plan, place = self.plan, self.folder.companions(size)
        if not plan.augment.kind or place.exists():
            return
        task = self.task.first(size, plan.seed) if size else self.task
        write_augmented_examples(
            task.train,
            plan.augment,
            place,
            kind=task.kind,
            labels=task.labels,
            seed=plan.seed,
            device=plan.finetune.device,
            machine=machine,
        )

    def outcomes(self, role: str, size: int) -> list[Outcome]:
        """The outcomes by seed."""
        return [Outcome.read(self._outcome(role, size, s)) for s in range(self.seeds)]

    def results(self) -> list[dict[str, Any]]:
        """Means with standard deviations and intervals, of each model and size."""
        found = []
        for size, role in itertools.product(self.sizes, self.models):
            outcomes = self.outcomes(role, size)
            low, high = interval(self._tallies(outcomes), self._score, seed=self.plan.seed)
            found.append(_result(role, outcomes) | {"low": low, "high": high})
        return found

    def comparisons(self) -> list[dict[str, Any]]:
        """The comparisons with the base at each size, corrected for their number (Holm)."""
        if BASE not in self.models:
            return []
        compared, own = [], []
        task_type = load(self.task.kind)
        tests = task_type.paired_tests
        for size in self.sizes:
            ours, other = (self._tallies(self.outcomes(role, size)) for role in (OURS, BASE))
            compared.append(compare(ours, other, self._score, seed=self.plan.seed))
            own.append([tests(a, b) for a, b in zip(ours, other, strict=True)])
        found = []
        adjusted = holm([comparison.p for comparison in compared])
        for size, comparison, p, each in zip(self.sizes, compared, adjusted, own, strict=True):
            words = verdict(comparison, comparison.p if p is None else p, unit=task_type.unit)
            if all(o.one_answer for role in self.models for o in self.outcomes(role, size)):
                words += "; both models give one answer to every test text: nothing is compared"
            figures = {**dataclasses.asdict(comparison), "p_adjusted": p, "verdict": words}
            figures |= {"paired_tests": each} if any(each) else {}
            found.append({"size": size or self._learned, **figures})
        return found

    def _tallies(self, outcomes: Sequence[Outcome]) -> list[NDArray[Any]]:
        return [outcome.tallies(self.task) for outcome in outcomes]


def _result(role: str, outcomes: Sequence[Outcome]) -> dict[str, Any]:
    """Mean and standard deviation over seeds of every metric, and the time."""
    first = outcomes[0]
    spreads: dict[str, Any] = {}
    for split, names in first.scores.items():
        for name in names:
            mean, sd = spread([o.scores[split][name] for o in outcomes])
            spreads.setdefault(split, {})[name] = {"mean": mean, "sd": sd}
    return {
        "model": role,
        "size": first.size,
        **spreads,
        "tune": first.tune,
        "truncated": first.truncated,
        "best_epochs": [o.best for o in outcomes],
        "one_answer": sum(o.one_answer for o in outcomes),
        "seconds": round(sum(o.seconds for o in outcomes), 1),
        "cpu_seconds": round(sum(o.cpu_seconds for o in outcomes), 1),
    }


def _warnings(
    results: Sequence[Mapping[str, Any]], task_type: TaskType, *, frozen: bool
) -> Iterator[str]:
    first = results[0]
    truncated = [f"{count:,} of {split}" for split, count in first["truncated"].items() if count]
    if truncated and not task_type.learns:
        yield f"{task_type.truncation}: {', '.join(truncated)}."
    elif truncated:
        length = first["tune"]["length"]
        counts = ", ".join(truncated)
        yield f"Examples longer than {length} tokens are truncated (`finetune.length`): {counts}."
    for result in results:
        if (alike := result["one_answer"]) and not task_type.learns:
            yield (
                f"{alike} of {len(result['best_epochs'])} prompts of the {result['model']} give "
                "one answer to every test text. Set more `likelihood.shots` or another "
                "`likelihood.template`, or name a larger model."
            )
        elif alike and frozen:
            yield (
                f"The embeddings of the {result['model']} give one answer to every test text "
                f"after {result['size']:,} training examples. Add examples, or name another model."
            )
        elif alike:
            yield (
                f"{alike} of {len(result['best_epochs'])} fine-tunings of the {result['model']} on "
                f"{result['size']:,} examples give one answer to every test text. Set more "
                "`finetune.epochs`, another `finetune.rate`, or more examples."
            )
    if any(result["tune"] != first["tune"] for result in results):
        yield (
            "The two models were fine-tuned with different settings: of an adapter's folder as "
            "`base`, only the adapter is trained. The manifest has the settings of each."
        )


def _description(task: Task) -> dict[str, Any]:
    """The task's figures, and the notes from reading it."""
    return {
        "name": task.name,
        "kind": task.kind,
        "labels": task.labels,
        "learnable": task.learnable,
        **{split: len(getattr(task, split)) for split in ("train", "dev", "test")},
        "notes": task.notes,
    }
