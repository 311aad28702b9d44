"""Memory of a training: freed memory is kept, and running out of it names a cure."""

from __future__ import annotations

import ctypes
import math
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from corpusfit.core.errors import TrainingError
from corpusfit.training.plan import TrainPlan

_TRIM_THRESHOLD, _MMAP_MAX = -1, -4
_OWN = {_TRIM_THRESHOLD: 128 * 1024, _MMAP_MAX: 65_536}  # glibc's defaults
_KEEP = {_TRIM_THRESHOLD: 2**31 - 1, _MMAP_MAX: 0}


@contextmanager
def kept_memory() -> Iterator[None]:
    """Make glibc keep freed memory; release it on exit."""
    # Each step allocates the same large arrays, which glibc otherwise returns to the system
    # at once; getting them back took a fifth of a step of a small model. Peak memory grows by
    # a few percent. On exit glibc's default limits are set, but its dynamic threshold stays
    # off for the rest of the process (mallopt(3)), so later work may call the system more
    # often. Other allocators and systems are not changed. Batches of many shapes leave gaps,
    # which `release_memory` returns.
    glibc = ctypes.CDLL(None) if sys.platform == "linux" else None
    if not hasattr(glibc, "mallopt"):  # musl has none
        yield
        return
    assert glibc is not None  # noqa: S101
    for setting, value in _KEEP.items():
        glibc.mallopt(setting, value)
    try:
        yield
    finally:
        for setting, value in _OWN.items():
            glibc.mallopt(setting, value)
        glibc.malloc_trim(0)


def release_memory() -> None:
    """Return freed memory between allocations to the system, if the allocator is glibc's."""
    # Batches of pairs have many shapes, and the gaps that they left tripled a training's
    # memory.
    glibc = ctypes.CDLL(None) if sys.platform == "linux" else None
    if hasattr(glibc, "malloc_trim"):
        assert glibc is not None  # noqa: S101
        glibc.malloc_trim(0)


def out_of_memory_error(
    plan: TrainPlan, processes: int, micro_rows: int, *, whole: bool = False
) -> TrainingError:
    """The error for running out of memory."""
    assert plan.length is not None and plan.batch is not None  # noqa: S101, PT018
    share = math.ceil(plan.batch / processes)
    rows, length = min(micro_rows, share), plan.length
    if rows == 1:
        return TrainingError(
            f"Out of memory with one sequence of {length} tokens per forward pass. Set a smaller "
            "`train.length` and another `out`, or train fewer weights with `adapter=lora`."
        )
    if whole:
        return TrainingError(
            f"Out of memory with {rows} sequences of {length} tokens in a step. Set a smaller "
            "`train.batch` or `train.length`, and another `out`."
        )
    return TrainingError(
        f"Out of memory with {rows} sequences per forward pass. Run the same command with "
        f"`train.micro_tokens={rows * length // 2}`: it resumes from the last checkpoint, and "
        "results differ only by rounding and dropout."
    )


@contextmanager
def naming_memory_errors(error: TrainingError) -> Iterator[None]:
    """Raise an error in place of any that means out of memory, by its type or its message."""
    words = ("out of memory", "can't allocate memory", "not enough memory")
    try:
        yield
    except (MemoryError, RuntimeError) as e:
        if isinstance(e, MemoryError) or any(w in str(e) for w in words):
            raise error from e
        raise
