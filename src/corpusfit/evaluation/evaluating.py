"""The command `evaluate`: score models on a task with several seeds and compare them."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path, PurePath
from typing import Any

from numpy.typing import NDArray

from corpusfit.core.artifacts import remove
from corpusfit.core.engine import Call, Meter
from corpusfit.core.errors import CorpusfitError, bad_setting
from corpusfit.core.manifest import Finished, OutFolder, locked, versions
from corpusfit.embed.folders import require_extra
from corpusfit.embed.hardware import resolve, resolve_device
from corpusfit.evaluation.contract import TaskType
from corpusfit.evaluation.finetune import FineTuning, answering_hardware, fine_tune, require_models
from corpusfit.evaluation.network import Side, trains_adapter
from corpusfit.evaluation.plan import EvaluatePlan, HeadPlan, metric_of, settled
from corpusfit.evaluation.probing import WHOLE, Probes, learned_from, run_probes
from corpusfit.evaluation.reading import SPLITS, read_task
from corpusfit.evaluation.significance import Metric, compare, holm, interval, spread, verdict
from corpusfit.evaluation.task import (
    Examples,
    Outcome,
    Task,
    nested_places,
    notable,
    split_overlaps,
    store_task,
    task_digest,
)
from corpusfit.evaluation.tasks import load
from corpusfit.text.context import HERE, Machine, absolute, command_words, named_model

OURS = "model"
BASE = "base"
SETTINGS = {OURS: "`model.name`", BASE: "`base`"}  # the settings that name the models
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
        each = facts.get("by_seed") or [facts["fingerprint"]] * self.manifest["seeds"]
        frozen = self.manifest["plan"]["model"]["frozen"]
        kind = self.manifest["task"]["kind"]
        return [
            Outcome.read(
                folder.outcome(
                    fingerprint, size, _seed_of_outcome(kind, seed, len(each), frozen=frozen)
                )
            )
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

    For a task without training (plain text) each model answers as it is, once.
    `{seed}` in the name of a model stands for the random seed: each seed has a model of its own.

    Every answer of every seed is kept, so the same folder takes more seeds and sizes later.

    Reference: TADPOLE, section 4 and Table 3; mDAPT, section 4.
    """
    plan = plan.check()
    labeled, sizes, seeds = _prepare(plan, task, base, seeds, train_sizes)
    task_type = load(labeled.kind)
    folder = EvaluateFolder(out)
    folder.claim()
    with locked(folder.work, "evaluate", make=True):
        models = {OURS: Side.of(plan, labeled.kind, "", seeds)}
        if base:
            models[BASE] = Side.of(plan, labeled.kind, base, seeds)
        folder.begin(_identity(plan, labeled), overwrite=overwrite)
        # copies of test texts in train raise every score, so warn of them
        common = split_overlaps(labeled)
        for note in (*labeled.notes, *notable(common)):
            machine.progress.warn(note)
        evaluation = _Evaluation(plan, labeled, folder, models, sizes, seeds)
        evaluation.run(machine)
        results = evaluation.results()
        comparisons = evaluation.comparisons()
        for warning in _warnings(results, task_type, frozen=plan.model.frozen):
            machine.progress.warn(warning)
        options: dict[str, str | int] = {
            "model": named_model(plan.model.name),
            "base": named_model(base),
            "seeds": seeds,
            "train-size": ",".join(map(str, train_sizes)),
        }
        # the model is repeated by its option, which names a folder by its whole path
        settings = plan.with_value("model.name", "").overrides()
        facts = {
            "command": "evaluate",
            "repeat": command_words("evaluate", {"task": absolute([task])}, options, settings),
            "versions": versions(),
            "plan": plan.as_dict(),
            "models": {role: model.as_dict() for role, model in models.items()},
            "task": {
                "name": labeled.name,
                "kind": labeled.kind,
                "labels": labeled.labels,
                "learnable": labeled.learnable,
                **{split: len(getattr(labeled, split)) for split in SPLITS},
                "notes": labeled.notes,
            },
            "overlaps": [dataclasses.asdict(each) for each in common],
            "seeds": seeds,
            "metric": metric_of(plan.task, labeled.kind),
            "unit": task_type.unit_of(metric_of(plan.task, labeled.kind)),
            "signatures": task_type.signatures(labeled.labels),
            "constant": task_type.constant(labeled),
            "results": results,
            "comparisons": comparisons,
        }
        folder.finish(facts)
    return Evaluated(out, facts)


def _prepare(
    plan: EvaluatePlan,
    task: str,
    base: str,
    seeds: int,
    train_sizes: Sequence[int],
) -> tuple[Task, list[int], int]:
    """Read the task and check that the settings suit it; returns it, the sizes and the seeds."""
    require_extra("Evaluating a model", "models")
    if seeds < 1:
        raise bad_setting("`seeds`", "1 or more", seeds)
    labeled = read_task(task, plan.task, seed=plan.seed)
    task_type = load(labeled.kind)
    task_type.signatures(labeled.labels)  # fail early if the metrics' library is missing
    if not task_type.learns:
        for name, value in (
            ("`train_sizes`", ",".join(map(str, train_sizes))),
            ("`model.adapter`", plan.model.adapter),
            ("`model.frozen`", plan.model.frozen),
        ):
            if value:
                allowed = f"left out for {labeled.kind}, for which no model is trained"
                raise bad_setting(name, allowed, value)
    elif plan.model.frozen and not task_type.probes:
        cure = "Its answers are not classes of texts or words."
        raise bad_setting("`model.frozen`", f"left out for {labeled.kind}", True, cure)
    n = len(labeled.train)
    for size in train_sizes:
        if not 1 <= size <= n:
            allowed = f"1 to {n:,}, the number of training examples"
            raise bad_setting("`train_sizes`", allowed, size)
    # one seed is enough where nothing is random
    if not task_type.learns and not any("{seed}" in name for name in (plan.model.name, base)):
        seeds = 1
    return labeled, sorted(set(train_sizes)) or [0], seeds


def _seed_of_outcome(kind: str, seed: int, seeds: int, *, frozen: bool) -> int:
    """The seed that an outcome is stored by: one stands for all where nothing is drawn.

    Several probes of a frozen model learn from bootstrap samples of the training examples, a
    single one from all of them.
    """
    if not load(kind).learns:
        return 0
    return WHOLE if frozen and seeds == 1 else seed


def _identity(plan: EvaluatePlan, task: Task) -> dict[str, Any]:
    """What must be equal to compare outcomes; models are in the outcomes' file names."""
    settings = plan.as_dict()
    del settings["model"]["name"]
    task_type = load(task.kind)
    if plan.model.frozen:
        settings["model"]["frozen"] = "probe 3"  # raised where a probe's scores change
    settings["task"]["options"] = dataclasses.asdict(plan.task.own)
    if task_type.group != "likelihood":
        del settings["likelihood"]
    hardware = (
        resolve(plan.finetune, "finetune")
        if task_type.learns
        else answering_hardware(plan, task.kind)
    )
    settings["finetune"] |= {"device": hardware.kind, "precision": hardware.precision}
    installed = versions()
    # another minor version of a library may change the last bits, not the meaning
    libraries = {n: installed[n].split(".")[0] for n in ("torch", "transformers") if n in installed}
    return {
        "command": "evaluate",
        **settings,
        "task": {task.name: task_digest(task)},
        "versions": {"corpusfit": installed["corpusfit"], **libraries},
    }


@dataclass(frozen=True, eq=False)
class _Evaluation:
    plan: EvaluatePlan
    task: Task
    folder: EvaluateFolder
    models: Mapping[str, Side]
    sizes: Sequence[int]
    seeds: int

    def run(self, machine: Machine) -> None:
        """Run missing fine-tunings, in parallel; on a GPU one at a time."""
        plan = self.plan
        folder = self.folder
        # by outcome file, because two names can stand for the same model
        pieces: dict[Path, FineTuning] = {}
        # by model and size, as a model's states are computed once for all of its probes
        probes: dict[tuple[str, int], Probes] = {}
        for size, seed in itertools.product(self.sizes, range(self.seeds)):
            for role, side in self.models.items():
                model = side.models[seed]
                run_plan = dataclasses.replace(plan, model=model.plan)
                out = self._outcome(role, size, seed)
                if out.exists():
                    continue
                if plan.model.frozen:
                    of_model = Probes(folder.task, run_plan, size, {})
                    of_model = probes.setdefault((model.fingerprint, size), of_model)
                    of_model.outs[seed if self.seeds > 1 else WHOLE] = out
                else:
                    pieces[out] = FineTuning(folder.task, run_plan, size, plan.seed + seed, out)
        work: list[FineTuning] | list[Probes] = list(probes.values()) or list(pieces.values())
        if not work:
            return
        # fail on a broken model before hours of fine-tuning the others
        pending = {piece.plan.model for piece in work}
        # a single model fails at its first piece anyway, so it needs no check
        if len(pending) > 1:
            for role, side in self.models.items():
                opened = [model.plan for model in side.models if model.plan in pending]
                plans = (dataclasses.replace(plan, model=model) for model in opened)
                require_models(self.task, plans, SETTINGS[role])
        store_task(self.task, folder.task)
        machine = machine.for_training(resolve_device(plan.finetune.device, "finetune"))
        stage_name = "probe" if plan.model.frozen else load(self.task.kind).doing
        stage = machine.progress.showing(stage_name, len(work), "models")
        job = Call[Any, Path](run_probes if plan.model.frozen else fine_tune, encodes=True)
        with stage, machine.start() as engine:
            engine.require_shared(folder.path, "`out`")
            meter = Meter(machine.progress)
            for _ in engine.map(job, meter.weighed(work), meter):
                machine.progress.advance(0, 1)

    def _outcome(self, role: str, size: int, seed: int) -> Path:
        """The file of an outcome; one seed stands for all where they do not differ."""
        model = self.models[role].models[seed].fingerprint
        stored_by = _seed_of_outcome(
            self.task.kind, seed, self.seeds, frozen=self.plan.model.frozen
        )
        return self.folder.outcome(model, size, stored_by)

    def _outcomes(self, role: str, size: int) -> tuple[list[Outcome], list[NDArray[Any]]]:
        """The outcomes by seed, and their sums of each test example."""
        outcomes = [Outcome.read(self._outcome(role, size, s)) for s in range(self.seeds)]
        return outcomes, [outcome.tallies(self.task) for outcome in outcomes]

    @property
    def _score(self) -> Metric:
        return partial(load(self.task.kind).score, metric_of(self.plan.task, self.task.kind))

    def results(self) -> list[dict[str, Any]]:
        """Mean, standard deviation and interval of each model and size, and the time."""
        results = []
        for size, role in itertools.product(self.sizes, self.models):
            outcomes, tallies = self._outcomes(role, size)
            # over seeds and examples, while `sd` is over seeds alone
            low, high = interval(tallies, self._score, seed=self.plan.seed)
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
        if BASE not in self.models:
            return []
        task_type = load(self.task.kind)
        unit = task_type.unit_of(metric_of(self.plan.task, self.task.kind))
        compared = []
        for size in self.sizes:
            ours, of_ours = self._outcomes(OURS, size)
            base, of_base = self._outcomes(BASE, size)
            comparison = compare(of_ours, of_base, self._score, seed=self.plan.seed)
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
                    "size": size or len(self.task.train) * task_type.learns,
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
    if truncated and not task_type.learns:
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


def estimate_evaluation(
    plan: EvaluatePlan,
    task: str,
    *,
    base: str,
    seeds: int,
    train_sizes: Sequence[int],
    machine: Machine,
) -> dict[str, Any]:
    """Measure a few steps, and estimate the time of the evaluation."""
    # Every epoch is counted, as early stopping cannot be known in advance; prediction takes a third
    # of the time of training.
    plan = plan.check()
    labeled, sizes, seeds = _prepare(plan, task, base, seeds, train_sizes)

    def opened(name: str) -> HeadPlan:
        side = Side.of(plan, labeled.kind, name, seeds)
        plans = (dataclasses.replace(plan, model=model.plan) for model in side.models)
        require_models(labeled, plans, SETTINGS[BASE if name else OURS])
        return side.models[0].plan

    own = opened("")  # first, as without it nothing is estimated
    if base:
        try:
            opened(base)
        except CorpusfitError as e:  # the time can be estimated without it
            machine.progress.warn(f"The evaluation would stop before its first step: {e.args[0]}")
    plan = dataclasses.replace(plan, model=own)
    names = [name for name in (plan.model.name, base) if name]
    models = len(names) * seeds
    if plan.model.frozen:  # all probes of a model read its states, which are computed once
        models = sum(seeds if "{seed}" in name else 1 for name in names)
    lengths = {split: len(getattr(labeled, split)) for split in SPLITS}
    answered = lengths["dev"] + lengths["test"]
    if load(labeled.kind).learns:
        adapter = trains_adapter(plan.model)
        finetune = settled(plan, labeled.kind, adapter=adapter, max_length=2**20).finetune
        if not plan.model.frozen:  # one that is named is not replaced where nothing is learned
            plan = plan.with_value("finetune.learning_rate", finetune.learning_rate)
        epochs = finetune.epochs or 1
        batch = finetune.batch or 1
        max_examples = _STEPS * batch
        sizes = [size or lengths["train"] for size in sizes]
        lengths["train"] = max(sizes)
        predicted = (epochs + 1) * lengths["dev"] + lengths["test"]
        each = [epochs * size + predicted / 3 for size in sizes]
        if plan.model.frozen:  # every text goes through the model once
            learned = len(learned_from(labeled.train, plan.seed))
            most = learned if learned < len(labeled.train) else max(sizes)
            each = [min(size, most) + answered for size in sizes]
    else:  # each model answers dev and test once
        max_examples = _ANSWERED
        each = [answered]

    def subset(examples: Examples) -> Examples:
        return examples.take(nested_places(len(examples), max_examples, plan.seed))

    # an epoch over a few examples, in a worker
    sample = dataclasses.replace(
        labeled, train=subset(labeled.train), dev=subset(labeled.dev), test=subset(labeled.test)
    )
    one = plan.with_value("finetune.epochs", 1)
    with machine.scratch() as folder, machine.start() as engine:
        store_task(sample, folder / "task.json")
        stored = folder / "task.json"
        place = folder / "outcome.json"
        if plan.model.frozen:
            probes = Probes(stored, plan, 0, {WHOLE: place})
            (out,) = engine.map(Call(run_probes, encodes=True), [probes])
        else:
            tuning = FineTuning(stored, one, 0, plan.seed, place)
            (out,) = engine.map(Call(fine_tune, encodes=True), [tuning])
        outcome = Outcome.read(out)
        at_once = machine.for_training(outcome.tune["device"]).workers or engine.workers
    count = len(each) * models
    speed = outcome.examples_per_second
    runs = f"{count:,} fine-tunings" if load(labeled.kind).learns else f"{count:,} evaluations"
    if plan.model.frozen:
        runs = f"{len(each) * len(names) * seeds:,} probes of frozen models"
    return {
        "fine_tunings": count,
        "runs": runs,
        **lengths,
        "examples_per_second": speed,
        "seconds": round(sum(each) * models / speed / min(at_once, count), 1),
        "words": " ".join(labeled.notes),
    }
