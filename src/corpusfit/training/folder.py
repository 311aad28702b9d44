"""The folder of an adapted model, and the checkpoints from which a training resumes."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from corpusfit.core.artifacts import names_in, remove, write_bytes, writing
from corpusfit.core.errors import ChangedInputError
from corpusfit.core.manifest import OutFolder
from corpusfit.embed.folders import POOLING
from corpusfit.training.sharding import assign

if TYPE_CHECKING:
    import torch


_MODEL_FILES = (
    *("*.safetensors", "*.json", "losses.jsonl", "vocab.txt", "merges.txt", "*.model"),
    *("*.spm", "*.jinja", "additional_chat_templates/*.jinja", f"{POOLING}/config.json"),
)
"""Files that `adapt` writes; others in the folder are the user's."""


class AdaptFolder(OutFolder):
    """An adapted model's folder."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.tokenizer = self.work / "tokenizer.json"
        self.pair_tokenizer = self.work / "tokenizer"
        self.general = self.work / "general.jsonl"
        self.settled = self.work / "settled.json"
        self.guard = self.work / "guard.safetensors"
        self.checkpoints = self.work / "checkpoints"
        self.best = self.work / "best.safetensors"
        self.first = self.work / "first"

    def _has_work(self) -> bool:
        """Whether a phase of the training has a checkpoint or is finished."""
        if self.checkpoints.is_dir() or self.finished() is not None:
            return True
        return self.first.is_dir() and AdaptFolder(self.first)._has_work()

    def _clear(self) -> None:
        super()._clear()
        self.free()
        remove(*(path for pattern in _MODEL_FILES for path in self.path.glob(pattern)))

    def free(self) -> None:
        """Delete the files that only a resumed training needs."""
        remove(self.checkpoints, self.first, self.pair_tokenizer)
        remove(self.best, self.tokenizer, self.general, self.guard, self.settled)


_STEP = re.compile(r"step-(\d+)")


@dataclass(frozen=True)
class State:
    """Progress of a training."""

    step: int  # number of updates done
    at: tuple[int, int]  # position in the data: pass and row
    history: list[dict[str, Any]]  # records of losses so far
    losses: list[float]  # losses of the steps since the last record, each an exact float32
    scaler: dict[str, Any] = field(default_factory=dict)  # of losses, in fp16


@dataclass(frozen=True)
class Checkpoints:
    """The checkpoints of one training."""

    # A checkpoint holds the trainable weights and AdamW's two moments of each, three times the
    # size of the weights. Data order and random draws are functions of the seed and the step, so
    # no state of either is stored.

    folder: Path  # folder that only this process writes to
    keep: int  # number of checkpoints to keep

    def write(
        self, state: State, parameters: Mapping[str, torch.nn.Parameter], optimizer: Any
    ) -> None:
        """Write a checkpoint, then remove old, unfinished and newer ones."""
        moments = {
            f"{name}/{key}": value
            for name, parameter in parameters.items()
            for key, value in optimizer.state[parameter].items()
        }
        folder = self._mark(state.step).parent
        files = {"weights.safetensors": parameters, "moments.safetensors": moments}
        self._finish(state, {name: save_weights(folder / name, of) for name, of in files.items()})

    def shards(self, step: int) -> Path:
        """The folder of a checkpoint that several processes write together."""
        return self._mark(step).parent / "shards"

    def finish(self, state: State, names: Sequence[str]) -> None:
        """Mark a checkpoint as complete, whose `shards` have files of these names."""
        folder = self.shards(state.step)
        self._finish(state, {f"shards/{name}": _digest(folder / name) for name in names})

    def _finish(self, state: State, digests: Mapping[str, str]) -> None:
        # Newer checkpoints are incomplete: training would have resumed from a complete one.
        write_bytes(
            self._mark(state.step), json.dumps({"digests": digests, **vars(state)}).encode()
        )
        steps = self._steps()
        newest = [s for s in steps if s <= state.step and self._mark(s).is_file()][-self.keep :]
        for step in set(steps) - set(newest):
            remove(self._mark(step).parent)

    def restore(
        self, step: int, parameters: Mapping[str, torch.nn.Parameter], optimizer: Any
    ) -> None:
        """Load weights and moments from a complete checkpoint."""
        from safetensors.torch import load_file

        mark = self._mark(step)
        try:
            load_weights(mark.with_name("weights.safetensors"), parameters)
        except KeyError as e:  # transformers may name a weight differently
            raise _of_another_version(mark.parent) from e
        moments = load_file(mark.with_name("moments.safetensors"))
        for name, parameter in parameters.items():
            if f"{name}/step" in moments:  # missing where a weight has no gradient
                optimizer.state[parameter] = {
                    key: moments[f"{name}/{key}"].to(parameter.device)
                    for key in ("step", "exp_avg", "exp_avg_sq")
                }

    def newest(self, on_warn: Callable[[str], None]) -> State | None:
        """The newest complete checkpoint; warns about incomplete ones."""
        faults = []
        newest = None
        for step in reversed(self._steps()):
            mark = self._mark(step)
            fault = _fault(mark.parent)
            if fault is None:
                stored = json.loads(mark.read_text("utf-8"))
                at = tuple(stored["at"])
                losses = stored["losses"]
                scaler = stored["scaler"]
                newest = State(stored["step"], at, stored["history"], losses, scaler)
                break
            faults.append(f"The checkpoint {mark.parent} is damaged ({fault})")
        instead = "starts from the beginning"
        if newest:
            instead = f"resumes after step {newest.step:,}"
        for fault in faults:
            on_warn(f"{fault}; training {instead}.")
        return newest

    def _mark(self, step: int) -> Path:
        """The file of a checkpoint that is written last."""
        return self.folder / f"step-{step:08d}" / "state.json"

    def _steps(self) -> list[int]:
        matches = map(_STEP.fullmatch, names_in(self.folder))
        return sorted(int(match[1]) for match in matches if match)


def save_weights(path: Path, tensors: Mapping[str, torch.Tensor]) -> str:
    """Write tensors to one safetensors file, atomically, one by one; returns its SHA-256."""
    # The bytes are those of safetensors' own `save`, which builds the whole file in memory. It
    # decides the order and the names of types, so it is asked for a file of empty tensors.
    import torch
    from safetensors.torch import save

    empty = save({name: t.new_empty(0) for name, t in tensors.items()}, {"format": "pt"})
    header = json.loads(empty[8 : 8 + int.from_bytes(empty[:8], "little")])
    names = [name for name in header if name != "__metadata__"]
    at = 0
    for name in names:
        end = at + tensors[name].nbytes
        header[name] |= {"shape": list(tensors[name].shape), "data_offsets": [at, end]}
        at = end
    text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-len(text) % 8)
    hashed = hashlib.sha256()
    with writing(path) as out:
        begin = len(text).to_bytes(8, "little") + text
        out.write(begin)
        hashed.update(begin)
        for name in names:
            flat = tensors[name].detach().cpu().contiguous().view(-1)
            piece = flat.view(torch.uint8).numpy().data
            out.write(piece)
            hashed.update(piece)
    return hashed.hexdigest()


def load_weights(path: Path, parameters: Mapping[str, torch.nn.Parameter]) -> None:
    """Copy weights from a file into the parameters of the same names."""
    from safetensors.torch import load_file

    stored = load_file(path)
    for name, parameter in parameters.items():
        assign(parameter, stored[name])


def _of_another_version(folder: Path) -> ChangedInputError:
    """The error for a complete checkpoint that this version does not know how to read."""
    return ChangedInputError(
        f"The checkpoint {folder} was written by another version of corpusfit or of transformers. "
        "Resume with that version, or choose another `out`, or pass `overwrite` to begin again."
    )


def _digest(path: Path) -> str:
    """The SHA-256 of a file."""
    with path.open("rb") as f:
        return hashlib.file_digest(f, "sha256").hexdigest()


def _fault(folder: Path) -> str | None:
    """Why a checkpoint cannot be used; None if it can."""
    try:
        stored = json.loads((folder / "state.json").read_text("utf-8"))
        known = {"digests", *State.__dataclass_fields__} <= stored.keys()
    except (OSError, ValueError, AttributeError):
        return "writing did not finish"
    if not known:
        raise _of_another_version(folder)
    for name, digest in stored["digests"].items():
        try:
            actual = _digest(folder / name)
        except OSError:
            return f"{name} is missing"
        if actual != digest:
            return f"the checksum of {name} does not match"
    return None
