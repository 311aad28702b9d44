"""Resolve a model name, a folder or a hub id, to a checked local folder."""

from __future__ import annotations

import json
import re
from pathlib import Path, PurePath
from typing import Any, NamedTuple

from corpusfit.core.artifacts import user_path
from corpusfit.core.errors import (
    MissingDependencyError,
    ModelError,
    bad_setting,
    raise_machine_fault,
)
from corpusfit.embed.contract import file_digest
from corpusfit.embed.minilm import MINILM, minilm_folder


class Setting(NamedTuple):
    """The setting that names a model, for error messages.

    Attributes:
        flag: name of the setting.
        allowed: its allowed values.
        otherwise: the cure if no hub can be reached.
        extra: the extra of corpusfit that installs the libraries.
        lighter: which models need less than that extra, a sentence.
    """

    flag: str
    allowed: str
    otherwise: str
    extra: str
    lighter: str = ""


EMBEDDER = Setting(
    flag="`embed.embedder`",
    allowed="minilm, static, static:MODEL, a model folder or a Hugging Face hub id",
    otherwise="use `embed.embedder=static`",
    extra="models",
    lighter="A static model (model2vec) needs only pip install 'corpusfit[hub]'.",
)
ADAPTER = "adapter.json"
HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*(/[\w.-]+)?")
WANTED = ("*.safetensors", "*.json", "*.txt", "*.model", "*.spm")
UNWANTED = ("onnx/*", "openvino/*", "coreml/*")
IDENTITY = ("config.json", "*.safetensors", "tokenizer*", "vocab*", "merges*", "*.model")
IDENTITY_MORE = ("special_tokens_map.json", "added_tokens.json")
_PATIENCE = 10.0
"""Seconds that the hub has for an answer."""


def find(name: str, *, refresh: bool = True, setting: Setting = EMBEDDER) -> Path:
    """The folder of a model; a hub id is downloaded."""
    folder = user_path(name)
    if name and folder.is_dir():
        return folder
    if name == MINILM:
        return minilm_folder(setting.flag)
    if name and folder.exists():
        raise bad_setting(setting.flag, setting.allowed, name, "That is a file; name its folder.")
    if not HUB_ID.fullmatch(name):
        raise bad_setting(setting.flag, setting.allowed, name, "There is no such folder.")
    return _download(name, refresh, setting)


def _download(name: str, refresh: bool, setting: Setting) -> Path:
    """Download a model from the hub, without pickles; offline one that was downloaded before."""
    try:
        from huggingface_hub import snapshot_download
        from huggingface_hub.errors import LocalEntryNotFoundError, RepositoryNotFoundError
    except ImportError as e:
        raise MissingDependencyError("A model from the hub", setting.extra, setting.lighter) from e
    wanted: dict[str, Any] = {"allow_patterns": list(WANTED), "ignore_patterns": list(UNWANTED)}
    try:
        if not refresh:
            try:
                return Path(snapshot_download(name, local_files_only=True, **wanted))
            except LocalEntryNotFoundError:
                pass
        only = {} if hub_answers() else {"local_files_only": True}
        return Path(snapshot_download(name, **only, **wanted))
    except RepositoryNotFoundError as e:
        cure = "The Hugging Face hub has no such model, or it is private; check the spelling."
        raise bad_setting(setting.flag, setting.allowed, name, cure) from e
    except Exception as e:  # the hub client passes on any error of its HTTP library
        raise ModelError(
            f"{setting.flag} must be {setting.allowed}; got {name!r}, which is not a local folder, "
            f"and the Hugging Face hub cannot be reached ({type(e).__name__}). Name a folder that "
            f"holds the model, or {setting.otherwise}."
        ) from e


def hub_answers() -> bool:
    """Whether the hub answers in `_PATIENCE` seconds; its client would wait without end."""
    from huggingface_hub import constants
    from huggingface_hub.utils import get_session

    try:
        get_session().head(constants.ENDPOINT, timeout=_PATIENCE)
    except Exception:  # of its HTTP library, or offline
        return False
    return True


def transformer_folder(folder: Path, setting: Setting = EMBEDDER) -> Path:
    """The folder of the transformer in a model folder: the folder itself, or as in `modules.json`.

    The folder is checked by its files, not by loading it. Only safetensors are accepted, because
    other weights are pickles, which can run code.
    """
    for module in read_json(folder / "modules.json", [], setting)[:1]:
        if not str(module.get("type", "")).endswith("Transformer"):
            raise ModelError(
                f"{setting.flag}: the first module in {folder / 'modules.json'} must be a "
                f"Transformer; got {module.get('type')!r}. Name another model."
            )
        below = PurePath(str(module.get("path", "")))
        if below.is_absolute() or ".." in below.parts:
            raise ModelError(
                f"{setting.flag}: the first module in {folder / 'modules.json'} must lie in its "
                f"folder; got {str(below)!r}. Name another model."
            )
        folder = folder / below
    if not (folder / "config.json").is_file():
        kind = read_json(folder / "manifest.json", {}, setting).get("command")
        if kind in ("select", "score"):
            holds, choose = "a selection", ""
            if kind == "score":
                holds, choose = "the scores of a corpus", f"corpusfit choose {folder}, then "
            raise ModelError(
                f"{setting.flag} must name a model; {folder} holds {holds}. First: {choose}"
                f"corpusfit adapt --model BASE --data {folder} --out adapted/"
            )
        if not kind and (begun := read_json(folder / ".corpusfit/run.json", {}, setting)):
            raise ModelError(
                f"{setting.flag} must name a model; {folder} holds an unfinished "
                f"`corpusfit {begun.get('command')}`. Repeat its command to resume it."
            )
        raise ModelError(
            f"{setting.flag} must name a folder with a Hugging Face model; {folder} has no "
            "config.json. Save the model there with save_pretrained."
        )
    if not any(folder.glob("*.safetensors")):
        other = sorted(p.name for p in folder.glob("*.bin")) or ["no weights"]
        raise ModelError(
            f"{setting.flag} must name a model with safetensors weights; {folder} has {other[0]}. "
            "Other formats can run code when opened: load the model on a machine where this is "
            "safe, and save it again with save_pretrained."
        )
    if (folder / ADAPTER).is_file():
        raise ModelError(
            f"{setting.flag} must name a whole model; {folder} also holds an adapter, which would "
            "be ignored. Name the model that the adapter is for."
        )
    return folder


def is_static(folder: Path) -> bool:
    """Whether a folder holds a static (model2vec) model rather than a transformer."""
    modules = read_json(folder / "modules.json", [])
    if modules and str(modules[0].get("type", "")).endswith("StaticEmbedding"):
        return True
    return bool(read_json(folder / "config.json", {}).get("model_type") == "model2vec")


def file_digests(folder: Path) -> dict[str, str]:
    """SHA-256 of each file that decides a transformer's embeddings, by file name."""
    return {p.name: file_digest(p) for p in model_files(folder)}


def model_files(folder: Path) -> list[Path]:
    """The files of a transformer's folder that decide its embeddings, by name."""
    paths = {p for pattern in (*IDENTITY, *IDENTITY_MORE) for p in folder.glob(pattern)}
    return [p for p in sorted(paths) if p.is_file()]


def read_json(path: Path, default: Any, setting: Setting = EMBEDDER) -> Any:
    """The value of a JSON file, of the default's type; the default if the file does not exist."""
    try:
        value = json.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        return default
    except (OSError, ValueError) as e:
        raise_machine_fault(e)
        raise ModelError(f"{setting.flag}: {path} cannot be read: {e}.") from e
    if not isinstance(value, type(default)):
        raise ModelError(f"{setting.flag}: {path} does not hold a JSON {type(default).__name__}.")
    return value
