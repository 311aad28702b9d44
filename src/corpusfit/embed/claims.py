"""What the files of a model folder claim, checked before a library acts on it.

A stranger's `config.json` can make transformers ask the hub for code (attention of the package
`kernels`, quantization), read weights of other folders, and build layers until memory ends.
"""

from __future__ import annotations

import importlib.util
import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from corpusfit.core.errors import ModelError
from corpusfit.core.manifest import is_inside

_IMPLEMENTATION = re.compile(r"_?(attn|experts)_implementation(_internal)?")
_KNOWN = {"eager", "sdpa", "flex_attention", "batched_mm", "grouped_mm"}
_FLASH = "flash_attention_2"
_COUNT = re.compile(r"(num|n)_.*(layer|block|group|expert|head)s?|.*_layers")
_MOST = 1_000  # of what has no weights of its own, such as layers that share them
_HEADER = 100 << 20  # bytes, the limit of safetensors


def require_own_code(config: Any, subject: str) -> None:
    """Refuse a configuration that asks for code which is not that of installed libraries.

    Args:
        config: the values of a `config.json`.
        subject: the model that they are of, for the message.

    Raises:
        ModelError: it does.
    """
    known = _KNOWN | ({_FLASH} if importlib.util.find_spec("flash_attn") else set())
    for name, value in _entries(config):
        if _IMPLEMENTATION.fullmatch(name):
            named = value.values() if isinstance(value, dict) else [value]
            other = [v for v in named if v is not None and str(v) not in known]
            if other:
                raise ModelError(
                    f"{subject}: its config.json asks for {name}={other[0]!r}, which is not code "
                    f"of an installed library. Remove {name} from config.json to use the code of "
                    "the model's type."
                )
        if name == "quantization_config" and value:
            raise ModelError(
                f"{subject}: its weights are quantized, as the quantization_config in its "
                "config.json says. Name the model that was quantized."
            )


def require_own_weights(folder: Path, subject: str) -> None:
    """Refuse a folder whose weights are elsewhere, or are too few for its configuration.

    Raises:
        ModelError: they are.
    """
    if (folder / "adapter_config.json").is_file():
        raise ModelError(
            f"{subject} must be a whole model; {folder} also holds an adapter of peft, by which "
            "another model would be opened. Move adapter_config.json out of it, or merge the "
            "adapter with peft's merge_and_unload, and save that with save_pretrained."
        )
    for index in folder.glob("*.index.json"):
        shards = _json(index.read_bytes())
        weights = shards.get("weight_map") if isinstance(shards, dict) else None
        for name in weights.values() if isinstance(weights, dict) else ():
            if not is_inside(name):
                raise ModelError(
                    f"{subject}: {index} must name files of its folder; got {name!r}. Name another "
                    "model."
                )
    config = _json((folder / "config.json").read_bytes())
    require_own_code(config, subject)
    claimed = [
        (value, name)
        for name, value in _entries(config)
        if _COUNT.fullmatch(name) and type(value) is int and value > _MOST
    ]
    # the files are read only for a folder that claims much
    if claimed:
        tensors = sum(map(_tensors, folder.glob("*.safetensors")))
        value, name = max(claimed)
        if value > tensors:
            raise ModelError(
                f"{subject}: its config.json claims {name}={value}, and its weights are {tensors} "
                "tensors. Name another model."
            )


def _entries(value: Any) -> Iterator[tuple[str, Any]]:
    """All entries of a JSON value, at any depth."""
    waiting = [value]
    while waiting:
        value = waiting.pop()
        if isinstance(value, Mapping):
            yield from value.items()
            waiting += value.values()
        elif isinstance(value, list):
            waiting += value


def _json(data: bytes) -> Any:
    """A JSON value; None for another file, which the library that opens it describes."""
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        return None


def _tensors(path: Path) -> int:
    """The number of tensors that the header of a safetensors file lists."""
    with path.open("rb") as file:
        size = int.from_bytes(file.read(8), "little")
        header = _json(file.read(size)) if size <= _HEADER else None
    return len(header) if isinstance(header, dict) else 0
