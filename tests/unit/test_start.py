"""What a command imports before it knows what to do: nothing heavy."""

import re
import subprocess
import sys

import pytest

import corpusfit

HEAVY = ("numpy", "pyarrow", "numba", "torch", "transformers", "sklearn", "scipy", "jinja2")


def loaded(program, *args):
    """Exit code, standard error, and the modules that a program in a new process ends with."""
    ending = "import atexit, sys; atexit.register(lambda: print(*sys.modules, file=sys.stdout))\n"
    done = subprocess.run(
        [sys.executable, "-c", ending + program, *args], check=False, capture_output=True, text=True
    )
    return done.returncode, done.stderr, set(done.stdout.splitlines()[-1].split())


def heavy(modules):
    """Those of the heavy libraries that are among some modules."""
    return [name for name in HEAVY if name in modules]


def test_the_package_loads_no_module_of_its_own():
    """Public names load on first use."""
    code, err, modules = loaded("import corpusfit")
    assert code == 0, err
    assert not heavy(modules)
    assert [name for name in modules if name.startswith("corpusfit.")] == []


@pytest.mark.parametrize("words", [["--help"], ["select", "--help"]])
def test_help_imports_nothing_to_draw_or_to_read_settings_with(words):
    code, err, modules = loaded("from corpusfit.cli import main; main()", *words)
    assert (code, err) == (0, "")
    assert [name for name in ("rich", "tomllib", *HEAVY) if name in modules] == []


WRONG = {
    "select --nosuch": "--nosuch",
    "nosuch": "nosuch",
    "select --target a --corpus b --out c --method izolation_forest": "izolation",
    "select --target a --corpus b --out c --fraction 1.5": "1.5",
    "adapt --data a --out c --model m --objective nosuch": "nosuch",
    "evaluate --model m --task t --out c --set finetune.nosuch=1": "nosuch",
    "tune --model m": "corpusfit fit",
}


def test_wrong_usage_is_found_before_anything_heavy_is_imported():
    """Help and wrong commands one after the other, in one process."""
    program = """
import sys
from corpusfit.cli import main
for line in sys.argv[1:]:
    sys.argv = ["corpusfit", *line.split()]
    try:
        main()
    except SystemExit as e:
        print(e.code, file=sys.stderr)
"""
    code, err, modules = loaded(program, "--help", "select --help", *WRONG)
    assert (code, heavy(modules)) == (0, [])
    said = re.split(r"^(\d)\n", err, flags=re.M)
    assert said[1::2] == ["0", "0", *"2" * len(WRONG)]
    assert said[0] == said[2] == ""
    assert all(word in each for word, each in zip(WRONG.values(), said[4::2], strict=False))


def test_an_interrupt_during_the_imports_ends_without_a_traceback():
    """As a shell expects after Ctrl-C: 128 + SIGINT."""
    program = """
import builtins
plain = builtins.__import__
def interrupted(name, *args, **words):
    if name == "typer":
        raise KeyboardInterrupt
    return plain(name, *args, **words)
builtins.__import__ = interrupted
from corpusfit.cli import main; main()
"""
    code, err, _ = loaded(program, "methods")
    assert (code, err) == (130, "")


def test_every_public_name_loads():
    """The stub names what is there, and nothing else is listed."""
    assert {name for name in corpusfit.__all__ if getattr(corpusfit, name, None) is None} == set()
    assert dir(corpusfit) == sorted(corpusfit.__all__)
    with pytest.raises(AttributeError, match="nosuch"):
        _ = corpusfit.nosuch


@pytest.mark.slow  # it imports everything
def test_no_module_needs_what_windows_lacks():
    """Every module loads without `resource`, `fcntl`, `pwd`, `grp` and `termios`."""
    program = """
import importlib, pkgutil, sys
try:
    from transformers import Trainer  # whose libraries ask the platform what they may need
except ImportError:
    pass
for name in ("resource", "fcntl", "pwd", "grp", "termios"):
    sys.modules[name] = None
import corpusfit
for module in pkgutil.walk_packages(corpusfit.__path__, "corpusfit."):
    if not module.name.endswith("__main__"):
        try:
            importlib.import_module(module.name)
        except ModuleNotFoundError as e:
            if e.name in ("resource", "fcntl", "pwd", "grp", "termios") or e.name is None:
                raise
"""
    code, err, _ = loaded(program)
    assert code == 0, err
