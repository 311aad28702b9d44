"""A training: what a step computes, when losses are measured, and its checkpoints.

What: batches that are prepared one step ahead, the gradient of a step, held-out losses, states.
Why: a step is a function of the seed and its number, so a killed training resumes exactly.
Trade-off: `transformers.Trainer` makes the steps (`stepping.py`), sharding is PyTorch's
(`sharding.py`). On CUDA the order of sums varies, so a repeated step can differ in its last bits.
Reference: TADPOLE, sections 3 (equation 1) and 4; Loshchilov and Hutter (2019), AdamW.
"""

from __future__ import annotations

import dataclasses
import importlib.util
import math
import os
import time
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from corpusfit.core.artifacts import names_in
from corpusfit.core.errors import TrainingError, bad_setting
from corpusfit.embed.hardware import seed_generators
from corpusfit.kernels.chance import place_keys
from corpusfit.training import sharding
from corpusfit.training.adapter import trainable_parameters
from corpusfit.training.batches import ChunkTokens, Feed, MicroBatch, Passes
from corpusfit.training.contract import Network, Objective
from corpusfit.training.folder import Checkpoints, State, load_weights, save_weights
from corpusfit.training.plan import TrainPlan
from corpusfit.training.schedule import (
    Updates,
    evaluations,
    has_risen,
    minimized,
    out_of_patience,
    release_memory,
)

if TYPE_CHECKING:
    import torch

    from corpusfit.training.chunks import Chunks
    from corpusfit.training.token_store import Tokens


_STREAM = 2**40  # a random stream other than those of the steps


@dataclass(frozen=True, eq=False)
class Heldout:
    """Fixed held-out sequences by kind of text."""

    # Sequences and masks are drawn once, so losses before, during and after training differ by
    # the model alone. A few hundred sequences show differences between models to about 0.01 nats,
    # not the loss on the whole text.
    # Reference: TADPOLE, section 3 and Figure 3 (the loss on the task's text).
    micros: Mapping[str, list[MicroBatch]]  # batches by kind of text

    @classmethod
    def of(
        cls,
        texts: Mapping[str, tuple[Tokens, Chunks]],
        objective: Objective,
        *,
        rows: int,
        seed: int,
    ) -> Heldout:
        """Lay out all chunks of some texts, one chunk per row."""
        batches = {}
        for name, (tokens, chunks) in texts.items():
            order = np.argsort(-chunks.length, kind="stable")
            stores = (tokens,) * (int(chunks.store.max(initial=0)) + 1)
            equal = np.ones(len(order), np.float32)
            plain = ChunkTokens(chunks, stores, equal, equal)
            keys = place_keys(seed, _STREAM, len(order))
            begins = list(range(0, len(order), rows))
            batches[name] = [
                objective.micro_batch(
                    plain, [order[i : i + 1] for i in range(at, end)], keys[order[at:end]]
                )
                for at, end in zip(begins, [*begins[1:], len(order)], strict=True)
            ]
        return cls(batches)

    def losses(self, objective: Objective, network: Network) -> dict[str, float]:
        """Mean loss per predicted token, in nats, by kind of text."""
        import torch

        model = network.predictor.model
        training = network.predictor.model.training
        model.eval()
        means = {}
        for name, micros in self.micros.items():
            total = 0.0
            count = 0
            for micro in micros:
                with torch.no_grad(), network.scope():
                    tokens, _ = objective.losses(network, micro.to(model.device))
                total += float(tokens)
                count += len(micro.at)
            means[name] = total / max(1, count)
        model.train(training)
        return means


def opened_callbacks(callbacks: Sequence[Any]) -> list[Any]:
    """The callbacks, of which classes are instantiated, as `transformers.Trainer` does."""
    if not callbacks:
        return []
    from transformers import TrainerCallback

    opened = [callback() if isinstance(callback, type) else callback for callback in callbacks]
    for callback in opened:
        if not isinstance(callback, TrainerCallback):
            allowed = "a list of `transformers.TrainerCallback`s"
            cure = "For metrics of another kind, read `losses.jsonl`."
            raise bad_setting("`callbacks`", allowed, callback, cure)
    return opened


RECORDS = 200
_RELEASE = 50  # steps between releases of freed memory
_RISEN = 2  # measurements above the first one after which a training stops
# weights that are saved at each better measurement, in case the loss rises later; of larger models
# that would take minutes
_MAX_SAVED_BYTES = 4_000_000_000
_LEAST_SCALE = 2**-10  # of losses in fp16; with that, gradients are too large for another reason
_NAMED = 3  # texts of a batch whose loss is not finite
TRACKERS = ("tensorboard", "wandb", "mlflow")
"""Values of --track, and their packages."""


def start_accelerator(device: str, track: str = "") -> Any:
    """Accelerate's `Accelerator`, for one process or those started by `accelerate launch`."""
    # Precision and gradient accumulation are the loop's, so that one process and several compute
    # the same gradient (benchmarks/decisions.md).
    from accelerate import Accelerator, InitProcessGroupKwargs
    from accelerate.state import AcceleratorState, PartialState
    from accelerate.utils import patch_environment

    if track and track not in TRACKERS:
        raise bad_setting("`track`", f"one of {', '.join(TRACKERS)}", track)
    if track and importlib.util.find_spec(track) is None:
        cure = f"Install it: pip install {track}"
        raise bad_setting("`track`", "a tracker that is installed", track, cure)
    launched = "LOCAL_RANK" in os.environ
    if launched and ":" in device:
        cure = "Each process of `accelerate launch` takes a device of its own."
        raise bad_setting("`train.device`", "a device without a number here", device, cure)
    # accelerate keeps the first device that a process asked for
    if PartialState._shared_state:
        current = PartialState().device
        if (current.type if launched else str(current)) != device:
            AcceleratorState._reset_state(reset_partial_state=True)
    # the other processes wait while one tokenises, which may take long
    timeout = InitProcessGroupKwargs(timeout=timedelta(days=7))
    # of a kind accelerate takes the first device, and of several kinds the one that it prefers
    named = {} if launched or device in ("cpu", "cuda") else {"ACCELERATE_TORCH_DEVICE": device}
    with patch_environment(**named):
        return Accelerator(
            cpu=device == "cpu",
            mixed_precision="no",
            kwargs_handlers=[timeout],
        )


class TrainingListener:
    """What is told of a training; every method does nothing."""

    def step(self, steps: int, tokens: int) -> None:
        """Called after `steps` steps over `tokens` tokens, padding included."""

    def resume(self, step: int, history: Sequence[Mapping[str, Any]]) -> None:
        """Called on resuming, with the number of steps done and their records."""

    def record(self, record: Mapping[str, Any]) -> None:
        """Called with a record of a training loss or of held-out losses."""

    def warn(self, message: str) -> None:
        """Called with a warning for the user."""


class StepMaker(Protocol):
    """What makes the steps of a loop (`stepping.py`), as the loop calls it."""

    def record(self, record: Mapping[str, Any]) -> None:
        """Called with each record of losses."""

    def saved(self) -> None:
        """Called after a checkpoint."""

    def asked_to_stop(self) -> bool:
        """Whether a callback asked for the end of the training."""


@dataclass(frozen=True, eq=False)
class Training:
    """Inputs of a training."""

    plan: TrainPlan  # plan with max_steps, batch, length and learning_rate resolved
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
    can_recompute: bool = False  # whether activations are kept that could be computed again
    out: Path = Path()  # for callbacks, the folder of the model
    tokenizer: Any = None  # for callbacks
    callbacks: Sequence[Any] = ()  # of transformers
    track: str = ""  # experiment tracker, or ""
    arguments: Mapping[str, Any] = field(default_factory=dict)  # of transformers' Trainer

    @property
    def keep(self) -> str:
        """Which weights are kept: those of a large model are not saved for the case of a rise."""
        parameters = trainable_parameters(self.network.predictor.model).values()
        size = sum(p.numel() * p.element_size() for p in parameters)
        cannot = "task" not in self.heldout.micros or size > _MAX_SAVED_BYTES
        return "last" if self.plan.keep == "auto" and cannot else self.plan.keep


def require_batch(batch: int | None, processes: int) -> None:
    """Raise `UsageError` if a step has too few sequences for each of some processes."""
    if batch is not None and batch < processes:
        cure = f"Each of the {processes} processes needs at least one sequence per batch."
        raise bad_setting("`train.batch`", f"{processes} or more", batch, cure)


class Batch(NamedTuple):
    """One step's rows for this process."""

    micros: list[MicroBatch]
    rows: list[NDArray[np.int64]]
    after: tuple[int, int]  # the feed's position after them

    @property
    def tokens(self) -> int:
        """Tokens of its rows, padding included."""
        return sum(micro.size for micro in self.micros)


class TrainingLoop:
    """State of a running training."""

    def __init__(self, training: Training, listener: TrainingListener) -> None:
        import torch

        self.training = training
        self.listener = listener
        self.history: list[dict[str, Any]] = []
        self.parameters = trainable_parameters(training.network.predictor.model)
        self.main = training.accelerator.is_main_process
        self.world = training.accelerator.num_processes
        self.rank = training.accelerator.process_index
        self.steps = training.plan.max_steps or 0
        self.network = training.network
        self.accelerator = training.accelerator
        self.updates = Updates(self.parameters, training.plan)
        self.keep = training.keep
        # In fp16 small gradients are zero, so the loss is scaled up; a step whose gradients are too
        # large is skipped, and the scale halved. The optimizer does so without a wait for the GPU.
        # Reference: Micikevicius et al. (2018), Mixed Precision Training, section 3.2.
        self.scaler: torch.amp.GradScaler | None = None
        if training.network.precision == "fp16":
            self.scaler = torch.amp.GradScaler(training.accelerator.device.type)
        # of the steps since the last record
        self._losses: list[torch.Tensor] = []
        self._made: list[tuple[int, list[NDArray[np.int64]]]] = []
        self.norms: list[torch.Tensor] = []
        self._skipped = 0
        self._at = (0, 0)  # the feed's position after the last step
        self._evaluated = evaluations(training.plan)
        self._kept: int | None = None  # step of the last checkpoint
        self._saved = time.monotonic()
        self.maker: StepMaker | None = None

    def finish(self) -> None:
        """Give the model the weights that are kept."""
        if self.keep == "best" or (self.keep == "auto" and has_risen(self.history)):
            load_weights(self.training.best, self.parameters)

    def compute(self, model: Any, accelerator: Any, step: int, batch: Batch) -> torch.Tensor:
        """Compute the gradient of a step, of the model as Trainer prepared it; returns the loss."""
        training = self.training
        self.network = dataclasses.replace(training.network, call=model)
        self.accelerator = accelerator
        seed_generators(
            int(place_keys(training.seed + 1, step, self.world)[self.rank] >> np.uint64(1))
        )
        loss = self.gradient(batch)
        self._losses.append(loss)
        self._made.append((step, batch.rows))
        self._at = batch.after
        self.listener.step(1, batch.tokens * self.world)
        return loss

    def after(self, done: int) -> bool:
        """Record, measure and save after a step; returns whether the training ends."""
        training = self.training
        every = max(1, self.steps // RECORDS)
        if done % _RELEASE == 0:
            release_memory()
        if done % every == 0 or done == self.steps:
            self._note(done)
        if done in self._evaluated:
            self.measure(done)
            # a rate that is too high is seldom made up for after the first half of the steps
            hopeless = self.keep == "auto" and 2 * done >= self.steps
            if hopeless and has_risen(self.history, _RISEN):
                return True
            if out_of_patience(self.history, training.plan.patience):
                return True
        if done == self.steps:
            return True
        if self._stopped():
            if self._losses:
                self._note(done)
            if done not in self._evaluated:
                self.measure(done)
            return True
        # losses are summed over processes only at a record, so checkpoints wait for one
        in_sync = self.world == 1 or done % every == 0
        if in_sync and self._is_due(self._saved):
            self._save(done, self._at)
            self._saved = time.monotonic()
        return False

    def _save(self, step: int, at: tuple[int, int]) -> None:
        """Write the state as a checkpoint."""
        training = self.training
        self._require_finite()
        self._kept = step
        losses = [float(loss) for loss in self._losses]
        scaler = {}
        if self.scaler is not None:
            scaler = {**self.scaler.state_dict(), "skipped": self._skipped}
        state = State(step, at, list(self.history), losses, scaler)
        weights = self.parameters, self.updates.optimizer
        if training.plan.shard:
            folder = training.checkpoints.shards(step)
            sharding.save(folder, *weights, main=self.main)
            if self.main:
                training.checkpoints.finish(state, sorted(names_in(folder)))
        elif self.main:
            training.checkpoints.write(state, *weights)
        if self.maker is not None:
            self.maker.saved()

    def _is_due(self, saved: float) -> bool:
        """Whether the last checkpoint, which was made at a time, is old enough for another."""
        import torch

        due = time.monotonic() - saved >= 60 * self.training.plan.checkpoint_minutes
        if not self.training.plan.shard:
            return due
        # all processes write together, and their clocks differ
        return bool(self._summed(torch.tensor([float(due and self.main)])) > 0)

    def _stopped(self) -> bool:
        """Whether a callback of any process ends the training."""
        import torch

        if not self.training.callbacks or self.maker is None:
            return False
        stops = self.maker.asked_to_stop()
        return bool(self._summed(torch.tensor([float(stops)])) > 0)

    def resume(self) -> State:
        """The state to resume from; the initial state without a checkpoint."""
        import torch

        checkpoints = self.training.checkpoints
        state = checkpoints.newest(self.listener.warn)
        if state is None:
            return State(0, (0, 0), [], [])
        if self.training.plan.shard:
            folder = checkpoints.shards(state.step)
            sharding.load(folder, self.parameters, self.updates.optimizer)
        else:
            checkpoints.restore(state.step, self.parameters, self.updates.optimizer)
        if self.scaler is not None and state.scaler:
            self.scaler.load_state_dict(state.scaler)
            self._skipped = state.scaler["skipped"]
        self.history = state.history
        self._kept = state.step
        losses = torch.tensor(state.losses, device=self.training.accelerator.device)
        # losses are summed over processes, so only one may restore them
        self._losses = list((losses if self.main else losses * 0).unbind())
        self.listener.resume(state.step, state.history)
        return state

    def batch(self, feed: Feed, step: int) -> Batch:
        """This process's share of a step's rows."""
        training = self.training
        assert training.plan.batch is not None  # noqa: S101
        rows = feed.take(training.plan.batch)
        keys = place_keys(training.seed, step, len(rows))[self.rank :: self.world]
        rows = rows[self.rank :: self.world]
        micros = training.objective.micro_batches(
            training.chunk_tokens, rows, keys, training.micro_rows, training.width
        )
        if training.accelerator.device.type == "cuda":
            micros = [micro.pinned() for micro in micros]
        return Batch(micros, rows, feed.at)

    def _require_finite(self) -> None:
        """Raise `TrainingError` for the first step since the last record that diverged."""
        # Norms are read at records, as reading one waits for all of a GPU's work. No checkpoint
        # has what came after such a step.
        import torch

        if not self.norms:
            return
        finite = torch.stack([sharding.whole(norm).detach() for norm in self.norms]).isfinite()
        if self.scaler is not None:  # those steps changed nothing, unless losses are at fault
            self._skipped += int((~finite).sum())
            # a loss is a process's own, and all processes must stop together
            bad = ~torch.stack(self._losses[-len(finite) :]).isfinite()
            finite = self._summed(bad.float()) == 0
            finite &= self.scaler.get_scale() >= _LEAST_SCALE
        if not bool(finite.all()):
            training = self.training
            step, rows = self._made[int((~finite).nonzero()[0])]
            texts = [training.chunk_tokens.name(int(c)) for row in rows for c in row]
            names = list(dict.fromkeys(texts))
            more = f" and {len(names) - _NAMED} more texts" if len(names) > _NAMED else ""
            other = ", or set `train.precision=fp32`" if self.scaler is not None else ""
            checkpoint = "There is no checkpoint yet"
            if self._kept is not None:
                checkpoint = f"The last checkpoint is from step {self._kept:,}"
            raise TrainingError(
                f"Training diverged: the loss of step {step + 1:,} is not finite. The batch holds "
                f"{'; '.join(names[:_NAMED])}{more}. {checkpoint}. Set `train.learning_rate` below "
                f"{training.plan.learning_rate:g} and another `out`, or remove the text{other}."
            )
        self.norms.clear()
        self._made.clear()

    def gradient(self, batch: Batch) -> torch.Tensor:
        """Accumulate a step's gradient; returns this process's part of the loss."""
        import torch

        training = self.training
        device = self.training.accelerator.device
        # divide by counts over all processes, so that the gradient does not depend on their number
        # (exact in float32 up to 16 million tokens; they stay on a GPU, as reading them would wait)
        counts = [sum(len(m.at) for m in batch.micros), len(batch.rows)]
        predicted, pairs = self._summed(torch.tensor(counts, dtype=torch.float32)).clamp(min=1)
        total = torch.zeros((), device=device)
        micros = [(micro, 1.0) for micro in batch.micros]
        if (
            training.plan.shard
        ):  # all processes put a layer together at once, so each calls as often
            most = -(-(training.plan.batch or 1) // self.world)
            micros += [(micros[-1][0], 0.0)] * (-(-most // training.micro_rows) - len(micros))
        for number, (micro, counts_as) in enumerate(micros):
            # processes exchange gradients once, with the last micro-batch
            last = training.plan.shard or number == len(micros) - 1
            with nullcontext() if last else self.accelerator.no_sync(self.network.call):
                with self.network.scope():
                    tokens, follows = training.objective.losses(self.network, micro.to(device))
                loss = counts_as * (tokens / predicted + follows / pairs)
                self.accelerator.backward(loss * self.world)  # processes average gradients
            total += loss.detach()
        return total

    def _summed(self, figures: torch.Tensor) -> torch.Tensor:
        """Sum over all processes."""
        import torch

        if self.world == 1:
            # the values stay on the GPU, because reading one waits for all of its work
            return figures
        accelerator = self.training.accelerator
        return torch.as_tensor(accelerator.reduce(figures.to(accelerator.device), "sum"))

    def _note(self, step: int) -> None:
        """Record the mean loss since the last record."""
        import torch

        self._require_finite()
        mean = self._summed(torch.stack(self._losses)).mean()
        self._losses.clear()
        rate = self.updates.rate(step - 1)
        record = {"step": step, "loss": round(float(mean), 6), "learning_rate": rate}
        self._record(record | ({"skipped": self._skipped} if self._skipped else {}))
        self._skipped = 0

    def measure(self, step: int) -> None:
        """Measure held-out losses; keep the weights if they are the best so far."""
        training = self.training
        self._require_finite()
        if not training.heldout.micros:
            return
        losses = training.heldout.losses(training.objective, training.network)
        rounded = {name: round(loss, 6) for name, loss in losses.items()}
        best = min((minimized(r) for r in self.history if "heldout" in r), default=math.inf)
        record: dict[str, Any] = {"step": step, "heldout": rounded}
        self._record(record)
        together = (
            self.main or training.plan.shard
        )  # all processes put the weights together at once
        if self.keep != "last" and minimized(record) < best and together:
            weights = {}
            for name, p in self.parameters.items():
                tensor = sharding.whole(p.detach())
                if self.main:  # no other process, and no GPU, has room for all of them
                    weights[name] = tensor.cpu() if training.plan.shard else tensor
            if self.main:
                save_weights(training.best, weights)
        training.accelerator.wait_for_everyone()

    def _record(self, record: dict[str, Any]) -> None:
        self.history.append(record)
        self.listener.record(record)
        if self.maker is not None:
            self.maker.record(record)
