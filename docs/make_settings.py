"""Write docs/settings.md and the types of the API's keywords from the plans and the methods.

Run: .venv/bin/python docs/make_settings.py
"""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import re
from pathlib import Path

from corpusfit.core.keywords import MACHINE, Keywords, keyword_type
from corpusfit.core.options import Option, Setting, settings_of
from corpusfit.core.plan import Plan
from corpusfit.core.settings import Settings
from corpusfit.domains.plan import ClustersPlan
from corpusfit.evaluation.plan import EvaluatePlan, SplitPlan
from corpusfit.scoring import registry
from corpusfit.scoring.names import METHODS
from corpusfit.training.plan import AdaptPlan

ROOMS = ("selection", "ranking", "training", "evaluation", "domains", "fitting")
"""The packages whose functions have options."""


OFTEN = {
    "choose.fraction": "How much to select: 0.1 is a tenth of the corpus's words",
    "read.text_field": "The field that holds the text; `--target-field` if the target's differs",
    "read.where": "Read only some rows of the corpus, by their other fields",
    "method.name": "`corpusfit rank` compares methods",
    "embed.embedder": "Another encoder, perhaps multilingual, for methods that read embeddings",
    "cut.unit": "`document` scores and selects whole rows, such as conversations",
    "objective.name": "`causal` for a decoder; `tsdae` for a sentence encoder",
    "train.max_steps": "Train longer or less; `--dry-run` says how long a step takes",
    "train.learning_rate": "Lower it if the loss on the task's text rises",
    "adapter.kind": "`lora` trains small matrices and leaves the model's weights as they are",
}
"""The settings that people change, each with what for; the page begins with them."""

SECTIONS: dict[str, tuple[Settings, str, tuple[str, ...]]] = {
    "select": (
        Plan(),
        "Also of the other commands that score and select.",
        ("seed", "method"),
    ),
    "adapt": (AdaptPlan(), "Also `read` and `seed`, as for `select`.", ("seed", "read")),
    "evaluate": (EvaluatePlan(), "Also `seed`, as for `select`.", ("seed",)),
    "clusters": (
        ClustersPlan(),
        "Also `read`, `cut`, `embed` and `seed`, as for `select`.",
        ("seed", "read", "cut", "embed"),
    ),
    "split": (SplitPlan(), "Also `read` and `seed`, as for `select`.", ("seed", "read")),
}
"""By command: its plan, what it shares with an earlier one, and the groups that stand there."""

BEGIN = """# Settings

Which settings are there, and how do I set one? Every setting has a path, such as `cut.gamma`. Many
also have an option of their own.

| where | how |
|---|---|
| command line | `--set cut.gamma=5`, once for each setting; options such as `--fraction 0.1` |
| TOML file | `--plan plan.toml`, with `gamma = 5` below `[cut]` |
| Python | `settings=["cut.gamma=5"]`; options are keywords, such as `fraction=0.1` |

## The ten that people change

| setting | option | default | what for |
|---|---|---|---|
"""
REFERENCE = """
## All settings

Unfold a group to see its settings. [Commands](commands.md) lists the options of each command.
"""


def page() -> str:
    """The text of the page: the settings that people change, then all, folded by group."""
    known = {s.path: s for p in (Plan, AdaptPlan) for s in settings_of(p).values()}
    lines = BEGIN.splitlines()
    for path, why in OFTEN.items():
        setting = known[path]
        option = f"--{setting.option.word.replace('_', '-')}"
        lines.append(_row(f"`{path}`", f"`{option}`", _code(setting), why))
    lines += REFERENCE.splitlines()
    first: dict[tuple[str, Option], str] = {}
    for command, (plan, shared, left_out) in SECTIONS.items():
        lines += ["", f"### Settings of `corpusfit {command}`", "", *shared.splitlines(), ""]
        for group in dataclasses.fields(plan):
            if group.name in left_out:
                continue
            kind = type(getattr(plan, group.name))
            about = (inspect.getdoc(kind) or "").split("\n", 1)[0]
            rows = []
            for setting in settings_of(kind).values():
                option = setting.option
                meaning = option.help + (f". {option.more}" if option.more else "")
                # the readers of a task have the settings of `read`: one text is enough
                same = first.setdefault((setting.path.rpartition(".")[2], option), setting.path)
                rows.append(
                    _row(
                        f"`{setting.path}`",
                        _code(setting),
                        meaning if same == setting.path else f"As `{same}`",
                    )
                )
            lines += _folded(group.name, about, ("setting", "default", "meaning"), rows)
        if command == "select":
            ours = list(METHODS.built_in())
            rows = [row for name in ours for row in _of_method(name)]
            heads = ("method", "setting", "default", "meaning")
            about = "`method.name`, default `cynical`, and the settings of each method."
            lines += [
                *_folded("method", about, heads, rows),
                "",
                "`seed`, default `0`: random seed.",
            ]
    return "\n".join(lines).rstrip() + "\n"


def _of_method(name: str) -> list[str]:
    """The rows of a method's settings, with their meanings from its docstring."""
    method = registry.load(name)
    entries = re.findall(r"^    (\w+): (.+(?:\n {8}.+)*)", inspect.getdoc(method) or "", re.M)
    meanings = {key: " ".join(text.split()) for key, text in entries}
    rows = []
    for field in dataclasses.fields(method):
        about = re.sub(r" \(default: [^()]*\)\.?$", "", meanings.get(field.name, ""))
        rows.append(_row(name, f"`method.{field.name}`", f"`{field.default!r}`", about))
    return rows


def _folded(name: str, about: str, heads: tuple[str, ...], rows: list[str]) -> list[str]:
    """A table that a click unfolds, on the site and on GitHub."""
    about = re.sub("`(.+?)`", r"<code>\1</code>", about)
    title = f'<details markdown="1"><summary><b>{name}</b>: {about}</summary>'
    return [title, "", _row(*heads), "|---" * len(heads) + "|", *rows, "", "</details>"]


def _row(*cells: str) -> str:
    return f"| {' | '.join(cell.replace('|', '/') for cell in cells)} |"


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
    lines += [f"    {word}: {kind}" for word, (kind, _) in MACHINE.items()]
    rooms = [importlib.import_module(f"corpusfit.{room}.api") for room in ROOMS]
    offered = {
        name: keywords
        for room in rooms
        for name, keywords in vars(room).items()
        if isinstance(keywords, Keywords)
    }
    for name, keywords in offered.items():
        bases = ["CHOOSE"] if name == "SELECT" else []
        parents = ", ".join(f"{base.title()}Options" for base in bases) or "MachineOptions"
        lines += ["", "", f"class {name.title()}Options({parents}, total=False):"]
        lines += [f'    """Keywords of `{name.lower()}`."""']
        inherited = {word for base in bases for word in offered[base].settings}
        own = [(word, s) for word, s in keywords.settings.items() if word not in inherited]
        lines += [""] if own else []
        for word, setting in own:
            kind = keyword_type(setting)
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
