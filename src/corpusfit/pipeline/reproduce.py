"""The command line that makes a run again, as a manifest has it.

Why: whoever looks at a result wants to make it again, from another folder and later.
Trade-off: what was named by a path is named by the whole of it, so on another machine it has to lie
at the same place.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from corpusfit.corpus.pairs import is_pair, whole


def command_words(
    command: str,
    inputs: Mapping[str, Sequence[str]],
    options: Mapping[str, str | int],
    overrides: Sequence[str],
) -> list[str]:
    """The words of a command line that makes a run again; `--out` is still to come.

    Args:
        command: its name.
        inputs: by option, files, folders, globs or URLs, as `absolute` gives them.
        options: by option, what else it was given; what is empty is left out.
        overrides: settings as `KEY=VALUE`.
    """
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
    """Inputs with whole paths, so that they mean the same in another folder."""
    return [
        whole(given) if is_pair(given)
        else given if "://" in given or given.startswith("hub:") or given in ("", "-")
        else str(Path(given).expanduser().absolute())
        for given in inputs
    ]  # fmt: skip


def named_model(name: str) -> str:
    """A model's folder with its whole path; a hub's id as it is."""
    path = Path(name).expanduser()
    return str(path.absolute()) if name and path.exists() else name
