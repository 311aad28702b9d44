"""Errors of a training, each with a cure: impossible settings, out of memory, divergence."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from corpusfit.core.errors import TrainingError, bad_setting
from corpusfit.training.plan import TrainPlan

_NAMED = 3


def require_batch(batch: int, processes: int, *, whole: bool) -> None:
    """Raise `UsageError` if a step has too few sequences for each of some processes."""
    least = processes * (2 if whole else 1)
    if batch < least:
        each = "two sequences" if whole else "one sequence"
        cure = f"Each of the {processes} processes needs at least {each} per batch."
        raise bad_setting("`train.batch`", f"{least} or more", batch, cure)


def require_possible(plan: TrainPlan, *, measured: bool) -> None:
    """Raise `UsageError` for settings that do not suit the data."""
    if plan.keep == "best" and not measured:
        cure = "The data is too small for a held-out set. Name texts of the task with `task`."
        raise bad_setting("`train.keep`", "last without held-out text", "best", cure)


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


def divergence_error(
    plan: TrainPlan, step: int, names: Sequence[str], saved: int | None
) -> TrainingError:
    """The error for a loss that is not finite."""
    names = list(dict.fromkeys(names))
    more = f" and {len(names) - _NAMED} more texts" if len(names) > _NAMED else ""
    kept = "There is no checkpoint yet"
    if saved is not None:
        kept = f"The last checkpoint is from step {saved:,}"
    return TrainingError(
        f"Training diverged: the loss of step {step:,} is not finite. The batch holds "
        f"{'; '.join(names[:_NAMED])}{more}. {kept}. Set `train.rate` below {plan.rate:g} "
        "and another `out`, or remove the text."
    )
