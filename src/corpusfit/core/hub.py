"""Names of repositories on the Hugging Face hub, and the commits that were downloaded."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

REVISION = r"[\w.+-]+(?:/[\w.+-]+)*"
"""Pattern of a revision: a branch, a tag, a commit, or a reference such as `refs/pr/1`."""
_NAME = re.compile(rf"([A-Za-z0-9][\w.-]*(?:/[\w.-]+)?)(?:@({REVISION}))?")

downloaded: dict[tuple[str, str], Path] = {}
"""Folders of the models that the command under way has asked the hub for, by name and cache."""


class HubName(NamedTuple):
    """A repository of the hub: `OWNER/NAME` or `OWNER/NAME@REVISION`."""

    repository: str
    revision: str = ""  # empty: what the main branch holds now

    @classmethod
    def parsed(cls, name: str) -> HubName | None:
        """The parts of a name; None for what cannot be one. A folder of this name comes first."""
        match = _NAME.fullmatch(name)
        if match is None or ".." in (match[2] or ""):
            return None
        return cls(match[1], match[2] or "")


def pinned(name: str, commit: str) -> str:
    """A name with a commit, as which it is the same model for ever; without one, as it is."""
    return f"{name.partition('@')[0]}@{commit}" if commit else name
