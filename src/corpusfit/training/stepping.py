"""The steps of a training, made by `transformers.Trainer`.

What: a subclass of Trainer takes its rows from the training's own feed, makes the backward passes
of a step itself, and leaves measurements and checkpoints to the loop (`trainer.py`).
Why: what Trainer has (callbacks, trackers, data parallelism, its arguments) is tested by others
every day, and its weights are those of a loop of our own to the last bit
(benchmarks/decisions.md).
Trade-off: Trainer's own checkpoints are pickles and its data loaders read again what was seen, so
neither is used.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import islice
from typing import Any

import numpy as np
import torch
from transformers import PrinterCallback, Trainer, TrainerCallback, TrainingArguments

from corpusfit.core.errors import bad_setting
from corpusfit.embed.hardware import fast_products, seeded
from corpusfit.training import sharding
from corpusfit.training.batches import Feed
from corpusfit.training.folder import State
from corpusfit.training.schedule import kept_memory, naming_memory_errors, out_of_memory_error
from corpusfit.training.trainer import Training, TrainingListener, TrainingLoop, require_batch


def train(training: Training, listener: TrainingListener) -> list[dict[str, Any]]:
    """Train a model in place, from its last checkpoint if there is one."""
    processes = training.accelerator.num_processes
    require_batch(training.plan.batch or 1, processes)
    if training.plan.keep == "best" and not training.heldout.micros:
        cure = "The data is too small for a held-out set. Name texts of the task with `task`."
        raise bad_setting("`train.keep`", "last without held-out text", "best", cure)
    trained = (p.numel() for p in training.network.predictor.model.parameters() if p.requires_grad)
    device = training.accelerator.device.type
    with (
        seeded(training.seed),
        kept_memory(4 * max(trained, default=0)),
        fast_products(device, "fp32"),
    ):
        loop = TrainingLoop(training, listener)
        error = out_of_memory_error(
            training.plan, processes, training.micro_rows, can_recompute=training.can_recompute
        )
        with naming_memory_errors(error):
            run(loop)
    return loop.history


def run(loop: TrainingLoop) -> None:
    """Make all remaining steps of a loop."""
    training = loop.training
    model = training.network.predictor.model
    at = loop.resume()
    try:
        loop.maker = maker = AdaptTrainer(loop, at)
        model.train()
        maker.train()
    finally:
        loop.maker = None  # it holds the loop, too: both would stay in memory
    if training.plan.shard:
        sharding.gather(model, main=loop.main)


class Steps:
    """The steps that are left with their rows, as Trainer reads a data loader.

    A thread makes the rows of a step while the step before is computed.
    """

    def __init__(self, loop: TrainingLoop, at: State) -> None:
        self._loop = loop
        self._left = range(at.step, loop.steps)
        self._feed = Feed(loop.training.passes, at.at)

    def __len__(self) -> int:
        return len(self._left)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        with ThreadPoolExecutor(1, "batches") as pool:
            batches = (pool.submit(self._loop.batch, self._feed, step) for step in self._left)
            ahead = list(islice(batches, 1))
            for step in self._left:
                batch = ahead.pop().result()
                ahead += islice(batches, 1)
                yield {"step": step, "batch": batch}


class Position(TrainerCallback):  # type: ignore[misc]
    """Counts passes over the texts: Trainer's epoch is what this process has left to do."""

    def __init__(self, steps: float) -> None:
        self._steps = steps  # of a pass

    def on_step_end(self, args: Any, state: Any, control: Any, **facts: Any) -> None:
        """See `transformers.TrainerCallback`."""
        state.epoch = state.global_step / self._steps


class AdaptTrainer(Trainer):  # type: ignore[misc]
    """Trainer on the rows of a loop."""

    control: Any

    def __init__(self, loop: TrainingLoop, at: State) -> None:
        self._loop = loop
        self._at = at
        self._seen = at.step
        self._asked_to_stop = False  # by a callback, after a step has ended
        training = loop.training
        optimizer = loop.updates.optimizer
        schedule = loop.updates.schedule
        self._steps = Steps(loop, at)
        self._pass = len(training.passes.rows(0)) / (training.plan.batch or 1)  # in steps
        model = training.network.predictor.model
        if training.plan.shard:
            model._is_accelerate_prepared = True  # it is divided already (`sharding.py`)
        arguments = _arguments(loop, at, math.ceil(loop.steps / self._pass))
        for group in optimizer.param_groups:
            group["betas"] = (arguments.adam_beta1, training.plan.adam_beta2)
            group["eps"] = arguments.adam_epsilon
            group["lr"] = loop.updates.rate(at.step)
        rates = [group["lr"] for group in optimizer.param_groups]
        scheduler_state = {"last_epoch": at.step, "_step_count": at.step + 1, "_last_lr": rates}
        schedule.load_state_dict(schedule.state_dict() | scheduler_state)
        with _unchanged(model):
            super().__init__(
                model,
                arguments,
                eval_dataset=training.heldout.micros or None,
                callbacks=[Position(self._pass), *training.callbacks],
                optimizers=(optimizer, schedule),
            )
        # a new accelerator holds nothing, and this collects the garbage of the whole process
        self.accelerator.free_memory = lambda *objects: list(objects)
        self.accelerator.scaler = loop.scaler
        self.remove_callback(PrinterCallback)
        # as `processing_class` of Trainer it would change special tokens of the model's config
        self.callback_handler.processing_class = training.tokenizer

    def train(self, *arguments: Any, **named: Any) -> Any:
        """See `Trainer`; leaves no hook on the model, whatever ends it."""
        try:
            return super().train(*arguments, **named)
        finally:
            if handle := getattr(self, "neftune_hook_handle", None):
                handle.remove()

    def get_train_dataloader(self) -> Any:
        """See `Trainer`; each process makes its own rows."""
        return self._steps

    def floating_point_ops(self, inputs: Any) -> int:
        """Not counted."""
        return 0

    def training_step(self, model: Any, inputs: Mapping[str, Any], _: Any = None) -> torch.Tensor:
        """See `Trainer`."""
        batch = inputs["batch"]
        self.state.num_input_tokens_seen += batch.tokens * self._loop.world
        return self._loop.compute(model, self.accelerator, inputs["step"], batch)

    def log(self, logs: dict[str, float], start_time: float | None = None) -> None:
        """See `Trainer`; its summary in the end counts what it would have read itself."""
        if "train_runtime" not in logs:
            super().log(logs, start_time)

    def record(self, record: Mapping[str, Any]) -> None:
        """Tell callbacks and trackers of a record of the loop."""
        logs = _logs_of(record)
        self.log(logs)
        if "heldout" in record:
            self.control = self.callback_handler.on_evaluate(
                self.args, self.state, self.control, logs
            )
            self._compare(logs)

    def asked_to_stop(self) -> bool:
        """Whether a callback of this process asked for the end of the training."""
        return bool(self._asked_to_stop or self.control.should_training_stop)

    def saved(self) -> None:
        """Tell callbacks of a checkpoint."""
        self.control = self.callback_handler.on_save(self.args, self.state, self.control)

    def _compare(self, logs: dict[str, float]) -> None:
        """Note the best measurement so far."""
        if self._determine_best_metric(logs, None):
            self.state.best_global_step = self.state.global_step

    def _init_training_state(self, *arguments: Any) -> tuple[int, int]:
        begun: tuple[int, int] = super()._init_training_state(*arguments)
        for record in self._at.history:
            self.state.global_step = record["step"]
            logs = _logs_of(record)
            self.state.log_history.append({**logs, "step": record["step"]})
            if "heldout" in record:
                self._compare(logs)
        self.state.global_step = self._at.step
        self.state.epoch = self._at.step / self._pass
        return begun

    def _evaluate(self, *_: Any, **__: Any) -> None:
        self._loop.measure(0)

    def _clip_grad_norm(self, model: Any) -> Any:
        if self._loop.scaler is not None:  # Accelerate does so only where it casts, too
            self._loop.scaler.unscale_(self._loop.updates.optimizer)
        norm = super()._clip_grad_norm(model)
        self._loop.norms.append(norm)
        return norm

    def _maybe_log_save_evaluate(self, *_: Any, **__: Any) -> None:
        # Trainer calls it after the last step of an epoch once more
        if self.state.global_step == self._seen:
            return
        self._seen = self.state.global_step
        # what a callback of one process asks for, all do together: it counts in `TrainingLoop`
        ends = self._loop.after(self._seen)
        self._asked_to_stop = self.asked_to_stop()
        self.control.should_training_stop = ends
        self.control.should_epoch_stop = False

    def _finalize_training(self, *arguments: Any) -> Any:
        self._loop.finish()
        return super()._finalize_training(*arguments)


@contextmanager
def _unchanged(model: Any) -> Iterator[None]:
    """Undo what Trainer changes when it is made: `use_cache` of the config, global generators."""
    config = model.config
    cached = vars(config).get("use_cache")
    states = random.getstate(), np.random.get_state()  # noqa: NPY002 (Trainer seeds it)
    try:
        yield
    finally:
        random.setstate(states[0])
        np.random.set_state(states[1])  # noqa: NPY002
        if cached is None:
            vars(config).pop("use_cache", None)
        else:
            config.use_cache = cached


def _arguments(loop: TrainingLoop, at: State, passes: int) -> TrainingArguments:
    """Trainer's arguments: those that say what the loop does, and those that keep it as it is."""
    training = loop.training
    plan = training.plan
    device = training.accelerator.device
    arguments = TrainingArguments(
        output_dir=str(training.out),
        max_steps=loop.steps,
        num_train_epochs=passes,
        per_device_train_batch_size=math.ceil((plan.batch or 1) / loop.world),
        learning_rate=plan.learning_rate or 0.0,
        lr_scheduler_type=plan.lr_scheduler_type,
        warmup_steps=plan.warmup_steps,
        weight_decay=plan.weight_decay,
        adam_beta2=plan.adam_beta2,
        max_grad_norm=plan.max_grad_norm,
        seed=training.seed % 2**32,
        use_cpu=device.type == "cpu",
        eval_strategy="steps" if training.heldout.micros else "no",
        eval_on_start=bool(training.heldout.micros) and at.step == 0 and not at.history,
        metric_for_best_model="eval_loss",
        greater_is_better=False,
        save_strategy="no",
        logging_strategy="no",
        logging_nan_inf_filter=False,
        disable_tqdm=True,
        ddp_find_unused_parameters=False,
        # or it would reset the state of the accelerator that tokenised
        accelerator_config={"use_configured_state": True},
        **training.arguments,
    )
    arguments.load_best_model_at_end = loop.keep != "last"  # for callbacks that ask
    # Some variables of the environment decide in place of what is passed: which tracker is told,
    # the precision, and the first GPU instead of the named one.
    arguments.report_to = [training.track] if training.track else []
    arguments.mixed_precision = "no"
    vars(arguments)["_setup_devices"] = device
    arguments._n_gpu = min(1, arguments.n_gpu)  # one process trains on one device
    if device.type == "cuda":
        torch.cuda.set_device(device)
    return arguments


def _logs_of(record: Mapping[str, Any]) -> dict[str, float]:
    """A record under the names that Trainer uses."""
    if "heldout" not in record:
        return {"loss": record["loss"], "learning_rate": record["learning_rate"]}
    losses = record["heldout"]
    logs = {f"eval_{name}_loss": loss for name, loss in losses.items()}
    logs["eval_loss"] = losses.get("task", next(iter(losses.values())))
    return logs
