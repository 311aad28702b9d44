"""The values of a recipe, with variables of the environment."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from corpusfit.contracts import bad_setting
from corpusfit.core.settings import read_toml, unknown


def recipe_values(path: Path, known: Iterable[str]) -> dict[str, Any]:
    """The values of a recipe's TOML file, with environment variables expanded."""
    packaged = Path(__file__).parents[1] / "recipes" / path.name
    if packaged.exists() and not path.exists():
        raise bad_setting("The recipe", "a file", path, f"The package has it as {packaged}.")
    values: dict[str, Any] = _expanded(read_toml("The recipe", path))
    names = list(known)
    for key in values.keys() - set(names):
        raise unknown(key, names)
    return values


def _expanded(value: Any) -> Any:
    """Nested values of a recipe with environment variables expanded."""
    if isinstance(value, Mapping):
        return {k: _expanded(v) for k, v in value.items()}
    if isinstance(value, list):
        return [_expanded(v) for v in value]
    if not isinstance(value, str):
        return value
    for name in re.findall(r"\$\{(\w+)\}", value):
        if name not in os.environ:
            cure = f"For example, run first: export {name}=/data"
            allowed = "a variable of the environment that is set"
            raise bad_setting(f"${{{name}}} in the recipe", allowed, "nothing", cure)
        if "://" in value.partition(f"${{{name}}}")[0]:  # a token could be sent to anyone
            cure = f"Put the whole address into the variable: {name}=s3://bucket/data."
            allowed = "before any address, so that no recipe sends a variable away"
            raise bad_setting(f"${{{name}}} in the recipe", allowed, value, cure)
        value = value.replace(f"${{{name}}}", os.environ[name])
    return value
