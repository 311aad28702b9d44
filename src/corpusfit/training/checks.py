"""What every training objective keeps to, as a check that any package runs on its own."""

from __future__ import annotations

import json
import math
from pathlib import Path

from corpusfit.core.errors import require_promise
from corpusfit.training.api import adapt

_SHORT = (
    *("train.max_steps=3", "train.batch=4", "train.length=32", "mix.heldout=4"),
    *("train.device=cpu", "train.precision=fp32"),
)


def check_objective(name: str, model: str, data: str, folder: Path) -> None:
    """Check a training objective by two trainings of three steps.

    Losses have to be numbers, and the same seed to give the same weights, other than the base's.

    Args:
        name: the objective's name, as in `objective.name`.
        model: a small model that it trains, as for `adapt`.
        data: texts to train on, as for `adapt`.
        folder: an empty folder.

    Raises:
        AssertionError: the objective breaks a promise, which the message names.
    """
    settings = [f"objective.name={name}", *_SHORT]
    weights = []
    for out in (folder / "first", folder / "again"):
        run = adapt(model=model, data=[data], out=out, settings=settings)
        lines = map(json.loads, (run.path / "losses.jsonl").read_text("utf-8").splitlines())
        losses = [line["loss"] for line in lines if "loss" in line]
        require_promise(losses and all(map(math.isfinite, losses)), "a loss is no number")
        weights.append(_weights(run.path))
    require_promise(weights[0] == weights[1], "the same seed gives other weights")
    require_promise(weights[0] != _weights(Path(model)), "a training changes no weights")


def _weights(folder: Path) -> list[bytes]:
    return [file.read_bytes() for file in sorted(folder.glob("*.safetensors"))]
