"""Check that helps, messages and pages use the words of words.toml; part of `make lint`.

Prints one line for each phrase that the list replaces, with its file or option, and exits with 1 if
there is any. Text in backquotes and code blocks is not checked.
"""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import typer

import corpusfit
from corpusfit.cli.app import COMMANDS, app
from corpusfit.core.keywords import Keywords
from corpusfit.core.options import settings_of

ROOT = Path(__file__).parents[1]
WORDS = tomllib.loads((ROOT / ".ci/words.toml").read_text("utf-8"))["words"]
DEFAULT = re.compile(r"\(default: ((?:[^()]|\([^()]*\))+)\)\.?$")


def keywords_of(command: str) -> Keywords | None:
    """What a command takes; None for one without options of a plan."""
    keywords = getattr(corpusfit, command, None)
    return COMMANDS[command].keywords or getattr(keywords, "keywords", None)


def complaints(where: str, text: str, kind: str) -> Iterator[str]:
    """One line for each phrase of the list in a text of a kind: help, message, string or docs."""
    plain = " ".join(re.sub(r"`[^`]*`", "CODE", text).split())
    for entry in WORDS:
        if kind not in entry.get("where", (kind,)):
            continue
        for match in re.finditer(entry["not"], plain, re.IGNORECASE):
            near = plain[max(0, match.start() - 30) : match.end() + 30]
            yield f"{where}: {match[0]!r} (say {entry['say']}): …{near}…"


def commands() -> Iterator[str]:
    """Complaints about the help of every command and option."""
    group = typer.main.get_command(app) if isinstance(app, typer.Typer) else app
    context = group.make_context("corpusfit", ["methods"], resilient_parsing=True)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        shown = command.get_help(command.make_context(name, [], resilient_parsing=True))
        yield from complaints(f"corpusfit {name} --help", shown, "help")
        first = shown.split("\n\n")[1].strip()
        if not first.endswith(".") or len(first) > 60:
            yield f"corpusfit {name} --help: its first line is no sentence of at most 60 characters"
        keywords = keywords_of(name)
        known = keywords.settings if keywords else {}
        for option in command.params:
            if option.param_type_name != "option" or option.name == "help":
                continue
            wrong = option_fault(option, known.get(option.name))
            if wrong:
                yield f"corpusfit {name} {option.opts[0]}: {wrong}: {option.help}"


def option_fault(option, setting) -> str:
    """What is wrong with an option's help: it stands alone and ends with its default."""
    default = DEFAULT.search(option.help)
    if not option.help[0].isupper() or option.help.endswith("."):
        return "begins with a small letter or ends with a full stop"
    if option.is_flag:
        return "a flag has no default" if "default" in option.help else ""
    if not option.metavar or bool(default) == option.required:
        return "has no metavar, or no default in words and is not required"
    shown = default[1] if default else ""
    known = {str(option.default), f"{option.default:,}" if isinstance(option.default, int) else ""}
    if default and option.default not in (None, "") and shown not in known:
        return f"its default is {option.default}"
    decided = default and setting and setting.default not in (None, "", "auto")
    if decided and shown.replace(",", "") != setting.shown_default.replace(",", ""):
        return f"the setting's default is {setting.shown_default}"
    return ""


def settings() -> Iterator[str]:
    """Complaints about the description of every setting."""
    plans = {keywords.plan for keywords in map(keywords_of, COMMANDS) if keywords}
    for plan in sorted(plans, key=lambda plan: plan.__name__):
        for setting in settings_of(plan).values():
            option = setting.option
            for text in (option.help, option.default, option.more):
                yield from complaints(setting.path, text, "help")
                if text.endswith("."):
                    yield f"{setting.path}: ends with a full stop: {text}"
            if setting.default in (None, "") and not option.default:
                yield f"{setting.path}: no default in words"
            if not (option.help[0].isupper() or "`" in option.help[0]):
                yield f"{setting.path}: begins with a small letter: {option.help}"


def strings(file: Path) -> Iterator[tuple[int, str]]:
    """(line, text) of the strings of a module that are sentences and no docstrings."""
    tree = ast.parse(file.read_text("utf-8"))
    skipped = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            skipped |= {id(value) for value in node.values}
            texts = (v.value if isinstance(v, ast.Constant) else "X" for v in node.values)
            yield node.lineno, "".join(texts)
    for node in ast.walk(tree):
        text = node.value if isinstance(node, ast.Constant) and id(node) not in skipped else None
        if isinstance(text, str) and " " in text.strip():
            yield node.lineno, text


def files() -> Iterator[str]:
    """Complaints about the strings of every module, and about every page."""
    for file in sorted([*(ROOT / "src").rglob("*.py"), *(ROOT / "papers/src").rglob("*.py")]):
        for line, text in strings(file):
            yield from complaints(f"{file.relative_to(ROOT)}:{line}", text, "string")
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md"), *(ROOT / "papers").rglob("*.md")]
    pages += (ROOT / "src/corpusfit/reporting/templates").glob("*.html")
    for page in sorted(pages):
        text = re.sub(r"^( *)```.*?^ *```$", "", page.read_text("utf-8"), flags=re.M | re.S)
        for paragraph in re.split(r"\n\s*\n|\n(?=[#|*-])", text):
            plain = re.sub(r"\]\([^)]*\)", "]", paragraph)
            yield from complaints(str(page.relative_to(ROOT)), plain, "docs")


found = dict.fromkeys([*commands(), *settings(), *files()])  # plans share groups of settings
print(*found, sep="\n", end="\n" if found else "")
sys.exit(bool(found))
