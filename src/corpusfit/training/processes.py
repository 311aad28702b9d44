"""Set up Accelerate: the processes of a training, and its trackers."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

from corpusfit.core.errors import bad_setting

TRACKERS = ("tensorboard", "wandb", "mlflow")
"""Values of --track, and their packages."""


def start_accelerator(device: str, track: str, out: Path) -> Any:
    """Accelerate's `Accelerator`, for one process or those started by `accelerate launch`.

    Data parallelism only. Precision and gradient accumulation are done in the trainer, so that one
    process and several compute the same gradient (docs/decisions/trainer.md).
    """
    from accelerate import Accelerator, InitProcessGroupKwargs
    from accelerate.state import AcceleratorState, PartialState
    from accelerate.tracking import is_mlflow_available, is_tensorboard_available
    from accelerate.utils import is_wandb_available

    there = {
        "tensorboard": is_tensorboard_available,
        "wandb": is_wandb_available,
        "mlflow": is_mlflow_available,
    }
    if track and track not in TRACKERS:
        raise bad_setting("`track`", f"one of {', '.join(TRACKERS)}", track)
    if track and not there[track]():
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
