"""Write docs/settings.md and the types of the API's keywords from the plans and the methods.

Run: .venv/bin/python docs/make_settings.py
"""

from __future__ import annotations

import dataclasses
import importlib
import inspect
from pathlib import Path

from corpusfit.core import offers
from corpusfit.core.options import Setting, settings_of
from corpusfit.core.plan import Plan
from corpusfit.core.settings import Settings
from corpusfit.domains.plan import ClustersPlan
from corpusfit.evaluation.plan import EvaluatePlan, SplitPlan
from corpusfit.scoring import registry
from corpusfit.scoring.names import names as method_names
from corpusfit.training.plan import AdaptPlan
from corpusfit.tuning.plan import TunePlan

ROOMS = ("selection", "training", "evaluation", "domains", "tuning", "fitting")
"""The packages whose functions have options."""


def page() -> str:
    """The text of the page."""
    lines = [
        "# Settings",
        "",
        "All settings of `corpusfit select` and related commands; those of `adapt`, `evaluate`,",
        "`clusters`, `split` and `tune` follow. Change a setting with `--set KEY=VALUE`, a TOML",
        'file for `--plan`, or `settings=["KEY=VALUE"]` in Python. `docs/make_settings.py` writes',
        "this page.",
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
    lines += ["# Settings of `corpusfit split`", "", "Also `read` and `seed`, as above.", ""]
    lines += _groups(SplitPlan(), ("seed", "read"))
    lines += ["# Settings of `corpusfit tune`", ""]
    lines += ["Also `read`, `cut`, `embed`, `fit` and `seed`, as for `select`; and `model`,"]
    lines += ["`objective`, `mix`, `train` and `adapter`, as for `adapt`.", ""]
    lines += _groups(TunePlan(), tuple(f.name for f in dataclasses.fields(TunePlan))[1:])
    return "\n".join(lines).rstrip() + "\n"


def _groups(plan: Settings, left_out: tuple[str, ...]) -> list[str]:
    """The lines of a plan's groups."""
    lines = []
    for group in dataclasses.fields(plan):
        if group.name in left_out:
            continue
        kind = type(getattr(plan, group.name))
        first = (inspect.getdoc(kind) or "").split("\n", 1)[0]
        lines += [f"## {group.name}", "", first, ""]
        lines += ["| setting | default | meaning |", "|---|---|---|"]
        for setting in settings_of(kind).values():
            about = setting.option.help + (f". {setting.option.more}" * bool(setting.option.more))
            cells = (f"`{setting.path}`", _code(setting), about)
            lines.append(f"| {' | '.join(cell.replace('|', '/') for cell in cells)} |")
        lines.append("")
    return lines


def _code(setting: Setting) -> str:
    """The default: a value as code, or words."""
    return setting.option.default or f"`{setting.shown_default}`"


def typed_options() -> str:
    """The module with the types of the keywords of the Python API."""
    lines = [
        '"""The keywords of the functions of the API; docs/make_settings.py writes this module."""',
        "",
        "from collections.abc import Sequence",
        "from pathlib import Path",
        "from typing import Literal, TypedDict",
    ]
    lines += ["", "", "class MachineOptions(TypedDict, total=False):"]
    lines += ['    """Keywords of every function that takes a machine, in its place."""', ""]
    lines += [f"    {word}: {kind}" for word, (kind, _) in offers.MACHINE.items()]
    rooms = [importlib.import_module(f"corpusfit.{room}.api") for room in ROOMS]
    offered = {
        name: offer
        for room in rooms
        for name, offer in vars(room).items()
        if isinstance(offer, offers.Offer)
    }
    for name, offer in offered.items():
        bases = ["SCORE", "CHOOSE"] if name == "SELECT" else []
        parents = ", ".join(f"{base.title()}Options" for base in bases) or "MachineOptions"
        lines += ["", "", f"class {name.title()}Options({parents}, total=False):"]
        lines += [f'    """Keywords of `{name.lower()}`."""']
        inherited = {word for base in bases for word in offered[base].settings}
        own = [(word, s) for word, s in offer.settings.items() if word not in inherited]
        lines += [""] if own else []
        for word, setting in own:
            kind = offers.keyword_type(setting)
            line = f"    {word}: {kind}"
            lines += [line] if len(line) <= 100 else _wrapped(word, kind)
    return "\n".join(lines) + "\n"


def _wrapped(word: str, kind: str) -> list[str]:
    """A long type over several lines, as ruff formats it."""
    words, _, rest = kind.removeprefix("Literal[").partition("] | ")
    listed = [f"            {word}," for word in words.split(", ")]
    return [
        f"    {word}: (",
        "        Literal[",
        *listed,
        "        ]",
        f"        | {rest}",
        "    )",
    ]


if __name__ == "__main__":
    here = Path(__file__).parent
    (here / "settings.md").write_text(page(), "utf-8")
    (here.parent / "src/corpusfit/core/typed_options.py").write_text(typed_options(), "utf-8")
