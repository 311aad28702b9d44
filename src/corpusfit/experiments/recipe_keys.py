"""How a recipe writes the settings of its plans."""

from __future__ import annotations

from dataclasses import dataclass

ELSEWHERE: dict[str, dict[str, str]] = {
    "select": {
        "method.name": "selectors",
        "method": "selector.NAME.method",
        "choose.fraction": "fractions",
        "choose.policy": "weights",
        "seed": "seed",
    },
    "adapt": {
        "model.name": "models",
        "model.init": "models",
        "weights.policy": "weights",
        "adapter.kind": "adapters",
        "read": "select.read",
        "seed": "seed",
    },
    "evaluate": {
        "model.name": "models",
        "model.adapter": "adapters",
        "model.reduction": "adapt.adapter.reduction",
        "model.rank": "adapt.adapter.rank",
        "task.metric": "tasks.metric",
        "augment.kind": "augment",
        "seed": "seed",
    },
}
"""Settings of the plans that a recipe sets elsewhere, with their keys."""

_OWN = {".adapter": "adapters"} | dict.fromkeys((".task", ".target", ".guard"), "tasks.path")
"""Inputs of the commands that a recipe runs, with their keys."""


@dataclass(frozen=True)
class RecipeKeys:
    """A spelling (`errors.Spelling`): the full key of a setting, such as `adapt.train.rate`.

    Attributes:
        plan: the plan of the settings: `select`, `adapt` or `evaluate`.
        selector: the selector that has them; empty for any.
        shared: whether all selectors share them, except those of a method.
    """

    plan: str
    selector: str = ""
    shared: bool = False

    @property
    def table(self) -> str:
        """The table of the settings."""
        if self.shared or not self.selector:
            return self.plan
        return f"selector.{self.selector}" + ".adapt" * (self.plan == "adapt")

    def __call__(self, path: str, value: str) -> str:
        """The key of a setting, with a value if there is one."""
        return f"{self.key(path)}={value}" if value else self.key(path)

    def key(self, path: str) -> str:
        """The key of a setting by its path in the plan."""
        if path.startswith("."):
            return _OWN.get(path, path[1:])
        moved = ELSEWHERE[self.plan]
        group, _, name = path.partition(".")
        if path in moved:
            return moved[path]
        table = moved.get(group, f"{self.table}.{group}")
        return f"{table.replace('NAME', self.selector or 'NAME')}.{name}".rstrip(".")
