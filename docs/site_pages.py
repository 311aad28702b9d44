"""A hook of MkDocs: the pages that the site has beside docs/*.md, each from its one source.

The commands come from the command line itself, the Python API from the package's public names (by
mkdocstrings), and pages about papers from papers/.
"""

from __future__ import annotations

import ast
import inspect
import posixpath
import re
from pathlib import Path
from typing import Any

import corpusfit
from corpusfit.cli.app import COMMANDS, app

ROOT = Path(__file__).parents[1]
PAPERS = ("tadpole", "domain-clusters", "mdapt", "textgram")
"""The pages of papers/docs that are about a paper."""
INCLUDED = {
    "papers/README.md": "corpusfit-papers.md",
    **{f"papers/docs/{name}.md": f"{name}.md" for name in ("papers", *PAPERS)},
}
"""Files beside docs/, and the pages that show them."""

REPOSITORY = "https://github.com/corpusfit/corpusfit/blob/main/"
"""Where links lead to files that are not on the site."""


def on_files(files: Any, config: Any) -> Any:
    """Add the pages to those of docs/."""
    from mkdocs.structure.files import File

    for path, make in MADE.items():
        files.append(File.generated(config, path, content=make()))
    for source, page in INCLUDED.items():
        files.append(File.generated(config, page, abs_src_path=str(ROOT / source)))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Links to included files lead to their pages, those to other files to the repository."""
    if not page.file.abs_src_path:  # made from the code, whose links are those of pages
        return markdown
    source = Path(page.file.abs_src_path).relative_to(ROOT).parent.as_posix()
    folder = posixpath.dirname(page.file.src_uri)

    def led(link: re.Match[str]) -> str:
        path = posixpath.normpath(posixpath.join(source, link[1]))
        if path in INCLUDED or path.startswith("docs/"):
            found = INCLUDED.get(path, path.removeprefix("docs/"))
            return f"]({posixpath.relpath(found, folder or '.')}"
        return f"]({REPOSITORY}{path}"

    return re.sub(r"\]\((?![a-z]+:|#)([^)#\s]+)", led, markdown)


def on_page_content(html: str, **_: Any) -> str:
    """Where a line of text may break in code: not in an option, but after `.`, `_` and `|`."""

    def broken(code: re.Match[str]) -> str:
        text = re.sub(r"(?<=\w)[._|](?=\w)", r"\g<0><wbr>", code[0])
        return re.sub(r"--[\w-]+", r'<span class="option">\g<0></span>', text)

    # a block keeps its lines: they would break at these places even in `pre`
    return re.sub(r"(?<!</span>)(?<!<pre>)<code>[^<]*</code>", broken, html)


def commands() -> str:
    """The page of the command line: of each command what it does, its example and its options."""
    import typer

    group: Any = typer.main.get_command(app)
    context = group.make_context("corpusfit", ["methods"], resilient_parsing=True)
    lines = ["# Commands", "", "What does a command do, and which options does it have?"]
    lines += ["`corpusfit COMMAND --help` prints the same in the terminal.", ""]
    lines += ["| command | what it does |", "|---|---|"]
    found = {name: group.get_command(context, name) for name in COMMANDS}
    for name, command in found.items():
        first = inspect.cleandoc(command.help).split("\n\n")[0].replace("\n", " ")
        lines.append(f"| [`{name}`](#corpusfit-{name}) | {_cell(first)} |")
    for name, command in found.items():
        lines += ["", f"## corpusfit {name}", "", *_about(command.help), ""]
        lines += ["| option | meaning |", "|---|---|"]
        for param in command.params:
            lines.append(f"| {_spelled(param)} | {_cell(param.help)} |")
    return "\n".join(lines) + "\n"


def _about(help_text: str) -> list[str]:
    """The help of a command, its example as a block of code."""
    before, _, rest = help_text.partition("Example:\n")
    example, _, after = rest.lstrip("\n\b").partition("\n\n")
    code = inspect.cleandoc(f"\n{example}").splitlines()
    return [*_text(before), "", "```bash", *code, "```", "", *_text(after)]


def _text(text: str) -> list[str]:
    return [_escaped(line) for line in inspect.cleandoc(text).splitlines()]


def _spelled(param: Any) -> str:
    """An option or argument as it is typed; bold if it is required."""
    words = param.opts[0] if param.param_type_name == "option" else ""
    value = "" if getattr(param, "is_flag", False) else param.metavar or ""
    code = f"`{f'{words} {value}'.strip()}`"
    return f"**{code}**" if param.required else code


def _cell(text: str | None) -> str:
    """A help as a cell of a table."""
    return _escaped(" ".join((text or "").split())).replace("|", "\\|")


def _escaped(text: str) -> str:
    """Plain text as Markdown, except for code between backticks."""
    return re.sub(r"`[^`]*`|[<*_\[]", lambda m: m[0] if m[0][0] == "`" else f"\\{m[0]}", text)


def python() -> str:
    """The page of the Python API: every public name, for mkdocstrings to fill."""
    words = corpusfit.__all__
    groups = {
        "Functions": [n for n in words if n.islower()],
        "Plans": [n for n in words if n.endswith("Plan")],
        "Errors": [n for n in words if n in ("CorpusfitError", "CorpusfitWarning")],
    }
    listed = {n for names in groups.values() for n in names}
    groups["Results"] = [n for n in words if n not in listed]
    lines = [
        "# Python API",
        "",
        "How do I call a command from Python? Each is a function of the same name; its options are",
        "keywords, its errors exceptions. Settings without a keyword go into `settings`, as in",
        '`settings=["cut.gamma=5"]` ([settings](settings.md)).',
        "",
        "Messages go to Python's logger `corpusfit` at INFO, warnings to `warnings` as",
        "`CorpusfitWarning`.",
    ]
    # classes are named by the stub, as some need PyTorch to be imported
    stub = ast.parse((ROOT / "src/corpusfit/__init__.pyi").read_text("utf-8"))
    imports = [node for node in stub.body if isinstance(node, ast.ImportFrom)]
    module_of = {alias.name: f"corpusfit.{n.module}" for n in imports for alias in n.names}
    for title in ("Functions", "Results", "Plans", "Errors"):
        lines += ["", f"## {title}"]
        for name in groups[title]:
            lines += ["", f"::: {module_of[name]}.{name}"]
            lines += [] if title == "Results" else ["    options: {members: false}"]
            lines += _keywords(getattr(corpusfit, name)) if title == "Functions" else []
    return "\n".join(lines) + "\n"


def _keywords(function: Any) -> list[str]:
    """The options of a function, as a table that can be unfolded."""
    _, _, options = (function.__doc__ or "").partition("\nOptions:")
    listed = re.findall(r"^    (\w+): (.+)$", options, re.M)
    rows = [f"    | `{word}` | {_cell(text)} |" for word, text in listed]
    head = ["", '??? note "Options"', "", "    | option | meaning |", "    |---|---|"]
    return head + rows if rows else []


MADE = {"commands.md": commands, "python.md": python}
"""The pages that are made from the code."""
