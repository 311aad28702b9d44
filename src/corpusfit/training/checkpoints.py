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

_STEP = re.compile(r"step-(\d+)")


@dataclass(frozen=True)
class State:
    """Progress of a training."""

    step: int  # number of updates done
    at: tuple[int, int]  # next pass over the data, and next row of that pass
    history: list[dict[str, Any]]  # records of losses so far
    losses: list[float]  # losses of the steps since the last record, each an exact float32


@dataclass(frozen=True)
class Checkpoints:
    """The checkpoints of one training.

    A checkpoint holds the trainable weights and AdamW's two moments of each, three times the size
    of the weights. Data order and random draws are functions of the seed and the step, so no state
    of either is stored.
    """

    folder: Path  # folder that only this process writes to
    keep: int  # number of checkpoints to keep

    def write(
        self, state: State, parameters: Mapping[str, torch.nn.Parameter], optimizer: Any
    ) -> None:
        """Write a checkpoint, then remove old, unfinished and newer checkpoints."""
        # A newer checkpoint is always incomplete, otherwise training had resumed from it.
        mark = self._mark(state.step)
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
        kept = [s for s in steps if s <= state.step and self._mark(s).is_file()][-self.keep :]
        for step in set(steps) - set(kept):
            remove(self._mark(step).parent)

    def newest(self, on_warn: Callable[[str], None]) -> tuple[State, Path] | None:
        """The newest complete checkpoint; warns about incomplete ones."""
        faults, newest = [], None
        for step in reversed(self._steps()):
            folder = self._mark(step).parent
            fault = _fault(folder)
            if fault is None:
                mark = json.loads(self._mark(step).read_text("utf-8"))
                at, losses = tuple(mark["at"]), mark["losses"]
                newest = State(mark["step"], at, mark["history"], losses), folder
                break
            faults.append(f"The checkpoint {folder} is damaged ({fault})")
        instead = "starts from the beginning"
        if newest:
            instead = f"resumes after step {newest[0].step:,}"
        for fault in faults:
            on_warn(f"{fault}; training {instead}.")
        return newest

    def _mark(self, step: int) -> Path:
        """The file of a checkpoint that is written last."""
        return self.folder / f"step-{step:08d}" / "state.json"

    def _steps(self) -> list[int]:
        matches = map(_STEP.fullmatch, listed(self.folder))
        return sorted(int(match[1]) for match in matches if match)


def restore(folder: Path, parameters: Mapping[str, torch.nn.Parameter], optimizer: Any) -> None:
    """Load weights and moments from a complete checkpoint."""
    from safetensors.torch import load_file

    load_weights(folder / "weights.safetensors", parameters)
    moments = load_file(folder / "moments.safetensors")
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

    stored = load_file(path)
    with torch.no_grad():
        for name, parameter in parameters.items():
            parameter.copy_(stored[name])


def _fault(folder: Path) -> str | None:
    """Why a checkpoint cannot be used; None if it can."""
    try:
        digests = json.loads((folder / "state.json").read_text("utf-8"))["digests"]
    except (OSError, ValueError, KeyError, TypeError):
        return "writing did not finish"
    for name, digest in digests.items():
        try:
            with (folder / name).open("rb") as f:
                actual = hashlib.file_digest(f, "sha256").hexdigest()
        except OSError:
            return f"{name} is missing"
        if actual != digest:
            return f"the checksum of {name} does not match"
    return None
