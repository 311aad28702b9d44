"""The processes that train together, and what records their figures.

What: Accelerate set up: one process, or as many as `accelerate launch` started, and the trackers.
Why: who has several GPUs starts `accelerate launch -m corpusfit adapt …` and gets one; TensorBoard,
Weights & Biases and MLflow are told in the way that people know.
Trade-off: data parallelism only; precision and accumulation are done here, not by Accelerate, so
that one process and several add up the same gradient (docs/decisions/trainer.md).
"""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

from corpusfit.errors import MissingDependencyError, bad_setting

TRACKERS = {"tensorboard": "tensorboard", "wandb": "wandb", "mlflow": "mlflow"}
"""Names for --track, and the packages they need."""


def started(device: str, track: str, out: Path) -> Any:
    """Accelerate, ready for use.

    Args:
        device: `cpu` or `cuda`.
        track: a key of `TRACKERS`; nothing is recorded with "".
        out: where TensorBoard's files go.

    Raises:
        UsageError: there is no such tracker, or its package is not installed.
        MissingDependencyError: accelerate is not installed.
    """
    try:
        from accelerate import Accelerator, InitProcessGroupKwargs
        from accelerate.state import AcceleratorState, PartialState
        from accelerate.tracking import is_mlflow_available, is_tensorboard_available
        from accelerate.utils import is_wandb_available
    except ImportError as e:
        raise MissingDependencyError("Adapting a model", "train") from e
    there = {
        "tensorboard": is_tensorboard_available,
        "wandb": is_wandb_available,
        "mlflow": is_mlflow_available,
    }
    if track and track not in TRACKERS:
        raise bad_setting("--track", f"one of {', '.join(TRACKERS)}", track)
    if track and not there[track]():
        cure = f"pip install {TRACKERS[track]}."
        raise bad_setting("--track", "a tracker that is installed", track, cure)
    # accelerate keeps the first device that a process asked for, as long as that runs
    if PartialState._shared_state and PartialState().device.type != device:
        AcceleratorState._reset_state(reset_partial_state=True)
    patient = InitProcessGroupKwargs(timeout=timedelta(days=7))  # others wait while one tokenises
    return Accelerator(
        cpu=device == "cpu",
        mixed_precision="no",
        log_with=track or None,
        project_dir=str(out),
        kwargs_handlers=[patient],
    )
