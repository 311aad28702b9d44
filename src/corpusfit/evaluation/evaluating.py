"""The command `evaluate`: score models on a task with several seeds and compare them."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import repeat
from pathlib import Path, PurePath
from typing import Any

from numpy.typing import NDArray

from corpusfit.core.artifacts import remove
from corpusfit.core.engine import Call, Meter, Progress
from corpusfit.core.errors import CorpusfitError
from corpusfit.core.manifest import Finished, OutFolder, locked, versions
from corpusfit.embed.hardware import resolve_device
from corpusfit.evaluation.answered import AnsweredTaskType
from corpusfit.evaluation.contract import TaskType
from corpusfit.evaluation.finetune import FineTuning, fine_tune, require_models
from corpusfit.evaluation.learned import LearnedTaskType
from corpusfit.evaluation.network import MODEL_TO_EVALUATE, Side, trains_adapter
from corpusfit.evaluation.plan import EvaluatePlan, FinetunePlan
from corpusfit.evaluation.probing import WHOLE, Probes, learned_from, run_probes
from corpusfit.evaluation.resolving import BASE, OURS, Request, Resolved, resolve, stored_seed
from corpusfit.evaluation.significance import Metric, compare, holm, interval, spread, verdict
from corpusfit.evaluation.task import (
    Outcome,
    Overlap,
    nested_places,
    notable,
    split_overlaps,
    store_task,
)
from corpusfit.evaluation.tasks import load
from corpusfit.labeled.splits import SPLITS
from corpusfit.text.context import HERE, Machine, absolute, command_words, named_model

_STEPS = 8  # training steps that a dry run measures
_ANSWERED = 64  # examples that a dry run without training measures


class EvaluateFolder(OutFolder):
    """An evaluation's folder: the outcome of every fine-tuning."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.outcomes = path / "outcomes"
        self.task = self.work / "task.json"

    def outcome(self, model: str, size: int, seed: int) -> Path:
        """The file of an outcome, by the model's fingerprint, training size (0: all) and seed."""
        # a stranger's manifest may name any path for a fingerprint
        name = f"{PurePath(model).name}-{size}-{'all' if seed == WHOLE else seed}.json"
        return self.outcomes / name

    def _has_work(self) -> bool:
        return self.outcomes.is_dir()

    def _clear(self) -> None:
        super()._clear()
        remove(self.outcomes, self.task)


class Evaluated(Finished):
    """A finished evaluation; its manifest has `results` and `comparisons`."""

    def outcomes(self, model: str = OURS, size: int = 0) -> list[Outcome]:
        """The outcomes by seed, of `model` or `base`; `size` as in `train_sizes`, 0 for all."""
        folder = EvaluateFolder(self.path)
        facts = self.manifest["models"][model]
        fingerprints = facts.get("by_seed") or [facts["fingerprint"]] * self.manifest["seeds"]
        frozen = self.manifest["plan"]["model"]["frozen"]
        task_type = load(self.manifest["task"]["kind"])
        n = len(fingerprints)
        seeds = [stored_seed(task_type, seed, n, frozen=frozen) for seed in range(n)]
        files = map(folder.outcome, fingerprints, repeat(size), seeds)
        return list(map(Outcome.read, files))


def evaluate(
    request: Request, out: Path, *, machine: Machine = HERE, overwrite: bool = False
) -> Evaluated:
    """Fine-tune a model and its base with several seeds, and compare them.

    For a task without training (plain text) each model answers as it is, once.
    `{seed}` in the name of a model stands for the random seed: each seed has a model of its own.

    Every answer of every seed is kept, so the same folder takes more seeds and sizes later.

    Reference: TADPOLE, section 4 and Table 3; mDAPT, section 4.
    """
    folder = EvaluateFolder(out)
    folder.claim()
    resolved = resolve(request)
    with locked(folder.work, "evaluate", make=True):
        folder.begin(resolved.identity(), overwrite=overwrite)
        # copies of test texts in train raise every score, so warn of them
        common = split_overlaps(resolved.task)
        cautions = resolved.type.cautions(resolved.task, resolved.metric)
        for note in (*resolved.task.notes, *notable(common), *cautions):
            machine.progress.warn(note)
        evaluation = _Evaluation(resolved, folder)
        evaluation.run(machine)
        results = evaluation.results()
        for warning in _warnings(results, resolved.type, frozen=resolved.plan.model.frozen):
            machine.progress.warn(warning)
        facts = _facts(request, resolved, common)
        facts |= {"results": results, "comparisons": evaluation.comparisons()}
        folder.finish(facts)
    return Evaluated(out, facts)


def _facts(request: Request, resolved: Resolved, common: Sequence[Overlap]) -> dict[str, Any]:
    """What a manifest says of an evaluation before it has results."""
    plan = resolved.plan
    task = resolved.task
    options: dict[str, str | int] = {
        "model": named_model(plan.model.name),
        "base": named_model(request.base),
        "seeds": resolved.seeds,
        "train-size": ",".join(map(str, request.train_sizes)),
    }
    # the model is repeated by its option, which names a folder by its whole path
    settings = plan.with_value("model.name", "").overrides()
    return {
        "command": "evaluate",
        "repeat": command_words("evaluate", {"task": absolute([request.task])}, options, settings),
        "versions": versions(),
        "plan": plan.as_dict(),
        "models": {role: side.as_dict() for role, side in resolved.sides.items()},
        "task": {
            "name": task.name,
            "kind": task.kind,
            "labels": task.labels,
            "learnable": task.learnable,
            **{split: len(getattr(task, split)) for split in SPLITS},
            "notes": task.notes,
        },
        "overlaps": [dataclasses.asdict(each) for each in common],
        "seeds": resolved.seeds,
        "metric": resolved.metric,
        "unit": resolved.type.unit_of(resolved.metric),
        "signatures": resolved.type.signatures(task.labels),
        "constant": resolved.type.constant(task),
    }


@dataclass(frozen=True, eq=False)
class _Evaluation:
    """An evaluation and the folder of its outcomes."""

    resolved: Resolved
    folder: EvaluateFolder

    def run(self, machine: Machine) -> None:
        """Run missing fine-tunings, in parallel; on a GPU one at a time."""
        resolved = self.resolved
        frozen = resolved.plan.model.frozen
        work = self._missing_probes() if frozen else self._missing_fine_tunings()
        if not work:
            return
        # fail on a broken model before hours of fine-tuning the others
        pending = {piece.plan.model for piece in work}
        # a single model fails at its first piece anyway, so it needs no check
        if len(pending) > 1:
            for side in resolved.sides.values():
                plans = [model.plan for model in side.models if model.plan.model in pending]
                require_models(resolved.task, plans, side.setting)
        store_task(resolved.task, self.folder.task)
        machine = machine.for_training(resolve_device(resolved.plan.finetune.device, "finetune"))
        doing = "fine-tune"
        if isinstance(resolved.type, AnsweredTaskType):
            doing = resolved.type.doing
        elif frozen:
            doing = "probe"
        stage = machine.progress.showing(doing, len(work), "models")
        job = Call[Any, Path](run_probes if frozen else fine_tune, encodes=True)
        with stage, machine.start() as engine:
            engine.require_shared(self.folder.path, "`out`")
            meter = Meter(machine.progress)
            for _ in engine.map(job, meter.weighed(work), meter):
                machine.progress.advance(0, 1)

    def _missing(self) -> Iterator[tuple[Path, Side, int, int]]:
        """The file, side, size and seed of each outcome that is missing."""
        resolved = self.resolved
        for size, seed in itertools.product(resolved.sizes, range(resolved.seeds)):
            for role, side in resolved.sides.items():
                out = self._outcome(role, size, seed)
                if not out.exists():
                    yield out, side, size, seed

    def _missing_fine_tunings(self) -> list[FineTuning]:
        """Those to run, or the answers of models as they are."""
        # by outcome file, because two names can stand for the same model
        pieces: dict[Path, FineTuning] = {}
        for out, side, size, seed in self._missing():
            plan = side.models[seed].plan
            of_training = plan.seed + seed
            pieces[out] = FineTuning(self.folder.task, plan, size, of_training, out, side.setting)
        return list(pieces.values())

    def _missing_probes(self) -> list[Probes]:
        """Those to run: each computes the states of a model once for all of its samples."""
        probes: dict[tuple[str, int], Probes] = {}
        for out, side, size, seed in self._missing():
            model = side.models[seed]
            of_model = Probes(self.folder.task, model.plan, size, {}, side.setting)
            of_model = probes.setdefault((model.fingerprint, size), of_model)
            of_model.outs[seed if self.resolved.seeds > 1 else WHOLE] = out
        return list(probes.values())

    def _outcome(self, role: str, size: int, seed: int) -> Path:
        """The file of an outcome; one seed stands for all where they do not differ."""
        resolved = self.resolved
        frozen = resolved.plan.model.frozen
        model = resolved.sides[role].models[seed].fingerprint
        stored_by = stored_seed(resolved.type, seed, resolved.seeds, frozen=frozen)
        return self.folder.outcome(model, size, stored_by)

    def _outcomes(self, role: str, size: int) -> tuple[list[Outcome], list[NDArray[Any]]]:
        """The outcomes by seed, and their sums of each test example."""
        files = [self._outcome(role, size, seed) for seed in range(self.resolved.seeds)]
        outcomes = list(map(Outcome.read, files))
        return outcomes, [self.resolved.type.sums_of(self.resolved.task, o) for o in outcomes]

    @property
    def _score(self) -> Metric:
        return partial(self.resolved.type.score, self.resolved.metric)

    def results(self) -> list[dict[str, Any]]:
        """Mean, standard deviation and interval of each model and size, and the time."""
        results = []
        for size, role in itertools.product(self.resolved.sizes, self.resolved.sides):
            outcomes, tallies = self._outcomes(role, size)
            # over seeds and examples, while `sd` is over seeds alone
            low, high = interval(tallies, self._score, seed=self.resolved.plan.seed)
            first = outcomes[0]
            spreads: dict[str, Any] = {}
            for split, names in first.scores.items():
                for name in names:
                    mean, sd = spread([o.scores[split][name] for o in outcomes])
                    spreads.setdefault(split, {})[name] = {"mean": mean, "sd": sd}
            results.append(
                {
                    "model": role,
                    "size": first.size,
                    **spreads,
                    "tune": first.tune,
                    "truncated": first.truncated,
                    "best_epochs": [o.best for o in outcomes],
                    "one_answer": sum(o.one_answer for o in outcomes),
                    "repeated": sum("failed_rates" in o.tune for o in outcomes),
                    "seconds": round(sum(o.seconds for o in outcomes), 1),
                    "cpu_seconds": round(sum(o.cpu_seconds for o in outcomes), 1),
                    "low": low,
                    "high": high,
                }
            )
        return results

    def comparisons(self) -> list[dict[str, Any]]:
        """The comparisons with the base at each size, corrected for their number (Holm)."""
        resolved = self.resolved
        if BASE not in resolved.sides:
            return []
        unit = resolved.type.unit_of(resolved.metric)
        everything = len(resolved.task.train) if resolved.learned else 0
        compared = []
        for size in resolved.sizes:
            ours, of_ours = self._outcomes(OURS, size)
            base, of_base = self._outcomes(BASE, size)
            comparison = compare(of_ours, of_base, self._score, seed=self.resolved.plan.seed)
            alike = all(outcome.one_answer for outcome in (*ours, *base))
            compared.append((size, comparison, alike))
        rows = []
        # several training sizes are several tests
        adjusted = holm([comparison.p for _, comparison, _ in compared])
        for (size, comparison, alike), p in zip(compared, adjusted, strict=True):
            text = verdict(comparison, comparison.p if p is None else p, unit=unit)
            if alike:
                text += "; both models give one answer to every test text: nothing is compared"
            rows.append(
                {
                    "size": size or everything,
                    **dataclasses.asdict(comparison),
                    "p_adjusted": p,
                    "verdict": text,
                }
            )
        return rows


def _warnings(
    results: Sequence[Mapping[str, Any]], task_type: TaskType, *, frozen: bool
) -> Iterator[str]:
    first = results[0]
    truncated = [f"{count:,} of {split}" for split, count in first["truncated"].items() if count]
    if truncated and isinstance(task_type, AnsweredTaskType):
        yield f"{task_type.truncation}: {', '.join(truncated)}."
    elif truncated:
        length = first["tune"]["length"]
        counts = ", ".join(truncated)
        yield f"Examples longer than {length} tokens are truncated (`finetune.length`): {counts}."
    for result in results:
        alike = result["one_answer"]
        if alike and frozen:
            yield (
                f"The embeddings of the {result['model']} give one answer to every test text "
                f"after {result['size']:,} training examples. Add examples, or name another model."
            )
        elif alike:
            yield (
                f"{alike} of {len(result['best_epochs'])} fine-tunings of the {result['model']} on "
                f"{result['size']:,} examples give one answer to every test text. Set more "
                f"`finetune.epochs`, another `finetune.learning_rate` (now "
                f"{result['tune']['learning_rate']:g}), or "
                "more examples."
            )
        elif repeated := result.get("repeated"):
            yield (
                f"{repeated} fine-tunings of the {result['model']} gave one answer to every test "
                "text, and were repeated at another learning rate."
            )

    def settings(result: Mapping[str, Any]) -> dict[str, Any]:
        """Those of a model's first fine-tuning, but for a rate that it failed with."""
        return {
            k: v for k, v in result["tune"].items() if k not in ("learning_rate", "failed_rates")
        }

    if any(settings(result) != settings(first) for result in results):
        yield (
            "The two models were fine-tuned with different settings: of an adapter's folder as "
            "`base`, only the adapter is trained. The manifest has the settings of each."
        )


def estimate_evaluation(request: Request, *, machine: Machine) -> dict[str, Any]:
    """Measure a few steps, and estimate the time of the evaluation."""
    resolved = _resolved_without_base(request, machine.progress)
    task = resolved.task
    frozen = resolved.plan.model.frozen
    outcome, workers = _measured(resolved, machine)
    examples = _examples_of_each(resolved)
    names = [name for name in (resolved.plan.model.name, request.base) if name]
    models = len(names) * resolved.seeds
    runs = f"{len(examples) * models:,} {'fine-tunings' if resolved.learned else 'evaluations'}"
    if frozen:  # all probes of a model read its states, which are computed once
        runs = f"{len(examples) * models:,} probes of frozen models"
        models = sum(resolved.seeds if "{seed}" in name else 1 for name in names)
    count = len(examples) * models
    speed = outcome.examples_per_second
    lengths = {split: len(getattr(task, split)) for split in SPLITS}
    if resolved.learned:
        lengths["train"] = max(resolved.sizes) or lengths["train"]
    return {
        "fine_tunings": count,
        "runs": runs,
        **lengths,
        "examples_per_second": speed,
        "seconds": round(sum(examples) * models / speed / min(workers, count), 1),
        "words": " ".join(task.notes),
    }


def _resolved_without_base(request: Request, progress: Progress) -> Resolved:
    """The evaluation of the model alone, with a warning if the base cannot be opened."""
    # the time can be estimated without it
    alone = resolve(request, with_base=False)
    require_models(alone.task, alone.sides[OURS].plans(), MODEL_TO_EVALUATE)
    if request.base:
        try:
            base = Side.of(alone.plan, alone.task.kind, request.base, alone.seeds)
            require_models(alone.task, base.plans(), base.setting)
        except CorpusfitError as e:
            progress.warn(f"The evaluation would stop before its first step: {e}")
    return alone


def _examples_of_each(resolved: Resolved) -> list[float]:
    """How many examples go through a model for each size, in those of a training."""
    task = resolved.task
    train = task.train
    answered = len(task.dev) + len(task.test)
    sizes = [size or len(train) for size in resolved.sizes]
    plan = resolved.sides[OURS].models[0].plan
    if not isinstance(resolved.type, LearnedTaskType):
        return [answered]  # each model answers dev and test once
    if plan.model.frozen:  # every text goes through the model once
        learned = len(learned_from(train, plan.seed))
        most = learned if learned < len(train) else max(sizes)
        return [min(size, most) + answered for size in sizes]
    # every epoch is counted, as early stopping cannot be known in advance; prediction takes a third
    # of the time of training
    epochs = _settled(resolved.type, plan).epochs or 1
    predicted = (epochs + 1) * len(task.dev) + len(task.test)
    return [epochs * size + predicted / 3 for size in sizes]


def _settled(task_type: LearnedTaskType, plan: EvaluatePlan) -> FinetunePlan:
    """The fine-tuning with the defaults of the kind of task, for texts of any length."""
    adapter = trains_adapter(plan.model)
    return task_type.settled(plan, adapter=adapter, max_length=2**20).finetune


def _measured(resolved: Resolved, machine: Machine) -> tuple[Outcome, int]:
    """An epoch over a few examples, in a worker; and how many such run beside each other."""
    plan = resolved.sides[OURS].models[0].plan
    most = _ANSWERED
    if isinstance(resolved.type, LearnedTaskType):
        finetune = _settled(resolved.type, plan)
        most = _STEPS * (finetune.batch or 1)
        if not plan.model.frozen:  # one that is named is not replaced where nothing is learned
            rate = finetune.learning_rate
            plan = plan.with_values({"finetune": {"learning_rate": rate, "epochs": 1}})
    task = resolved.task
    few = {
        split: examples.take(nested_places(len(examples), most, plan.seed))
        for split in SPLITS
        for examples in [getattr(task, split)]
    }
    with machine.scratch() as folder, machine.start() as engine:
        stored = folder / "task.json"
        store_task(dataclasses.replace(task, **few), stored)
        place = folder / "outcome.json"
        if plan.model.frozen:
            probes = Probes(stored, plan, 0, {WHOLE: place})
            (out,) = engine.map(Call(run_probes, encodes=True), [probes])
        else:
            tuning = FineTuning(stored, plan, 0, plan.seed, place)
            (out,) = engine.map(Call(fine_tune, encodes=True), [tuning])
        outcome = Outcome.read(out)
        workers = machine.for_training(outcome.tune["device"]).workers or engine.workers
    return outcome, workers
