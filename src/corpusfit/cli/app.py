"""The `corpusfit` command: finds the commands, turns errors into a sentence and an exit code."""

from __future__ import annotations

import contextlib
import errno
import sys
import traceback
from collections.abc import Iterator
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

import corpusfit
from corpusfit.cli import (
    STOPPED,
    TERMINATED,
    adapt,
    demo,
    evaluate,
    fit,
    methods,
    prepare,
    report,
    select,
    show,
)
from corpusfit.cli.options import COMMANDS, RUN
from corpusfit.cli.show import say
from corpusfit.core.credentials import public_text
from corpusfit.core.engine.logged import SHOWN_BY
from corpusfit.core.errors import (
    CorpusfitError,
    PackageError,
    UsageError,
    raise_machine_fault,
    raise_torn_file,
    tokenizing,
)
from corpusfit.core.escaping import harmless
from corpusfit.core.gone import gone, moved
from corpusfit.core.registry import Registry
from corpusfit.core.settings import RENAMED

_MODULES = {
    "All in one": (fit, demo),
    "Select text": (select,),
    "Prepare corpora and tasks": (prepare,),
    "Adapt and evaluate models": (adapt, evaluate),
    "Report, maintain": (report, methods),
}
JOURNEY = {
    title: [n for m in modules for n, c in COMMANDS.items() if c.show.__module__ == m.__name__]
    for title, modules in _MODULES.items()
}
"""The commands in groups, in the order of `corpusfit --help`."""
_OURS = [name for names in JOURNEY.values() for name in names]

OTHERS = Registry("corpusfit.commands")
"""The commands of other packages; each is a module that registers the command of its name."""

SETTINGS: dict[str, Any] = {
    "add_completion": False,  # the application completes the words of all commands
    "rich_markup_mode": None,
    "pretty_exceptions_enable": False,
    "context_settings": {
        "help_option_names": ["-h", "--help"],
        "token_normalize_func": lambda word: word.replace("_", "-"),  # as transformers spells them
    },
}
"""Typer settings of every command: no Rich markup, plain tracebacks, short and long help, options
also with underscores."""


class _Command(TyperCommand):
    """A command that warns if an option of one value is repeated, of which the last wins."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the arguments."""
        if {"--dry-run", "--dry_run"} & {*args}:
            for param in self.params:
                param.required &= param.name not in getattr(self.callback, "unneeded", ())
        single = [p for p in self.params if p.nargs == 1 and not getattr(p, "multiple", False)]
        for option in single:
            names = [*option.opts, *option.secondary_opts]
            repeats = [a for a in args if a.partition("=")[0] in names and a.startswith("--")]
            if len(repeats) > 1 and not getattr(option, "is_flag", False):
                say(
                    f"Warning: {option.opts[0]} is given {len(repeats)} times; the last one counts."
                )
        several = {p.opts[0] for p in self.params if getattr(p, "multiple", False)}
        # options followed by two values, as a shell expands `--corpus *.txt`
        following = zip(args, args[2:], strict=False)
        named = [a for a, second in following if a in several and second[:1] != "-"]
        try:
            return super().parse_args(ctx, args)
        except Exception as e:
            if "extra argument" in (message := str(getattr(e, "message", ""))) and named:
                vars(e)["message"] = (
                    f"{message}. {named[0]} takes one value and is repeated for more: "
                    f"{named[0]} A {named[0]} B. A folder or a quoted pattern is one value"
                )
            raise

    def invoke(self, ctx: Any) -> Any:
        """Run the command; its messages show its flags."""
        flags = {p.name: p.opts[0] for p in self.params if p.param_type_name == "option"}
        flags_of = getattr(self.callback, "words", {})
        show.FLAGS.clear()
        show.FLAGS.update(flags)
        show.FLAGS.update({path: flags[word] for path, word in flags_of.items() if word in flags})
        from corpusfit.cli.bar import Bar, Warnings  # help does without them

        token = SHOWN_BY.set(Warnings if ctx.params.get("quiet") else Bar)
        try:
            return super().invoke(ctx)
        finally:
            SHOWN_BY.reset(token)

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """List the options by topic: the command's own first, how it runs last."""
        groups: dict[str, list[tuple[str, str]]] = {}
        for param in self.get_params(ctx):
            title = "Arguments" if param.param_type_name == "argument" else "Options"
            title = getattr(param, "rich_help_panel", "") or title
            if param.name == "help":
                title = RUN
            name, about = param.get_help_record(ctx) or ("", "")
            # without the value's type, such as "<str>"
            groups.setdefault(title, []).append((name.partition(" <")[0], about))
        for title in sorted(groups, key=RUN.__eq__):
            with formatter.section(title):
                formatter.write_dl(groups[title])


def _built(name: str) -> Any:
    # click keeps the lines of a paragraph that begins with \b
    about = COMMANDS[name].help.replace("Example:\n", "Example:\n\n\b\n")
    single = typer.Typer(**SETTINGS)
    settings = SETTINGS["context_settings"]
    single.command(name, cls=_Command, help=about, context_settings=settings)(
        COMMANDS[name].callback()
    )
    return typer.main.get_command(single)


def _about(name: str, width: int) -> str:
    """A line on a command, without the public function, which imports much."""
    with contextlib.suppress(PackageError):
        if name not in _OURS:
            OTHERS.imported(name)
        if name in COMMANDS:
            return str(_Command(name, help=COMMANDS[name].help).get_short_help_str(width))
    return f"(broken: `corpusfit {name}` says why)"


class _Commands(TyperGroup):
    """Builds a command from its function when it is called."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.commands: dict[str, Any] = dict.fromkeys(_OURS)

    def list_commands(self, ctx: Any) -> list[str]:
        """The names of all commands, those of other packages last."""
        self.commands |= dict.fromkeys(OTHERS.names())  # our own commands keep their names
        return list(self.commands)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """One command, or None if there is none of that name."""
        if cmd_name in _OURS:
            return _built(cmd_name)
        if cmd_name not in self.list_commands(ctx):
            if sentence := gone(cmd_name) or moved(cmd_name):
                raise UsageError(sentence)
            return None
        try:
            OTHERS.imported(cmd_name)
            return _built(cmd_name)
        except Exception as e:
            if ctx.resilient_parsing:  # the shell completes words
                return None
            if isinstance(e, PackageError):
                raise
            why = f"does not define the command ({type(e).__name__}: {e})"
            raise OTHERS.broken(cmd_name, why) from e

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """List the commands by what they are for, and those of each other package."""
        width = formatter.width - max(map(len, self.list_commands(ctx))) - 6
        listed = {title: list(names) for title, names in JOURNEY.items()}
        for name in self.list_commands(ctx)[len(_OURS) :]:
            listed.setdefault(OTHERS.package_of(name), []).append(name)
        for title, names in listed.items():
            with formatter.section(title):
                formatter.write_dl([(name, _about(name, width)) for name in names])

    def make_context(self, *args: Any, **settings: Any) -> Any:
        """Parse the options before the command's name."""
        with _harmless_usage():
            return super().make_context(*args, **settings)

    def invoke(self, ctx: Any) -> Any:
        """Run a command."""
        with _harmless_usage():
            try:
                # the tokenizer of a model is also opened in this process
                with tokenizing(alone=False):
                    return super().invoke(ctx)
            except Exception as e:
                stores = [public_text(word) for word in sys.argv if "://" in word]
                failure = f"Cannot use {' or '.join(stores)}" if stores else ""
                raise_machine_fault(e, failure)
                raise_torn_file(e, failure)
                raise


_OTHER_NAME = {"--task": "--target", "--target": "--task"} | {
    f"--{old}".replace("_", "-"): f"--{new}".replace("_", "-") for old, new in RENAMED.items()
}
"""Options that other commands name differently, or that have a new name."""


@contextlib.contextmanager
def _harmless_usage() -> Iterator[None]:
    """Escape Typer's messages, which quote the command line, and hide secrets in them."""
    try:
        yield
    except Exception as e:
        if hasattr(e, "format_message"):  # a UsageError of Typer or Click
            vars(e)["message"] = harmless(public_text(str(getattr(e, "message", ""))))
        option = str(getattr(e, "option_name", ""))
        # a command that took several folders in earlier releases
        typed = "DIR DIR" if "extra argument" in str(getattr(e, "message", "")) else option
        other = _OTHER_NAME.get(option)
        of_command = gone(f"{getattr(getattr(e, 'ctx', None), 'info_name', '')} {typed}")
        if sentence := of_command or gone(option.removeprefix("--").replace("-", "_")):
            vars(e).update(message=sentence, possibilities=[])
        elif other and any(other in p.opts for p in vars(e)["ctx"].command.params):
            vars(e)["possibilities"] = [other]
        elif option and not vars(e).get("possibilities") and (having := _commands_with(option)):
            vars(e)["message"] += f". Commands that have it: {', '.join(having)}"
        raise


def _commands_with(option: str) -> list[str]:
    """The commands that have an option."""
    return [n for n in _OURS if any(option in p.opts for p in _built(n).params)]


app = typer.Typer(
    name="corpusfit",
    cls=_Commands,
    help="Find the part of a corpus that is like your task.",
    epilog="Begin with: corpusfit demo",
    no_args_is_help=True,
    **{**SETTINGS, "add_completion": True},
)


def _show_version(asked: bool) -> None:
    if asked:
        from corpusfit.core.manifest import versions
        from corpusfit.embed.hardware import found_devices

        found = versions()
        typer.echo(f"corpusfit {corpusfit.__version__}")
        typer.echo(f"Python {found['python']}")
        for name in ("torch", "transformers"):
            typer.echo(f"{name} {found.get(name, 'not installed')}")
        typer.echo(f"devices {', '.join(found_devices())}")
        raise typer.Exit


@app.callback()
def _corpusfit(
    *,
    version: Annotated[
        bool,
        typer.Option(
            "--version", help="Show versions and devices", callback=_show_version, is_eager=True
        ),
    ] = False,
) -> None:
    """Typer builds a group only of an app that has a callback or commands."""


def _show_traceback(*error: Any) -> None:
    """Print the traceback of a bug, without secrets of URLs that a library quotes."""
    sys.stderr.write(public_text("".join(traceback.format_exception(*error))))


def run() -> None:
    """Run a command line and exit with its code; wrong usage is worded by Typer, with code 2."""
    sys.excepthook = _show_traceback
    try:
        app()
    except CorpusfitError as e:
        say(f"Error: {e}")
        sys.exit(e.exit_code)
    except OSError as e:
        if e.errno != errno.ENAMETOOLONG:
            raise
        say(f"Error: {str(e.filename)[:80]}… is too long for a name. Name a file that exists.")
        sys.exit(UsageError.exit_code)
    except SystemExit as e:
        if e.code in (STOPPED, TERMINATED):
            say("Stopped. A command that writes to a folder resumes when it is run again.")
        raise
