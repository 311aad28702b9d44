"""The Python API: the commands with the command line's words.

What: `select`, `score`, `choose`, `explain`, `audit`, `rank`, `contamination`, `forecast`, `adapt`
and `evaluate` with keyword settings.
Why: the command line is one door to the library, this is the other; both build a `Plan`.
Trade-off: only the settings that people change often have a keyword here; `settings` reaches the
rest as `"cut.gamma=5"`.
"""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

from corpusfit import pipeline
from corpusfit.adapt.plan import AdaptPlan
from corpusfit.adapt.presets import preset as preset_of
from corpusfit.artifacts import is_local, place
from corpusfit.errors import bad_setting
from corpusfit.evaluate.plan import EvaluatePlan
from corpusfit.pipeline import (
    Adapted,
    Audit,
    Contamination,
    Evaluated,
    Explanation,
    Forecast,
    Machine,
    Selection,
)
from corpusfit.pipeline.ranking import Ranked
from corpusfit.plan import Plan, ReadPlan
from corpusfit.score.contract import SOURCE
from corpusfit.settings import Settings

__all__ = [
    "Adapted",
    "Audit",
    "Contamination",
    "Evaluated",
    "Explanation",
    "Forecast",
    "Machine",
    "adapt",
    "audit",
    "build_adapt_plan",
    "build_evaluate_plan",
    "build_plan",
    "choose",
    "contamination",
    "estimate",
    "estimate_adaptation",
    "estimate_evaluation",
    "evaluate",
    "explain",
    "forecast",
    "rank",
    "score",
    "select",
]

Inputs: TypeAlias = str | Path | Sequence[str | Path]

_WORDS = {
    "method": "method.name",
    "fraction": "choose.fraction",
    "segments": "choose.segments",
    "tokens": "choose.tokens",
    "threshold": "choose.threshold",
    "weights": "choose.policy",
    "embedder": "embed.embedder",
    "budget": "auto.budget",
    "cascade": "cascade.stages",
    "recall": "cascade.recall",
    "unit": "cut.unit",
    "text_field": "read.text_field",
    "strict": "read.strict",
    "seed": "seed",
}
"""The settings that have a word of their own, and where they are in the plan."""


_ADAPT_WORDS = {
    "model": "model.name",
    "init": "model.init",
    "new_head": "model.new_head",
    "objective": "objective.name",
    "whole_word": "objective.whole_word",
    "weights": "weigh.policy",
    "replay_share": "mix.replay_share",
    "steps": "train.steps",
    "epochs": "train.epochs",
    "batch": "train.batch",
    "length": "train.length",
    "rate": "train.rate",
    "adapter": "adapter.kind",
    "text_field": "read.text_field",
    "seed": "seed",
}
"""The same for an adaptation's plan."""

_EVALUATE_WORDS = {
    "model": "model.name",
    "adapter": "model.adapter",
    "metric": "task.metric",
    "text_field": "task.text_field",
    "label_field": "task.label_field",
    "epochs": "tune.epochs",
    "rate": "tune.rate",
    "batch": "tune.batch",
    "length": "tune.length",
    "augment": "augment.kind",
    "mt": "augment.mt",
    "mt_back": "augment.mt_back",
    "seed": "seed",
}
"""The same for an evaluation's plan."""

_P = TypeVar("_P", bound=Settings)


def build_plan(plan: Plan | Path | str | None, settings: Sequence[str], **words: Any) -> Plan:
    """A plan from a plan or a TOML file, then single words, then `a.b=c` settings.

    Raises:
        UsageError: a word or a setting does not exist, or its value is not allowed.
    """
    return _built(Plan(), _WORDS, plan, settings, words).check()


def build_adapt_plan(
    plan: AdaptPlan | Path | str | None,
    settings: Sequence[str],
    preset: str | None,
    data: Inputs,
    **words: Any,
) -> AdaptPlan:
    """The same for an adaptation: a preset first, which all else goes before.

    The task's own texts are trained on as in Gururangan et al. unless another preset is named.

    Raises:
        UsageError: as `build_plan`; there is no such preset.
    """
    if preset and isinstance(plan, AdaptPlan):
        raise bad_setting("preset", "left out with a plan, which says everything itself", preset)
    asked = _built(AdaptPlan(), _ADAPT_WORDS, plan, settings, words)
    preset = preset or ("tapt" if _listed(data) == [pipeline.TASK] else None)
    if preset:
        start = AdaptPlan()
        for path, value in preset_of(preset, asked.weigh.policy).items():
            start = start.with_value(path, value)
        if asked.train.steps is not None or asked.train.epochs is not None:
            start = start.with_value("train.steps", None).with_value("train.epochs", None)
        asked = _built(start, _ADAPT_WORDS, plan, settings, words)
    return asked.check()


def build_evaluate_plan(
    plan: EvaluatePlan | Path | str | None, settings: Sequence[str], **words: Any
) -> EvaluatePlan:
    """The same for an evaluation; raises as `build_plan`, and without a model."""
    built = _built(EvaluatePlan(), _EVALUATE_WORDS, plan, settings, words).check()
    if not built.model.name:
        raise bad_setting("--model", "a model folder, a hub id or an adapter's folder", "nothing")
    return built


def _built(
    start: _P,
    words_of: Mapping[str, str],
    plan: Settings | Path | str | None,
    settings: Sequence[str],
    words: Mapping[str, Any],
) -> _P:
    """A plan's start, changed by a file, then by words, then by settings."""
    for word in words.keys() - words_of.keys():
        near = difflib.get_close_matches(word, words_of, n=1, cutoff=0.0)[0]
        raise bad_setting("A keyword", f"one of {', '.join(words_of)}", word, f"Perhaps {near}?")
    built = start
    if isinstance(plan, type(start)):
        built = plan
    elif plan is not None:
        built = start.with_toml(Path(str(plan)))
    for word, value in words.items():
        if value is not None:
            built = built.with_value(words_of[word], value)
    return built.with_overrides(settings)


def _listed(inputs: Inputs) -> list[str]:
    return [str(inputs)] if isinstance(inputs, str | Path) else [str(i) for i in inputs]


def select(
    *,
    target: Inputs,
    corpus: Inputs,
    out: Path | str,
    plan: Plan | Path | str | None = None,
    settings: Sequence[str] = (),
    overwrite: bool = False,
    machine: Machine | None = None,
    **words: Any,
) -> Selection:
    """Find the part of a corpus that is like a task.

    Args:
        target: files, folders, globs, URLs or `hub:NAME` datasets with texts of the task.
        corpus: the same for the pile to choose from.
        out: a new or empty folder or URL, or one of the same run to resume.
        plan: a plan or a TOML file to start from.
        settings: further settings as `"cut.gamma=5"`.
        overwrite: replace another run in `out`.
        machine: where it runs, with how many workers, and what is told of it.
        **words: method, fraction, segments, tokens, threshold, weights, embedder, budget, cascade,
            recall, unit, text_field, strict, seed: as the options of the same name.

    Returns:
        The finished run: iterate over it for the selected segments.

    Raises:
        CorpusfitError: see `corpusfit.errors`.
    """
    return pipeline.select(
        build_plan(plan, settings, **words),
        _listed(target),
        _listed(corpus),
        place(out, "--out"),
        machine=machine or Machine(),
        overwrite=overwrite,
    )


def score(
    *,
    target: Inputs,
    corpus: Inputs,
    out: Path | str,
    plan: Plan | Path | str | None = None,
    settings: Sequence[str] = (),
    overwrite: bool = False,
    machine: Machine | None = None,
    **words: Any,
) -> Selection:
    """As `select`, but scores only."""
    return pipeline.score(
        build_plan(plan, settings, **words),
        _listed(target),
        _listed(corpus),
        place(out, "--out"),
        machine=machine or Machine(),
        overwrite=overwrite,
    )


def estimate(
    *,
    target: Inputs,
    corpus: Inputs,
    plan: Plan | Path | str | None = None,
    settings: Sequence[str] = (),
    machine: Machine | None = None,
    **words: Any,
) -> dict[str, Any]:
    """What `select` would read and take, measured on a sample; takes `select`'s arguments.

    Returns:
        sources, stored_mb, text_mb, units, seconds, workers, memory_mb, disk_mb; with a budget also
        `budget`, what it came to; for a cascade also shares, and whether these are assumed.
    """
    return pipeline.estimate(
        build_plan(plan, settings, **words),
        _listed(target),
        _listed(corpus),
        machine=machine or Machine(),
    )


def choose(
    out: Path | str,
    *,
    settings: Sequence[str] = (),
    machine: Machine | None = None,
    **words: Any,
) -> Selection:
    """Choose again from stored scores.

    Args:
        out: the folder of a `select` or `score`.
        settings: further settings as `"choose.alpha=-1"`.
        machine: as in `select`.
        **words: fraction, segments, tokens, threshold, weights.

    Returns:
        The run with its new selection.
    """
    plan = build_plan(None, settings, **words)
    given = [*words, *(item.partition("=")[0].strip() for item in settings)]
    if plan != dataclasses.replace(Plan(), choose=plan.choose):
        raise bad_setting(
            "A setting of choose",
            "fraction, segments, tokens, threshold, weights, choose.c or choose.alpha",
            ", ".join(given),
            "What was scored is settled: score again with another --out to change the rest.",
        )
    return pipeline.choose(place(out, "DIR"), plan.choose, machine=machine or Machine())


def explain(
    out: Path | str,
    *,
    row: str | None = None,
    text: str | None = None,
    top: int = 10,
    machine: Machine | None = None,
) -> Explanation:
    """Explain one score of a run.

    Args:
        out: the folder of a `select` or `score`.
        row: `SOURCE:ROW` or `SOURCE:ROW:SEGMENT` as in `scores/`; without a segment the first.
        text: or any text.
        top: at most so many n-grams to each side, and so many target texts.
        machine: as in `select`.

    Returns:
        The score, what raised and lowered it, and the target texts nearest to the text.
    """
    machine = machine or Machine(workers=1)
    return pipeline.explain(place(out, "DIR"), row=row, text=text, top=top, machine=machine)


def audit(
    out: Path | str,
    *,
    truth: str = SOURCE,
    domain: str | Sequence[str] = (),
    machine: Machine | None = None,
) -> Audit:
    """Hold a run against known domains.

    Args:
        out: the folder of a `select` or `score`.
        truth: a row's domain: `source` for the name of its source, or the field that holds it.
        domain: globs such as `bio_*`; a domain that matches one is what was sought.
        machine: as in `select`.

    Returns:
        What is in the corpus and in the selection by domain; with `domain` also how well it was
        found.
    """
    return pipeline.audit(
        place(out, "DIR"),
        truth=truth,
        domain=[domain] if isinstance(domain, str) else list(domain),
        machine=machine or Machine(),
    )


def rank(
    *,
    target: Inputs,
    corpus: Inputs,
    methods: Sequence[str] = (),
    seeds: int = 3,
    plan: Plan | Path | str | None = None,
    settings: Sequence[str] = (),
    machine: Machine | None = None,
    **words: Any,
) -> list[Ranked]:
    """Rank methods on this target and corpus.

    Args:
        target: as in `select`.
        corpus: as in `select`.
        methods: names; none means all that score a unit by itself, but PyOD's and those that train
            a network.
        seeds: how many splits of the target.
        plan: as in `select`.
        settings: as in `select`.
        machine: as in `select`.
        **words: embedder, unit, text_field, seed.

    Returns:
        One verdict a method, with its cost in seconds a GB of text, most agreement first.
    """
    return pipeline.rank(
        build_plan(plan, settings, method=methods[0] if len(methods) == 1 else None, **words),
        _listed(target),
        _listed(corpus),
        methods=methods,
        seeds=seeds,
        machine=machine or Machine(),
    )


def forecast(
    *,
    data: Inputs,
    plan: AdaptPlan | Path | str | None = None,
    settings: Sequence[str] = (),
    machine: Machine | None = None,
    **words: Any,
) -> Forecast:
    """Say whether adapting a model on a selection is likely to pay; in seconds, nothing is trained.

    Args:
        data: folders of `select`; several are set side by side.
        plan: as in `adapt`.
        settings: further settings as `"mix.heldout=1000"`.
        machine: as in `adapt`.
        **words: model, objective, length, seed: as in `adapt`.

    Returns:
        For each selection how much nearer to the task it is than its corpus, and what the task's
        text costs the model; and all of it in words.
    """
    return pipeline.forecast(
        build_adapt_plan(plan, settings, None, data, **words),
        _listed(data),
        machine=machine or Machine(),
    )


def adapt(
    *,
    data: Inputs,
    out: Path | str,
    task: Inputs = (),
    replay: Inputs = (),
    guard: Inputs = (),
    preset: str | None = None,
    plan: AdaptPlan | Path | str | None = None,
    settings: Sequence[str] = (),
    track: str = "",
    overwrite: bool = False,
    machine: Machine | None = None,
    **words: Any,
) -> Adapted:
    """Continue the pre-training of a language model on what was selected.

    Args:
        data: the folder of a `select`, any inputs as for `corpus` there, or `"task"` for the task's
            own texts.
        out: a new or empty folder of this machine, or one of the same training to resume.
        task: texts of the task, to measure the loss on; a selection's target if not given.
        replay: general text to mix in.
        guard: a task's folder, of which dev and test are meant, or files of such texts: what holds
            one of them is not trained on.
        preset: a paper's settings: tadpole, mdapt, mdapt-adapter or tapt.
        plan: a plan, in which case without a preset, or a TOML file to start from.
        settings: further settings as `"train.warmup=0.06"`.
        track: tensorboard, wandb or mlflow.
        overwrite: replace another training in `out`.
        machine: where text is tokenised, and what is told of it all.
        **words: model, init, new_head, objective, whole_word, weights, replay_share, steps, epochs,
            batch, length, rate, adapter, text_field, seed: as the options of the same name.

    Returns:
        The finished training; its folder loads with `AutoModel.from_pretrained`, or is an adapter.

    Raises:
        CorpusfitError: see `corpusfit.errors`.
    """
    folder = place(out, "--out")
    if not is_local(folder):
        raise bad_setting("--out", "a folder of this machine", str(out))
    return pipeline.adapt(
        build_adapt_plan(plan, settings, preset, data, **words),
        _listed(data),
        folder,
        task=_listed(task),
        replay=_listed(replay),
        guard=_listed(guard),
        track=track,
        machine=machine or Machine(),
        overwrite=overwrite,
    )


def contamination(
    *,
    task: Inputs,
    data: Inputs,
    text_field: str | None = None,
    seed: int = 0,
    machine: Machine | None = None,
) -> Contamination:
    """Report what of a task's dev and test texts lies in text that is to be trained on.

    Args:
        task: a task's folder or `hub:NAME`, of which dev and test are meant, or files of such
            texts.
        data: the folder of a `select`, or any inputs as for `corpus` there.
        text_field: name of the field with the text, of both.
        seed: of the draw of splits that the task lacks, as `evaluate` makes them.
        machine: as in `select`.

    Returns:
        Counts by split and source, examples, and the texts of the data that should be left out.

    Raises:
        CorpusfitError: see `corpusfit.errors`.
    """
    return pipeline.contamination(
        _listed(task),
        _listed(data),
        read=ReadPlan() if text_field is None else ReadPlan(text_field=text_field),
        seed=seed,
        machine=machine or Machine(),
    )


def estimate_adaptation(
    *,
    data: Inputs,
    task: Inputs = (),
    replay: Inputs = (),
    preset: str | None = None,
    plan: AdaptPlan | Path | str | None = None,
    settings: Sequence[str] = (),
    machine: Machine | None = None,
    **words: Any,
) -> dict[str, Any]:
    """What `adapt` would take, measured over a few steps; takes `adapt`'s arguments.

    Returns:
        sources, stored_mb, tokens, parameters, trained, steps, words, step_s, seconds, memory_mb,
        disk_mb.
    """
    return pipeline.estimate_adaptation(
        build_adapt_plan(plan, settings, preset, data, **words),
        _listed(data),
        task=_listed(task),
        replay=_listed(replay),
        machine=machine or Machine(),
    )


def evaluate(
    *,
    task: str | Path,
    out: Path | str,
    base: str | Path = "",
    seeds: int = 8,
    train_sizes: Sequence[int] = (),
    plan: EvaluatePlan | Path | str | None = None,
    settings: Sequence[str] = (),
    overwrite: bool = False,
    machine: Machine | None = None,
    **words: Any,
) -> Evaluated:
    """Fine-tune a model on a labelled task with several seeds, and hold it against another.

    Args:
        task: a folder with train, dev and test in any supported format, a file, or `hub:NAME`.
        out: a new or empty folder of this machine, or one of the same task and settings.
        base: the model to compare with.
        seeds: fine-tunings of each model and size.
        train_sizes: numbers of training examples, each in turn; all of them if left out.
        plan: a plan, or a TOML file to start from.
        settings: further settings as `"tune.warmup=0.06"`.
        overwrite: replace another evaluation in `out`.
        machine: where it runs, and what is told of it.
        **words: model, adapter, metric, text_field, label_field, epochs, rate, batch, length,
            augment, mt, mt_back, seed: as the options of the same name.

    Returns:
        The finished evaluation: `manifest["results"]`, `manifest["comparisons"]`, `outcomes()`.

    Raises:
        CorpusfitError: see `corpusfit.errors`.
    """
    folder = place(out, "--out")
    if not is_local(folder):
        raise bad_setting("--out", "a folder of this machine", str(out))
    return pipeline.evaluate(
        build_evaluate_plan(plan, settings, **words),
        str(task),
        folder,
        base=str(base),
        seeds=seeds,
        train_sizes=train_sizes,
        machine=machine or Machine(),
        overwrite=overwrite,
    )


def estimate_evaluation(
    *,
    task: str | Path,
    base: str | Path = "",
    seeds: int = 8,
    train_sizes: Sequence[int] = (),
    plan: EvaluatePlan | Path | str | None = None,
    settings: Sequence[str] = (),
    machine: Machine | None = None,
    **words: Any,
) -> dict[str, Any]:
    """What `evaluate` would take, measured on a few examples; takes `evaluate`'s arguments.

    Returns:
        fine_tunings, train, dev, test (examples), examples_per_second, seconds, words.
    """
    return pipeline.estimate_evaluation(
        build_evaluate_plan(plan, settings, **words),
        str(task),
        models=2 if base else 1,
        seeds=seeds,
        train_sizes=train_sizes,
        machine=machine or Machine(),
    )
