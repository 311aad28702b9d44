"""A training's state on disk, whole or not at all.

What: the weights that train, the optimiser's moments, and how far the training was; the newest
checkpoint that is whole is the one taken up.
Why: a day's training may not be lost to a crash, nor go on from half a file.
Trade-off: the order of the data and every chance are functions of the seed and the step, so neither
the data nor a generator's state has to be kept. A checkpoint is three times the trained weights.
Reference: AdamW (Loshchilov and Hutter 2019), whose state is two moments a weight.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from corpusfit.artifacts import listed, remove, write_bytes, writing

if TYPE_CHECKING:
    import torch

_NAME = re.compile(r"step-(\d+)")


@dataclass(frozen=True)
class State:
    """How far a training was.

    Attributes:
        step: updates made.
        at: the pass over the data and the row in it that come next.
        history: what was measured so far, one record a time.
        losses: of the steps since the last record of a loss; each a float32 number, exactly.
    """

    step: int
    at: tuple[int, int]
    history: list[dict[str, Any]]
    losses: list[float]


@dataclass(frozen=True)
class Checkpoints:
    """The checkpoints of one training.

    Attributes:
        folder: where they are; this process alone writes there.
        keep: how many are kept.
    """

    folder: Path
    keep: int

    def write(
        self, state: State, parameters: Mapping[str, torch.nn.Parameter], optimizer: Any
    ) -> None:
        """Keep a state, then let go of the oldest ones, and of those that were not finished.

        Newer ones, which were not whole or they had been taken up, go as well.

        Args:
            state: how far the training is.
            parameters: the weights that train, by name.
            optimizer: a torch AdamW over them.

        Raises:
            StorageError: the disk is full or cannot be written to.
        """
        mark = self._state(state.step)
        files = {
            "weights.safetensors": {n: p.detach() for n, p in parameters.items()},
            "moments.safetensors": _moments(parameters, optimizer),
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
        """The newest checkpoint that is whole; of those that are not the user is told."""
        faults, found = [], None
        for step in reversed(self._steps()):
            here = self._state(step).parent
            fault = _fault(here)
            if fault is None:
                mark = json.loads(self._state(step).read_text("utf-8"))
                at, losses = tuple(mark["at"]), mark["losses"]
                found = State(mark["step"], at, mark["history"], losses), here
                break
            faults.append(f"The checkpoint {here} is not whole ({fault})")
        instead = f"goes on after step {found[0].step}" if found else "begins anew"
        for fault in faults:
            on_warn(f"{fault}; training {instead}.")
        return found

    def _state(self, step: int) -> Path:
        """The file that a checkpoint is finished with."""
        return self.folder / f"step-{step:08d}" / "state.json"

    def _steps(self) -> list[int]:
        matches = map(_NAME.fullmatch, listed(self.folder))
        return sorted(int(found[1]) for found in matches if found)


def restore(here: Path, parameters: Mapping[str, torch.nn.Parameter], optimizer: Any) -> None:
    """Put a whole checkpoint's weights and moments in place."""
    from safetensors.torch import load_file

    load_weights(here / "weights.safetensors", parameters)
    moments = load_file(here / "moments.safetensors")
    for name, parameter in parameters.items():
        if f"{name}/step" in moments:  # else the loss does not reach it
            optimizer.state[parameter] = {
                key: moments[f"{name}/{key}"].to(parameter.device)
                for key in ("step", "exp_avg", "exp_avg_sq")
            }


def _moments(parameters: Mapping[str, Any], optimizer: Any) -> dict[str, Any]:
    """AdamW's state, by the weight's name and the moment's."""
    return {
        f"{name}/{key}": value
        for name, parameter in parameters.items()
        for key, value in optimizer.state[parameter].items()
    }


def save_weights(path: Path, tensors: Mapping[str, torch.Tensor]) -> str:
    """Write tensors as one safetensors file, whole or not at all; returns its SHA-256."""
    from safetensors.torch import save

    data = save({name: t.cpu().contiguous() for name, t in tensors.items()}, {"format": "pt"})
    with writing(path) as out:
        out.write(data)
    return hashlib.sha256(data).hexdigest()


def load_weights(path: Path, parameters: Mapping[str, torch.nn.Parameter]) -> None:
    """Put the weights of a file in place of those of the same names."""
    import torch
    from safetensors.torch import load_file

    found = load_file(path)
    with torch.no_grad():
        for name, parameter in parameters.items():
            parameter.copy_(found[name])


def _fault(here: Path) -> str | None:
    """What is wrong with a checkpoint; None if nothing is."""
    try:
        digests = json.loads((here / "state.json").read_text("utf-8"))["digests"]
    except (OSError, ValueError, KeyError, TypeError):
        return "it was not finished"
    for name, digest in digests.items():
        try:
            with (here / name).open("rb") as f:
                found = hashlib.file_digest(f, "sha256").hexdigest()
        except OSError:
            return f"{name} is missing"
        if found != digest:
            return f"{name} has changed"
    return None
