"""The command line that repeats a run, for its manifest."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from corpusfit import text as corpus
from corpusfit.core.artifacts import user_path


def command_words(
    command: str,
    inputs: Mapping[str, Sequence[str]],
    options: Mapping[str, str | int],
    overrides: Sequence[str],
) -> list[str]:
    """The words of a command line that repeats a run, without `--out`."""
    words = ["corpusfit", command]
    for option, values in inputs.items():
        for value in values:
            words += [f"--{option}", value]
    for option, single in options.items():
        words += [f"--{option}", str(single)] if single != "" else []
    for setting in overrides:
        words += ["--set", setting]
    return words


def absolute(inputs: Sequence[str]) -> list[str]:
    """Inputs with absolute paths, so that they mean the same in another working folder."""
    return [each if each in ("", "-") else corpus.located(each, Path.cwd()) for each in inputs]


def named_model(name: str) -> str:
    """A model's folder, or a pattern of folders, as an absolute path; a hub id as it is."""
    path = user_path(name)
    known = "{seed}" in name or path.exists()  # a pattern stands for folders
    return str(path.absolute()) if name and known else name
