"""Callbacks of transformers in a training of `adapt`."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from corpusfit.core.errors import bad_setting
from corpusfit.training.trainer import TrainerCallback, Training


def opened_callbacks(callbacks: Sequence[Any]) -> list[Any]:
    """The callbacks, of which classes are instantiated, as `transformers.Trainer` does."""
    if not callbacks:
        return []
    from transformers import TrainerCallback as TransformersCallback

    opened = [each() if isinstance(each, type) else each for each in callbacks]
    for each in opened:
        if not isinstance(each, TransformersCallback):
            allowed = "a list of `transformers.TrainerCallback`s"
            cure = "For metrics of another kind, read `losses.jsonl`."
            raise bad_setting("`callbacks`", allowed, each, cure)
    return opened


class TransformersCallbacks(TrainerCallback):
    """Calls callbacks of transformers, besides a callback of our own.

    They get `on_train_begin`, `on_step_end`, `on_log`, `on_evaluate`, `on_save` and `on_train_end`.
    Of the control only `should_training_stop` counts.
    """

    may_stop = True

    def __init__(
        self,
        callbacks: Sequence[Any],
        training: Training,
        folder: Path,
        tokenizer: Any,
        shown: TrainerCallback,
    ) -> None:
        from transformers import TrainerControl, TrainerState, TrainingArguments

        plan, steps = training.plan, training.plan.max_steps or 0
        self._callbacks, self._shown = callbacks, shown
        self._model, self._tokenizer = training.network.predictor.model, tokenizer
        self._metric = "eval_loss" if training.bleu is None else "eval_bleu"
        self._sign = 1 if training.bleu is None else -1  # of what is to be minimized
        self._epoch_steps = len(training.passes.rows(0)) / (plan.batch or 1)
        self._args = TrainingArguments(
            output_dir=str(folder),
            max_steps=steps,
            per_device_train_batch_size=plan.batch or 1,
            learning_rate=plan.learning_rate or 0.0,
            seed=training.seed,
            eval_strategy="steps" if training.heldout.micros else "no",
            save_strategy="no",
            metric_for_best_model=self._metric,
            greater_is_better=self._sign < 0,
            report_to="none",
            use_cpu=training.accelerator.device.type == "cpu",
            # or it would reset the state of the accelerator that trains
            accelerator_config={"use_configured_state": True},
        )
        self._args.load_best_model_at_end = training.keep != "last"
        self._control = TrainerControl()
        self._state = TrainerState(
            epoch=0.0,
            max_steps=steps,
            num_train_epochs=math.ceil(steps / self._epoch_steps),
            train_batch_size=plan.batch or 1,
            is_local_process_zero=training.accelerator.is_local_main_process,
            is_world_process_zero=training.accelerator.is_main_process,
        )

    @property
    def stopped(self) -> bool:  # type: ignore[override]
        """Whether a callback has set `should_training_stop`."""
        return bool(self._control.should_training_stop)

    def begin(self) -> None:
        """See `TrainerCallback`."""
        self._call("on_train_begin")

    def end(self) -> None:
        """See `TrainerCallback`."""
        self._call("on_train_end")

    def saved(self) -> None:
        """See `TrainerCallback`."""
        self._call("on_save")

    def step(self, steps: int, tokens: int) -> None:
        """See `TrainerCallback`."""
        self._shown.step(steps, tokens)
        self._move(self._state.global_step + steps)
        self._state.num_input_tokens_seen += tokens
        self._call("on_step_end")

    def measured(self, share: float) -> None:
        """See `TrainerCallback`."""
        self._shown.measured(share)

    def resume(self, step: int, history: Sequence[Mapping[str, Any]]) -> None:
        """See `TrainerCallback`; the state has the earlier records."""
        self._shown.resume(step, history)
        for record in history:
            self._note(record)
        self._move(step)

    def record(self, record: Mapping[str, Any]) -> None:
        """See `TrainerCallback`."""
        self._shown.record(record)
        before = self._state.best_metric
        logs = self._note(record)
        self._call("on_log", logs=logs)
        if "heldout" in record:
            # as with the Trainer, a callback compares with the best of the earlier measurements
            after = self._state.best_metric
            self._state.best_metric = before
            self._call("on_evaluate", metrics=logs)
            self._state.best_metric = after

    def waited(self, share: float) -> None:
        """See `TrainerCallback`."""
        self._shown.waited(share)

    def warn(self, message: str) -> None:
        """See `TrainerCallback`."""
        self._shown.warn(message)

    def _move(self, step: int) -> None:
        self._state.global_step = step
        self._state.epoch = step / self._epoch_steps

    def _note(self, record: Mapping[str, Any]) -> dict[str, float]:
        """Add a record to the state; returns it under the names that the Trainer uses."""
        step = record["step"]
        if "heldout" in record:
            losses = record["heldout"]
            logs = {f"eval_{name}_loss": loss for name, loss in losses.items()}
            logs["eval_loss"] = losses.get("task", next(iter(losses.values())))
            if "bleu" in record:
                logs["eval_bleu"] = record["bleu"]
            value, best = logs[self._metric], self._state.best_metric
            if best is None or self._sign * value < self._sign * best:
                self._state.best_metric, self._state.best_global_step = value, step
        else:
            logs = {"loss": record["loss"], "learning_rate": record["learning_rate"]}
        logs["epoch"] = step / self._epoch_steps
        self._state.log_history.append({**logs, "step": step})
        return logs

    def _call(self, event: str, **facts: Any) -> None:
        for callback in self._callbacks:
            control = getattr(callback, event)(
                self._args,
                self._state,
                self._control,
                model=self._model,
                processing_class=self._tokenizer,
                **facts,
            )
            self._control = control or self._control
