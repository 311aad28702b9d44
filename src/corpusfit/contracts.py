"""What other packages may build on; `contracts.pyi` lists the names, each is loaded when used.

A package names its modules by entry points, and checks its parts by `check_method`, `check_format`,
`check_objective` and `check_task_type`. All other modules of corpusfit may change in any version.
"""

import ast
import importlib
from pathlib import Path

# lazy_loader would keep what it loads in `corpusfit` itself, whose `Scorer` is another class
_MODULES = {
    name.name: f"corpusfit.{line.module}"
    for line in ast.parse(Path(__file__).with_suffix(".pyi").read_text("utf-8")).body
    if isinstance(line, ast.ImportFrom)
    for name in line.names
}
__all__ = list(_MODULES)


def __getattr__(name: str) -> object:
    """A name of the stub, loaded when it is first used."""
    if name not in _MODULES:
        raise AttributeError(f"corpusfit.contracts has no {name!r}")
    value = globals()[name] = getattr(importlib.import_module(_MODULES[name]), name)
    return value


def __dir__() -> list[str]:
    return __all__.copy()
