"""Publish a finished selection or model on the Hugging Face hub."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from corpusfit.core.artifacts import is_local, place
from corpusfit.core.errors import StorageError, bad_setting, importing
from corpusfit.core.manifest import Finished
from corpusfit.embed.folders import hub_answers
from corpusfit.embed.sentence_folders import POOLING
from corpusfit.text.files import first_line
from corpusfit.training.cards import Compared, write_model_card, write_selection_card

_FILES = {
    "dataset": ["README.md", "selected/*"],
    "model": ["README.md", "*.safetensors", "*.json", "*.txt", "*.model"],
}


def require_hub(name: str | None, out: str) -> None:
    """Check, before a run begins, that its result can be pushed to the hub when it is finished."""
    if name is None:
        return
    with importing("`push_to_hub`", "hub"):
        from huggingface_hub import HfApi
        from huggingface_hub.utils import HFValidationError, validate_repo_id
    if not is_local(place(out, "`out`")):
        allowed = "a folder of this machine with `push_to_hub`"
        raise bad_setting("`out`", allowed, out, "Use `corpusfit push` on a copy of the result.")
    try:
        validate_repo_id(name)
    except HFValidationError as e:
        raise bad_setting("`push_to_hub`", "OWNER/NAME of the hub", name) from e
    if not hub_answers():
        raise StorageError(
            f"`push_to_hub={name}`: the hub does not answer. Check the network, or leave the "
            "option out and use `corpusfit push` later."
        )
    try:
        HfApi(library_name="corpusfit").whoami()
    except Exception as e:
        raise StorageError(
            f"`push_to_hub={name}` needs a login to the hub: {first_line(e)}. Log in with "
            "`hf auth login`, or leave the option out and use `corpusfit push` later."
        ) from e


def require_pushable(run: Finished, name: str, evaluations: Sequence[Finished] = ()) -> str:
    """Check that a run can be pushed, before its text is compared with anything."""
    kind = {"select": "dataset", "adapt": "model"}.get(run.manifest["command"])
    if kind is None or (kind == "dataset" and not run.manifest["selected"]["segments"]):
        raise bad_setting("DIR", "a selection with text, or an adapted model", run.path)
    if not is_local(run.path):
        raise bad_setting("DIR", "a folder of this machine", run.path)
    for evaluation in evaluations:
        _require_own(run, evaluation)
    if not hub_answers():
        raise StorageError(
            f"{name} cannot be written: the hub does not answer. Check the network, then run the "
            "same command again."
        )
    return kind


def push_to_hub(
    run: Finished,
    name: str,
    *,
    public: bool = False,
    evaluations: Sequence[Finished] = (),
    compared: Compared | None = None,
) -> str:
    """Write a run's card, and upload its selected text or its model."""
    with importing("Publishing", "hub"):
        from huggingface_hub import HfApi, get_token
    kind = require_pushable(run, name, evaluations)
    if kind == "dataset":
        write_selection_card(run.path, run.manifest, compared)
    else:
        write_model_card(run.path, run.manifest, [e.manifest for e in evaluations])
    try:
        hub = HfApi(library_name="corpusfit")
        made = hub.create_repo(name, repo_type=kind, private=not public, exist_ok=True)
        hub.upload_folder(
            repo_id=made.repo_id,
            repo_type=kind,
            folder_path=run.path,
            allow_patterns=_FILES[kind],
            ignore_patterns=_not_of_the_model(run.path) if kind == "model" else [],
            delete_patterns="selected/*" if kind == "dataset" else None,
            commit_message=f"Upload of corpusfit {run.manifest['command']}",
        )
    except Exception as e:
        cause = first_line(e) if get_token() else "nobody is logged in to it"
        raise StorageError(
            f"{name} cannot be written on the hub: {cause}. Check the name and the network, and "
            "log in with `hf auth login`."
        ) from e
    return str(made)


def _not_of_the_model(folder: Path) -> list[str]:
    """Our files, which have the paths of this machine, and all subfolders but the pooling's."""
    folders = [each.name for each in folder.iterdir() if each.is_dir() and each.name != POOLING]
    return ["manifest.json", *(f"{name}/*" for name in folders)]


def _require_own(run: Finished, evaluation: Finished) -> None:
    """Make sure that an evaluation is of the run's model."""
    words, model = evaluation.manifest["repeat"], "another command"
    if evaluation.manifest["command"] == "evaluate":
        model = words[words.index("--model") + 1]
    if Path(model).resolve() != run.path.resolve():
        cure = f"Evaluate {run.path} with `corpusfit evaluate --model {run.path}`."
        raise bad_setting("`evaluations`", f"an evaluation of {run.path}", f"of {model}", cure)
