"""Write docs/settings.md from the plan's dataclasses and the methods' fields.

Run: .venv/bin/python docs/make_settings.py
"""

from __future__ import annotations

import dataclasses
import inspect
import re
from pathlib import Path

from corpusfit.plan import Plan
from corpusfit.score import registry


def page() -> str:
    """The page's text."""
    lines = [
        "# Settings",
        "",
        "Made by `docs/make_settings.py` from the code. Every setting is reached by",
        '`--set KEY=VALUE`, a `--plan` file in TOML, or `settings=["KEY=VALUE"]` in Python.',
        "",
    ]
    for group in dataclasses.fields(Plan):
        default = getattr(Plan(), group.name)
        if group.name in ("seed", "method"):
            continue
        about = _attributes(type(default))
        first = (inspect.getdoc(type(default)) or "").split("\n", 1)[0]
        lines += [
            f"## {group.name}",
            "",
            first,
            "",
            "| setting | default | meaning |",
            "|---|---|---|",
        ]
        for field in dataclasses.fields(default):
            value = getattr(default, field.name)
            lines.append(f"| `{group.name}.{field.name}` | `{value}` | {about[field.name]} |")
        lines.append("")
    lines += ["## seed", "", "`seed`, default `0`: the only source of chance.", "", "## method", ""]
    lines += ["`method.name`, default `auto`, and the named method's own settings:", ""]
    lines += ["| method | setting | default |", "|---|---|---|"]
    for name in registry.names():
        for field in dataclasses.fields(registry.load(name)):
            lines.append(f"| {name} | `method.{field.name}` | `{field.default!r}` |")
    return "\n".join(lines) + "\n"


def _attributes(cls: type) -> dict[str, str]:
    """What the docstring says of each attribute."""
    section = (inspect.getdoc(cls) or "").split("Attributes:\n", 1)[-1]
    found = re.findall(r"^    (\w+): (.*(?:\n      .*)*)", section, re.MULTILINE)
    return {name: " ".join(text.split()).replace("|", "\\|") for name, text in found}


if __name__ == "__main__":
    (Path(__file__).parent / "settings.md").write_text(page(), "utf-8")
