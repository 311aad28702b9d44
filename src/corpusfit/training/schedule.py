"""Optimizer steps: learning rates, AdamW, when losses are measured, and memory."""

from __future__ import annotations

import ctypes
import math
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from corpusfit.core.errors import TrainingError
from corpusfit.embed.hardware import seed_generators
from corpusfit.training.plan import TrainPlan
from corpusfit.training.sharding import whole

if TYPE_CHECKING:
    import torch


class Updates:
    """The updates of some weights: fused AdamW, with decay on matrices, not on biases and norms.

    `schedule` is that of transformers, by which Trainer changes the rate.
    """

    # Reference: Loshchilov and Hutter (2019), AdamW.
    def __init__(self, parameters: Mapping[str, torch.nn.Parameter], plan: TrainPlan) -> None:
        import torch
        from transformers import get_scheduler

        assert plan.max_steps is not None and plan.learning_rate is not None  # noqa: S101, PT018
        groups = [
            {
                "params": [p for p in parameters.values() if p.ndim >= 2],
                "weight_decay": plan.weight_decay,
            },
            {"params": [p for p in parameters.values() if p.ndim < 2], "weight_decay": 0.0},
        ]
        self.optimizer: Any = torch.optim.AdamW(
            [g for g in groups if g["params"]],
            lr=plan.learning_rate,
            betas=(0.9, plan.adam_beta2),
            fused=True,
        )
        warm = int(plan.warmup_steps)
        if plan.warmup_steps < 1:
            warm = math.ceil(plan.warmup_steps * plan.max_steps)
        self.schedule: Any = get_scheduler(
            plan.lr_scheduler_type, self.optimizer, warm, plan.max_steps
        )
        self._weights = list(parameters.values())
        self._plan = plan

    def rate(self, step: int) -> float:
        """The learning rate of a step, counted from 0."""
        rate: float = self.schedule.base_lrs[0] * self.schedule.lr_lambdas[0](step)
        return rate

    def make(
        self,
        step: int,
        key: np.uint64,
        gradient: Callable[[], torch.Tensor],
        diverged: Callable[[int], TrainingError],
    ) -> torch.Tensor:
        """Make one update, with the scheduled rate and a clipped gradient; returns its loss."""
        import torch

        seed_generators(int(key >> np.uint64(1)))
        for group in self.optimizer.param_groups:
            group["lr"] = self.rate(step)
        loss = gradient()
        norm = torch.nn.utils.clip_grad_norm_(self._weights, self._plan.max_grad_norm)
        if not whole(norm).isfinite():
            raise diverged(step + 1)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        return loss


def evaluations(plan: TrainPlan) -> set[int]:
    """The steps after which held-out losses are measured; the last step is one of them."""
    assert plan.max_steps is not None  # noqa: S101
    count = min(max(1, plan.evaluations), plan.max_steps)
    return {math.ceil(plan.max_steps * (k + 1) / count) for k in range(count)}


def out_of_patience(history: Sequence[Mapping[str, Any]], patience: int) -> bool:
    """Whether the last `patience` measurements brought no new best; never for 0."""
    values = [minimized(r) for r in history if "heldout" in r]
    if not patience or not values:
        return False
    return len(values) - 1 - values.index(min(values)) >= patience


def has_risen(history: Sequence[Mapping[str, Any]], measurements: int = 1) -> bool:
    """Whether the loss on the task was above its first value in the last measurements."""
    losses = [r["heldout"]["task"] for r in history if "task" in r.get("heldout", {})]
    return len(losses) > measurements and min(losses[-measurements:]) > losses[0]


def kept_measurement(history: Sequence[Mapping[str, Any]], keep: str) -> Mapping[str, Any]:
    """The measurement of the weights that are kept; one without losses if nothing was measured."""
    measured = [r for r in history if "heldout" in r] or [{"step": 0, "heldout": {}}]
    if keep == "best" or (keep == "auto" and has_risen(history)):
        return min(measured, key=minimized)
    return measured[-1]


def minimized(record: Mapping[str, Any]) -> float:
    """The loss by which the best weights are chosen: that on the task, else that on the data."""
    losses: Mapping[str, float] = record["heldout"]
    return losses["task"] if "task" in losses else next(iter(losses.values()))


# parameters of mallopt(3)
_TRIM_THRESHOLD = -1
_MMAP_THRESHOLD = -3
_MMAP_MAX = -4
_MOST_IN_HEAP = 256 << 20  # bytes of a gradient


def glibc() -> ctypes.CDLL | None:
    """The allocator, if it is glibc's; musl has no `mallopt`."""
    library = ctypes.CDLL(None) if sys.platform == "linux" else None
    return library if hasattr(library, "mallopt") else None


@contextmanager
def kept_memory(largest: int = 0) -> Iterator[None]:
    """Make glibc keep freed memory; release it on exit. The largest gradient is in bytes."""
    # Each step allocates the same large arrays, which glibc otherwise returns to the system
    # at once; getting them back took a fifth of a step of a small model. Peak memory grows by
    # a few percent. On exit glibc's default limits are set, but its dynamic threshold stays
    # off for the rest of the process (mallopt(3)), so later work may call the system more
    # often. Batches of many shapes leave gaps, which `release_memory` returns. The gradients of a
    # large vocabulary leave gaps that the next ones do not fit: they, and all above 32 MB, which is
    # as much as mallopt allows, stay outside of the heap.
    library = glibc()
    if library is None:
        yield
        return
    library.mallopt(_TRIM_THRESHOLD, 2**31 - 1)
    if largest > _MOST_IN_HEAP:
        library.mallopt(_MMAP_THRESHOLD, 32 << 20)
    else:
        library.mallopt(_MMAP_MAX, 0)
    try:
        yield
    finally:
        library.mallopt(_TRIM_THRESHOLD, 128 * 1024)
        library.mallopt(_MMAP_MAX, 65_536)
        library.malloc_trim(0)


def release_memory() -> None:
    """Return freed memory between allocations to the system, if the allocator is glibc's."""
    # Batches of pairs have many shapes, and the gaps that they left tripled a training's memory.
    if library := glibc():
        library.malloc_trim(0)


def out_of_memory_error(
    plan: TrainPlan, processes: int, micro_rows: int, *, can_recompute: bool = False
) -> TrainingError:
    """The error for running out of memory; `can_recompute` if activations are kept."""
    assert plan.length is not None and plan.batch is not None  # noqa: S101, PT018
    share = math.ceil(plan.batch / processes)
    rows = min(micro_rows, share)
    length = plan.length
    if can_recompute and rows == 1:
        return TrainingError(
            f"Out of memory with one sequence of {length} tokens per forward pass. Run the "
            "same command with `train.checkpointing=on`: it resumes from the last checkpoint, and "
            "results differ only by rounding."
        )
    if rows == 1:
        return TrainingError(
            f"Out of memory with one sequence of {length} tokens per forward pass. Set a smaller "
            "`train.length` and another `out`, or train fewer weights with `adapter=lora`."
        )
    return TrainingError(
        f"Out of memory with {rows} sequences per forward pass. Run the same command with "
        f"`train.micro_tokens={rows * length // 2}`: it resumes from the last checkpoint, and "
        "results differ only by rounding and dropout."
    )


def no_room_error(device: str) -> TrainingError:
    """The error for running out of memory outside of the steps, as where a model is moved."""
    cure = "or adapt a smaller model."
    if device != "cpu":
        cure = "or take another device, such as `train.device=cpu`."
    return TrainingError(
        f"Out of memory on the device {device} outside of a training step, mostly as other "
        f"programs use it. Run the same command again when they have ended, {cure}"
    )


@contextmanager
def naming_memory_errors(error: TrainingError) -> Iterator[None]:
    """Replace any out-of-memory error, known by type or message, by `error`."""
    phrases = ("out of memory", "can't allocate memory", "not enough memory")
    try:
        yield
    except (MemoryError, RuntimeError) as e:
        if isinstance(e, MemoryError) or any(w in str(e) for w in phrases):
            raise error from e
        raise
