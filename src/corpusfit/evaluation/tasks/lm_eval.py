"""Tasks of lm-evaluation-harness, by name or as a YAML file, answered by a causal model as it is.

Reference: Gao et al. (2021), A framework for few-shot language model evaluation.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from corpusfit.core.artifacts import user_path
from corpusfit.core.errors import CorpusfitError, InputError, TrainingError, bad_setting
from corpusfit.core.manifest import digest
from corpusfit.embed.hardware import Hardware
from corpusfit.evaluation.contract import Answering, TaskType
from corpusfit.evaluation.likelihood import open_causal
from corpusfit.evaluation.plan import EvaluatePlan, LikelihoodPlan, TaskPlan, metric_of
from corpusfit.evaluation.task import Examples, Task
from corpusfit.text.files import first_line
from corpusfit.training.schedule import naming_memory_errors

_BATCH = 8
_SCORING = ("output_type", "metric_list", "filter_list", "process_results", "repeats")
"""Fields of a task's configuration that decide on scores."""
_OUT_OF_MEMORY = TrainingError("Out of memory. Set a smaller `likelihood.context`.")
# A task of lm-eval, of several in a group, and the number of an example in it.
_Key = tuple[str, int]


class LmEval(TaskType):
    """A task that lm-eval reads and scores.

    An example is what the model is asked, with its `_Key` and the right answer, as JSON. An answer
    has the value of each of `metrics`, None where the task lacks it. Only metrics that are means
    over examples can be resampled; every example counts once, also in a group of tasks.
    """

    forms = ()
    group = "likelihood"
    uses_train = False
    doing = "answer"
    metrics = ("acc", "acc_norm", "acc_bytes", "acc_mutual_info", "exact_match")
    default_metric = "acc"
    augmentations = ()

    def read(self, source: str, plan: TaskPlan) -> Task:
        """The examples of a task by name, or of a YAML file; lm-eval downloads what it names."""
        file = user_path(source).absolute()
        name, source = (file.stem, str(file)) if file.is_file() else (source, source)
        try:
            logged, scored_by = _evaluated(source, "dummy")
        except CorpusfitError:
            raise
        except Exception as e:
            raise InputError(
                f"`task={source}` must be a task of lm-eval: its name (`lm_eval ls tasks` lists "
                f"them), or a YAML file. lm-eval says: {type(e).__name__}: {first_line(e)}."
            ) from e
        has = [m for m in self.metrics if all(m in sample for sample in logged.values())]
        wanted = metric_of(plan, self.kind)
        if wanted not in has:
            metrics = ", ".join(next(iter(logged.values()))["metrics"])
            cure = f"{name} has {metrics}."
            raise bad_setting("`task.metric`", " or ".join(has) or "of another task", wanted, cure)
        if plan.test_size:
            cure = "Leave it out: all examples of the task are answered."
            raise bad_setting("`task.test_size`", "0 with lm_eval", plan.test_size, cure)
        # all that decides on the answers and their scores, as the digest of a task is of these
        examples = [
            {
                "example": key,
                "asked": sample["arguments"],
                "target": sample["target"],
                "scored_by": scored_by[key[0]],
            }
            for key, sample in logged.items()
        ]
        pieces = [[json.dumps(e, ensure_ascii=False, default=str)] for e in examples]
        test, none = Examples(pieces, [[] for _ in pieces]), Examples([], [])
        return Task(name, self.kind, (), 0, none, none, test, place=source)

    def open_model(
        self, task: Task, plan: EvaluatePlan, seed: int, hardware: Hardware
    ) -> Answering:
        """Answer by lm-eval's own HFLM, around the model that is opened as for other kinds."""
        if plan.likelihood.shots != LikelihoodPlan.shots:
            cure = "Set `num_fewshot` in the task's YAML file."
            raise bad_setting(
                "`likelihood.shots`", "left out with lm_eval", plan.likelihood.shots, cure
            )
        model, tokenizer = open_causal(plan.model.name, hardware)

        def answer(examples: Examples, on_done: Callable[[float], None]) -> tuple[list[Any], int]:
            from lm_eval.models.huggingface import HFLM

            opened = HFLM(
                model,
                tokenizer=tokenizer,
                max_length=plan.likelihood.context,
                device=hardware.device,
                batch_size=_BATCH,
                mixed_precision_dtype="bfloat16" if hardware.precision == "bf16" else None,
            )
            examples_of = [json.loads(text)["example"] for text in examples.texts()]
            keys = [(name, number) for name, number in examples_of]
            with naming_memory_errors(_OUT_OF_MEMORY):
                logged, _ = _evaluated(task.place, opened, keys)
            on_done(len(examples))
            values = [[logged[key].get(metric) for metric in self.metrics] for key in keys]
            return [[None if v is None else float(v) for v in row] for row in values], 0

        return answer

    def tally(
        self, labels: tuple[str, ...], examples: Examples, answers: NDArray[Any]
    ) -> NDArray[np.float64]:
        """float64 [n, 3, metrics]: the value, nothing, and whether the task has the metric."""
        values = np.asarray(answers, np.float64)
        has = np.isfinite(values)
        return np.stack([np.where(has, values, 0.0), np.zeros(values.shape), has], 1)

    def score(self, name: str, summed: NDArray[Any]) -> NDArray[np.float64]:
        """The mean of a metric, of sums [..., 3, metrics]; NaN where the task lacks it."""
        value, _, count = np.moveaxis(summed[..., self.metrics.index(name)], -1, 0)
        missing = np.full(value.shape, np.nan)
        return np.asarray(np.divide(value, count, out=missing, where=count > 0), np.float64)


def _evaluated(
    source: str, model: Any, keys: list[_Key] | None = None
) -> tuple[dict[_Key, Mapping[str, Any]], dict[str, str]]:
    """What lm-eval logs of each example, by the first filter, and how each task scores them."""
    try:
        import lm_eval
        from lm_eval.tasks import TaskManager
    except ImportError as e:
        allowed, cure = "another kind without lm-eval", "Install it with `pip install lm-eval`."
        raise bad_setting("`task.kind`", allowed, "lm_eval", cure) from e
    file = Path(source)
    options = (
        {"include_path": str(file.parent), "include_defaults": False} if file.is_file() else {}
    )
    wanted: dict[str, list[int]] = {}
    for name, number in sorted(keys or ()):
        wanted.setdefault(name, []).append(number)
    manager = TaskManager(**options)
    loaded = manager.load([source])["tasks"]
    found = lm_eval.simple_evaluate(
        model,
        tasks=[task for name, task in loaded.items() if not wanted or name in wanted],
        samples=wanted or None,
        task_manager=manager,
        bootstrap_iters=0,
    )
    by_example: dict[_Key, Mapping[str, Any]] = {}
    # a task logs an example once per filter: the first one counts
    for name, samples in found["samples"].items():
        for sample in samples:
            by_example.setdefault((name, sample["doc_id"]), sample)
    scored_by = {
        name: digest([lm_eval.__version__, [_stated(config.get(field)) for field in _SCORING]])
        for name, config in found["configs"].items()
    }
    return by_example, scored_by


def _stated(value: Any) -> Any:
    """A part of a configuration, with functions as their source."""
    if isinstance(value, Mapping):
        return {key: _stated(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_stated(each) for each in value]
    return inspect.getsource(value) if callable(value) else value
