"""Write a training's checkpoints, and restore the newest complete one."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from corpusfit.core.artifacts import listed, remove, write_bytes, writing

if TYPE_CHECKING:
    import torch

_NAME = re.compile(r"step-(\d+)")


@dataclass(frozen=True)
class State:
    """Progress of a training.

    Attributes:
        step: number of updates done.
        at: next pass over the data, and next row of that pass.
        history: records of losses so far.
        losses: losses of the steps since the last record, each an exact float32.
    """

    step: int
    at: tuple[int, int]
    history: list[dict[str, Any]]
    losses: list[float]


@dataclass(frozen=True)
class Checkpoints:
    """The checkpoints of one training.

    A checkpoint holds the trainable weights and AdamW's two moments of each, three times the size
    of the weights. Data order and random draws are functions of the seed and the step, so no state
    of either is stored.

    Attributes:
        folder: folder that only this process writes to.
        keep: number of checkpoints to keep.
    """

    folder: Path
    keep: int

    def write(
        self, state: State, parameters: Mapping[str, torch.nn.Parameter], optimizer: Any
    ) -> None:
        """Write a checkpoint, then remove old, unfinished and newer checkpoints.

        A newer checkpoint is always incomplete, otherwise training had resumed from it.
        """
        mark = self._state(state.step)
        files = {
            "weights.safetensors": {n: p.detach() for n, p in parameters.items()},
            "moments.safetensors": {
                f"{name}/{key}": value
                for name, parameter in parameters.items()
                for key, value in optimizer.state[parameter].items()
            },
        }
        digests = {
            name: save_weights(mark.with_name(name), tensors) for name, tensors in files.items()
        }
        write_bytes(mark, json.dumps({"digests": digests, **vars(state)}).encode())
        steps = self._steps()
        kept = [s for s in steps if s <= state.step and self._state(s).is_file()][-self.keep :]
        for step in set(steps) - set(kept):
            remove(self._state(step).parent)

    def newest(self, on_warn: Callable[[str], None]) -> tuple[State, Path] | None:
        """The newest complete checkpoint; warns about incomplete ones."""
        faults, found = [], None
        for step in reversed(self._steps()):
            here = self._state(step).parent
            fault = _fault(here)
            if fault is None:
                mark = json.loads(self._state(step).read_text("utf-8"))
                at, losses = tuple(mark["at"]), mark["losses"]
                found = State(mark["step"], at, mark["history"], losses), here
                break
            faults.append(f"The checkpoint {here} is damaged ({fault})")
        instead = f"resumes after step {found[0].step:,}" if found else "starts from the beginning"
        for fault in faults:
            on_warn(f"{fault}; training {instead}.")
        return found

    def _state(self, step: int) -> Path:
        """The file of a checkpoint that is written last."""
        return self.folder / f"step-{step:08d}" / "state.json"

    def _steps(self) -> list[int]:
        matches = map(_NAME.fullmatch, listed(self.folder))
        return sorted(int(found[1]) for found in matches if found)


def restore(here: Path, parameters: Mapping[str, torch.nn.Parameter], optimizer: Any) -> None:
    """Load weights and moments from a complete checkpoint."""
    from safetensors.torch import load_file

    load_weights(here / "weights.safetensors", parameters)
    moments = load_file(here / "moments.safetensors")
    for name, parameter in parameters.items():
        if f"{name}/step" in moments:  # missing where a weight has no gradient
            optimizer.state[parameter] = {
                key: moments[f"{name}/{key}"].to(parameter.device)
                for key in ("step", "exp_avg", "exp_avg_sq")
            }


def save_weights(path: Path, tensors: Mapping[str, torch.Tensor]) -> str:
    """Write tensors to one safetensors file, atomically; returns its SHA-256."""
    from safetensors.torch import save

    data = save({name: t.cpu().contiguous() for name, t in tensors.items()}, {"format": "pt"})
    with writing(path) as out:
        out.write(data)
    return hashlib.sha256(data).hexdigest()


def load_weights(path: Path, parameters: Mapping[str, torch.nn.Parameter]) -> None:
    """Copy weights from a file into the parameters of the same names."""
    import torch
    from safetensors.torch import load_file

    found = load_file(path)
    with torch.no_grad():
        for name, parameter in parameters.items():
            parameter.copy_(found[name])


def _fault(here: Path) -> str | None:
    """Why a checkpoint cannot be used; None if it can."""
    try:
        digests = json.loads((here / "state.json").read_text("utf-8"))["digests"]
    except (OSError, ValueError, KeyError, TypeError):
        return "writing did not finish"
    for name, digest in digests.items():
        try:
            with (here / name).open("rb") as f:
                found = hashlib.file_digest(f, "sha256").hexdigest()
        except OSError:
            return f"{name} is missing"
        if found != digest:
            return f"the checksum of {name} does not match"
    return None
