"""The files of sentence-transformers in a model folder: which pooling makes an embedding."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from corpusfit.core.artifacts import write_bytes
from corpusfit.core.errors import ModelError
from corpusfit.embed.folders import Setting, read_json

POOLING = "1_Pooling"
_KNOWN = ("Transformer", "Pooling", "Normalize")
_LEGACY = {"mean": "pooling_mode_mean_tokens", "cls": "pooling_mode_cls_token"}
_MODE, _LENGTH = "pooling_mode", "max_seq_length"


@dataclass(frozen=True)
class Pooling:
    """How the states of a transformer become an embedding.

    Attributes:
        mode: `mean` or `cls`.
        unit_length: embeddings are scaled to length 1.
        longest: most tokens of a text that sentence-transformers reads; 0 if it is not stated.
    """

    mode: str = "mean"
    unit_length: bool = False
    longest: int = 0


def read_pooling(folder: Path, mode: str, setting: Setting) -> Pooling:
    """The pooling of a model folder; a folder that does not state one has the mean."""
    modules = read_json(folder / "modules.json", [], setting)
    places = {str(m.get("type", "")).rpartition(".")[2]: str(m.get("path", "")) for m in modules}
    others = [kind for kind in places if kind not in _KNOWN]
    if others:
        raise ModelError(
            f"{setting.flag} must name a transformer with a pooling alone; {folder} also has a "
            f"{others[0]}. Name another model."
        )
    stated = ["mean"]
    if "Pooling" in places:
        stated = _modes(read_json(folder / places["Pooling"] / "config.json", {}, setting))
    if not mode and stated not in (["mean"], ["cls"]):
        raise ModelError(
            f"{setting.flag}: {folder} must pool by mean or cls; got "
            f"{' and '.join(stated) or 'no pooling'}. Name another model."
        )
    read = read_json(folder / "sentence_bert_config.json", {}, setting)
    return Pooling(mode or stated[0], "Normalize" in places, int(read.get(_LENGTH) or 0))


def _modes(config: dict[str, Any]) -> list[str]:
    """The poolings that a configuration of either form names."""
    named = config.get(_MODE, [])
    words = {flag: mode for mode, flag in _LEGACY.items()}
    flags = [k for k, v in config.items() if k.startswith(f"{_MODE}_") and v is True]
    return [named] if isinstance(named, str) else [*named, *(words.get(f, f) for f in flags)]


def write_pooling(folder: Path, pooling: Pooling, dim: int) -> None:
    """Write the files by which sentence-transformers opens a transformer's folder."""
    kinds = {"Transformer": "", "Pooling": POOLING}
    if pooling.unit_length:
        kinds["Normalize"] = "2_Normalize"
    modules = [
        {"idx": i, "name": str(i), "path": path, "type": f"sentence_transformers.models.{kind}"}
        for i, (kind, path) in enumerate(kinds.items())
    ]
    flags = {flag: mode == pooling.mode for mode, flag in _LEGACY.items()}
    files: dict[str, Any] = {
        f"{POOLING}/config.json": {"word_embedding_dimension": dim, **flags},
        "modules.json": modules,
    }
    if pooling.longest:
        files["sentence_bert_config.json"] = {_LENGTH: pooling.longest, "do_lower_case": False}
    for name, value in files.items():
        write_bytes(folder / name, json.dumps(value, indent=2).encode())
