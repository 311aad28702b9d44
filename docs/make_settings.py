"""Write docs/settings.md from the plans' dataclasses and the methods' fields.

Run: .venv/bin/python docs/make_settings.py
"""

from __future__ import annotations

import dataclasses
import inspect
import re
from pathlib import Path

from corpusfit.adapt.plan import AdaptPlan
from corpusfit.evaluate.plan import EvaluatePlan
from corpusfit.explore.plan import ClustersPlan
from corpusfit.plan import Plan
from corpusfit.score import registry
from corpusfit.score.names import names as method_names
from corpusfit.settings import Settings
from corpusfit.workflows.tuning.plan import TunePlan


def page() -> str:
    """The text of the page."""
    lines = [
        "# Settings",
        "",
        "All settings of `corpusfit select` and related commands; those of `adapt`, `evaluate`,",
        "`clusters` and `tune` follow. Change a setting with `--set KEY=VALUE`, a `--plan` file in",
        'TOML, or `settings=["KEY=VALUE"]` in Python. `docs/make_settings.py` writes this page.',
        "",
    ]
    lines += _groups(Plan(), ("seed", "method"))
    lines += ["## seed", "", "`seed`, default `0`: random seed.", "", "## method", ""]
    lines += ["`method.name`, default `auto`, and the settings of each method:", ""]
    lines += ["| method | setting | default |", "|---|---|---|"]
    for name in method_names():
        for field in dataclasses.fields(registry.load(name)):
            lines.append(f"| {name} | `method.{field.name}` | `{field.default!r}` |")
    lines += ["", "# Settings of `corpusfit adapt`", "", "Also `read` and `seed`, as above.", ""]
    lines += _groups(AdaptPlan(), ("seed", "read"))
    lines += ["# Settings of `corpusfit evaluate`", "", "Also `seed`, as above.", ""]
    lines += _groups(EvaluatePlan(), ("seed",))
    lines += ["# Settings of `corpusfit clusters`", ""]
    lines += ["Also `read`, `cut`, `embed` and `seed`, as above.", ""]
    lines += _groups(ClustersPlan(), ("seed", "read", "cut", "embed"))
    lines += ["# Settings of `corpusfit tune`", ""]
    lines += ["Also `read`, `cut`, `embed`, `fit` and `seed`, as for `select`; and `model`,"]
    lines += ["`objective`, `mix`, `train` and `adapter`, as for `adapt`.", ""]
    lines += _groups(TunePlan(), tuple(f.name for f in dataclasses.fields(TunePlan))[1:])
    return "\n".join(lines).rstrip() + "\n"


def _groups(plan: Settings, left_out: tuple[str, ...]) -> list[str]:
    """The lines of a plan's groups."""
    lines = []
    for group in dataclasses.fields(plan):
        default = getattr(plan, group.name)
        if group.name in left_out:
            continue
        about = _attributes(type(default))
        first = (inspect.getdoc(type(default)) or "").split("\n", 1)[0]
        lines += [f"## {group.name}", "", first, ""]
        lines += ["| setting | default | meaning |", "|---|---|---|"]
        for field in dataclasses.fields(default):
            value = getattr(default, field.name)
            lines.append(f"| `{group.name}.{field.name}` | `{value}` | {about[field.name]} |")
        lines.append("")
    return lines


def _attributes(cls: type) -> dict[str, str]:
    """The description of each attribute in the docstring."""
    section = (inspect.getdoc(cls) or "").split("Attributes:\n", 1)[-1]
    found = re.findall(r"^    (\w+): (.*(?:\n      .*)*)", section, re.MULTILINE)
    return {name: " ".join(text.split()).replace("|", "\\|") for name, text in found}


if __name__ == "__main__":
    (Path(__file__).parent / "settings.md").write_text(page(), "utf-8")
