"""The training loop.

What: steps over batches that are prepared one step ahead, with held-out losses and checkpoints.
Why: a step is a function of the seed and its number, so a killed training resumes exactly. A loop
of our own guarantees this, and feeds packed rows to the model.
Trade-off: data parallelism and trackers are Accelerate's; sharded optimisers are not supported. On
CUDA the order of sums varies, so a repeated step can differ in its last bits.
Reference: TADPOLE, sections 3 (equation 1) and 4; Loshchilov and Hutter (2019), AdamW.
"""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from corpusfit.core.errors import TrainingError, bad_setting
from corpusfit.embed.hardware import seeded
from corpusfit.kernels.chance import place_keys
from corpusfit.training.adapters import trainable_parameters
from corpusfit.training.batches import ChunkTokens, MicroBatch, prefetch
from corpusfit.training.checkpoints import Checkpoints, State, load_weights, restore, save_weights
from corpusfit.training.heldout import Heldout, HeldoutBleu
from corpusfit.training.memory import (
    kept_memory,
    naming_memory_errors,
    out_of_memory_error,
    release_memory,
)
from corpusfit.training.objectives import Network, Objective
from corpusfit.training.passes import Feed, Passes
from corpusfit.training.plan import TrainPlan
from corpusfit.training.schedule import Updates, evaluations, minimised, out_of_patience, rate_at

if TYPE_CHECKING:
    import torch

RECORDS = 200
_PASSES = 3  # the work of a step in forward passes: a backward pass takes about two
_RELEASE = 50  # steps between releases of freed memory
_NAMED = 3  # texts of a batch whose loss is not finite
TRACKERS = ("tensorboard", "wandb", "mlflow")
"""Values of --track, and their packages."""


def start_accelerator(device: str, track: str, out: Path) -> Any:
    """Accelerate's `Accelerator`, for one process or those started by `accelerate launch`."""
    # Data parallelism only. Precision and gradient accumulation are done in the trainer, so
    # that one process and several compute the same gradient (docs/decisions/trainer.md).
    from accelerate import Accelerator, InitProcessGroupKwargs
    from accelerate.state import AcceleratorState, PartialState
    from accelerate.tracking import is_mlflow_available, is_tensorboard_available
    from accelerate.utils import is_wandb_available

    is_installed = {
        "tensorboard": is_tensorboard_available,
        "wandb": is_wandb_available,
        "mlflow": is_mlflow_available,
    }
    if track and track not in TRACKERS:
        raise bad_setting("`track`", f"one of {', '.join(TRACKERS)}", track)
    if track and not is_installed[track]():
        cure = f"Install it: pip install {track}"
        raise bad_setting("`track`", "a tracker that is installed", track, cure)
    # accelerate keeps the first device that a process asked for
    if PartialState._shared_state and PartialState().device.type != device:
        AcceleratorState._reset_state(reset_partial_state=True)
    timeout = InitProcessGroupKwargs(timeout=timedelta(days=7))  # others wait while one tokenises
    return Accelerator(
        cpu=device == "cpu",
        mixed_precision="no",
        log_with=track or None,
        project_dir=str(out),
        kwargs_handlers=[timeout],
    )


class TrainerCallback:
    """Callback of a training; every method does nothing."""

    def step(self, steps: int, tokens: int) -> None:
        """Called after `steps` steps over `tokens` tokens, padding included."""

    def resume(self, step: int, history: Sequence[Mapping[str, Any]]) -> None:
        """Called on resuming, with the number of steps done and their records."""

    def record(self, record: Mapping[str, Any]) -> None:
        """Called with a record of a training loss or of held-out losses."""

    def warn(self, message: str) -> None:
        """Called with a warning for the user."""


@dataclass(frozen=True, eq=False)
class Training:
    """Inputs of a training."""

    plan: TrainPlan  # plan with steps, batch, length and rate resolved
    objective: Objective
    network: Network  # the model, on its device
    chunk_tokens: ChunkTokens
    passes: Passes  # the order of the rows
    heldout: Heldout
    checkpoints: Checkpoints
    best: Path  # file of the best weights
    accelerator: Any  # Accelerate's `Accelerator`
    micro_rows: int  # maximum number of sequences per forward pass
    width: int  # tokens in a row; 0 for the length of the longest row of a forward pass
    seed: int
    done: int = 0  # steps of an earlier phase, which trackers count too
    bleu: HeldoutBleu | None = None  # BLEU on held-out pairs, if the best weights go by it

    @property
    def measurement(self) -> float:
        """The work of measuring the held-out losses once, in steps."""
        tokens = sum(m.ids.numel() for micros in self.heldout.micros.values() for m in micros)
        return tokens / (_PASSES * (self.plan.batch or 1) * self.passes.length)


def require_batch(batch: int, processes: int, *, whole: bool) -> None:
    """Raise `UsageError` if a step has too few sequences for each of some processes."""
    least = processes * (2 if whole else 1)
    if batch < least:
        each = "two sequences" if whole else "one sequence"
        cure = f"Each of the {processes} processes needs at least {each} per batch."
        raise bad_setting("`train.batch`", f"{least} or more", batch, cure)


@dataclass(frozen=True)
class _Batch:
    """One step's rows for this process, and the feed's position after them."""

    micros: list[MicroBatch]
    rows: list[NDArray[np.int64]]
    after: tuple[int, int]


def train(work: Training, callback: TrainerCallback) -> list[dict[str, Any]]:
    """Train a model in place, from its last checkpoint if there is one."""
    processes = work.accelerator.num_processes
    whole = work.objective.whole_steps
    require_batch(work.plan.batch or 1, processes, whole=whole)
    if work.plan.keep == "best" and not work.heldout.micros:
        cure = "The data is too small for a held-out set. Name texts of the task with `task`."
        raise bad_setting("`train.keep`", "last without held-out text", "best", cure)
    with seeded(work.seed), kept_memory():
        loop = TrainingLoop(work, callback)
        error = out_of_memory_error(work.plan, processes, work.micro_rows, whole=whole)
        with naming_memory_errors(error):
            loop.run()
    return loop.history


class TrainingLoop:
    """State of a running training."""

    def __init__(self, work: Training, callback: TrainerCallback) -> None:
        self.work, self.callback = work, callback
        self.history: list[dict[str, Any]] = []
        self.parameters = trainable_parameters(work.network.predictor.model)
        self.updates = Updates(self.parameters, work.plan)
        self.main = work.accelerator.is_main_process
        self.world, self.rank = work.accelerator.num_processes, work.accelerator.process_index
        self.steps = work.plan.steps or 0
        call = work.accelerator.prepare(work.network.predictor.model)
        self.network = dataclasses.replace(work.network, call=call)
        self._losses: list[torch.Tensor] = []
        self._kept: int | None = None  # the step of the last checkpoint

    def run(self) -> None:
        """Run all remaining steps."""
        work = self.work
        at = self._resume()
        feed = Feed(work.passes, at.at)
        evaluated = evaluations(work.plan)
        every = max(1, self.steps // RECORDS)
        between = 60 * work.plan.checkpoint_minutes
        work.network.predictor.model.train()
        saved = time.monotonic()
        if at.step == 0 and not self.history:
            self._measure(0)
        for step, batch in prefetch(lambda s: self.batch(feed, s), at.step, self.steps):
            self._update(step, batch)
            done = step + 1
            if done % _RELEASE == 0:
                release_memory()
            if done % every == 0 or done == self.steps:
                self._note(done)
            if done in evaluated:
                self._measure(done)
                if out_of_patience(self.history, work.plan.patience):
                    break
            in_sync = self.world == 1 or done % every == 0  # elsewhere, processes' losses differ
            if in_sync and done < self.steps and time.monotonic() - saved >= between:
                self._save(done, batch.after)
                saved = time.monotonic()
        if work.plan.keep == "best":
            load_weights(work.best, self.parameters)

    def _resume(self) -> State:
        """The state to resume from; the initial state without a checkpoint."""
        import torch

        newest = self.work.checkpoints.newest(self.callback.warn)
        if newest is None:
            return State(0, (0, 0), [], [])
        state, folder = newest
        restore(folder, self.parameters, self.updates.optimizer)
        self.history, self._kept = state.history, state.step
        losses = torch.tensor(state.losses, device=self.work.accelerator.device)
        self._losses = list((losses if self.main else losses * 0).unbind())  # summed over processes
        self.callback.resume(state.step, state.history)
        return state

    def batch(self, feed: Feed, step: int) -> _Batch:
        """This process's share of a step's rows."""
        work = self.work
        assert work.plan.batch is not None  # noqa: S101
        rows = feed.take(work.plan.batch)
        place = slice(self.rank, None, self.world)
        keys = place_keys(work.seed, step, len(rows))[place]
        mine = rows[place]
        micros = work.objective.micro_batches(
            work.chunk_tokens, mine, keys, work.micro_rows, work.width
        )
        return _Batch(micros, mine, feed.at)

    def _update(self, step: int, batch: _Batch) -> None:
        """One update: weighted mean loss, gradient, AdamW."""
        work = self.work

        def diverged(steps: int) -> TrainingError:
            texts = [work.chunk_tokens.name(int(c)) for row in batch.rows for c in row]
            names = list(dict.fromkeys(texts))
            more = f" and {len(names) - _NAMED} more texts" if len(names) > _NAMED else ""
            kept = "There is no checkpoint yet"
            if self._kept is not None:
                kept = f"The last checkpoint is from step {self._kept:,}"
            return TrainingError(
                f"Training diverged: the loss of step {steps:,} is not finite. The batch holds "
                f"{'; '.join(names[:_NAMED])}{more}. {kept}. Set `train.rate` below "
                f"{work.plan.rate:g} and another `out`, or remove the text."
            )

        key = place_keys(work.seed + 1, step, self.world)[self.rank]
        self._losses.append(self.updates.make(step, key, lambda: self.gradient(batch), diverged))
        tokens = sum(m.size for m in batch.micros)
        self.callback.step(1, tokens * self.world)

    def gradient(self, batch: _Batch) -> torch.Tensor:
        """Accumulate a step's gradient; returns this process's part of the loss."""
        import torch

        work, device = self.work, self.work.accelerator.device
        counts = [sum(len(m.at) for m in batch.micros), len(batch.rows)]
        predicted, pairs = self._summed(torch.tensor(counts, dtype=torch.float64)).tolist()
        total = torch.zeros((), device=device)
        for number, micro in enumerate(batch.micros):
            last = number == len(batch.micros) - 1
            with nullcontext() if last else work.accelerator.no_sync(self.network.call):
                with self.network.scope():
                    tokens, follows = work.objective.losses(self.network, micro.to(device))
                loss = tokens / max(1.0, predicted) + follows / pairs
                work.accelerator.backward(loss * self.world)  # processes average gradients
            total += loss.detach()
        return total

    def _summed(self, figures: torch.Tensor) -> torch.Tensor:
        """The sum over all processes."""
        import torch

        if self.world == 1:
            return figures  # no transfer: reading a value from a GPU waits for all its work
        accelerator = self.work.accelerator
        return torch.as_tensor(accelerator.reduce(figures.to(accelerator.device), "sum"))

    def _note(self, step: int) -> None:
        """Record the mean loss since the last record."""
        import torch

        mean = self._summed(torch.stack(self._losses)).mean()
        self._losses.clear()
        rate = rate_at(step - 1, self.work.plan)
        self._record({"step": step, "loss": round(float(mean), 6), "rate": rate})

    def _measure(self, step: int) -> None:
        """Measure held-out losses; keep the weights if they are the best so far."""
        work = self.work
        if not work.heldout.micros:
            return
        losses = work.heldout.losses(work.objective, work.network)
        rounded = {name: round(loss, 6) for name, loss in losses.items()}
        best = min((minimised(r) for r in self.history if "heldout" in r), default=math.inf)
        record: dict[str, Any] = {"step": step, "heldout": rounded}
        if work.bleu is not None:
            record["bleu"] = round(work.bleu.measure(work.network), 4)
        self._record(record)
        if work.plan.keep == "best" and minimised(record) < best and self.main:
            save_weights(work.best, {n: p.detach() for n, p in self.parameters.items()})
        work.accelerator.wait_for_everyone()

    def _record(self, record: dict[str, Any]) -> None:
        self.history.append(record)
        self.callback.record(record)
        figures = {k: v for k, v in record.items() if k not in ("step", "heldout")}
        figures |= {f"heldout/{k}": v for k, v in record.get("heldout", {}).items()}
        self.work.accelerator.log(figures, step=self.work.done + record["step"])

    def _save(self, step: int, at: tuple[int, int]) -> None:
        self._kept = step
        if self.main:
            losses = [float(loss) for loss in self._losses]
            state = State(step, at, self.history, losses)
            self.work.checkpoints.write(state, self.parameters, self.updates.optimizer)
