"""Why a training cannot begin or go on, and what the user can do.

What: settings that do not go with the machine or the data, memory that ran out, a loss that is no
number.
Why: each has a cure that costs little if it is named, and days if it is not.
Trade-off: that memory ran out is known by the words of the error, which allocators of other devices
may choose otherwise; theirs is then shown as it is.
Reference: PyTorch, torch.OutOfMemoryError; its CPU allocator raises RuntimeError.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from corpusfit.adapt.plan import TrainPlan
from corpusfit.errors import TrainingError, bad_setting

_NAMED = 3


def require_possible(plan: TrainPlan, processes: int, *, measured: bool) -> None:
    """Raise `UsageError` for settings that go together with neither the machine nor the data.

    Args:
        plan: of the training.
        processes: how many train together.
        measured: whether any text is held out.
    """
    batch = plan.batch or 1
    if batch < processes:
        cure = f"Each of the {processes} processes needs a sequence in every step."
        raise bad_setting("--batch", f"{processes} or more", batch, cure)
    if plan.keep == "best" and not measured:
        cure = "The data is too small to keep some of it back: name texts with --task."
        raise bad_setting("train.keep", "last where nothing is held out", "best", cure)


def starved(plan: TrainPlan, processes: int, micro_rows: int) -> TrainingError:
    """What to do when memory ran out.

    Args:
        plan: settled.
        processes: how many train together.
        micro_rows: sequences that go through the model together, if a process has as many.
    """
    assert plan.length is not None and plan.batch is not None  # noqa: S101, PT018
    share = math.ceil(plan.batch / processes)
    rows, length = min(micro_rows, share), plan.length
    if rows == 1:
        return TrainingError(
            f"Memory ran out with one sequence of {length} tokens. Give a smaller --length and "
            "another --out, or train fewer weights: --adapter lora."
        )
    return TrainingError(
        f"Memory ran out. {rows} sequences go through the model together: give the same command "
        f"with --set train.micro_tokens={rows * length // 2}; it goes on from the last checkpoint, "
        "and ends the same but for rounding and dropout's draws."
    )


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an error says that memory ran out."""
    words = ("out of memory", "can't allocate memory", "not enough memory")
    return isinstance(error, MemoryError) or any(w in str(error) for w in words)


def diverged(plan: TrainPlan, step: int, names: Sequence[str], saved: int | None) -> TrainingError:
    """What to do when the loss is no longer finite.

    Args:
        plan: settled.
        step: its number, counted from 1.
        names: where its texts came from.
        saved: the step of the last checkpoint, if there is one.
    """
    names = list(dict.fromkeys(names))
    more = f" and {len(names) - _NAMED} more texts" if len(names) > _NAMED else ""
    kept = "No checkpoint was written yet"
    if saved is not None:
        kept = f"The checkpoint after step {saved} is kept"
    return TrainingError(
        f"The loss of step {step} is no longer finite. Its batch holds "
        f"{'; '.join(names[:_NAMED])}{more}. {kept}. Give a smaller --rate than "
        f"{plan.rate:g} and another --out, or take the text out."
    )
