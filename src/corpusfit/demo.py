"""Text for `corpusfit demo`: docstrings of Python's standard library, by family of modules.

What: parses the library's source files (nothing is imported), writes one `.jsonl` a family as the
corpus and a small task taken from one family.
Why: every Python has this text, and its true domain is known, so the selection can be checked.
Trade-off: docstrings of one project share a style, which makes the families harder to tell apart
than real domains; the figures are for looking at, not for comparing tools.
"""

from __future__ import annotations

import ast
import random
import sysconfig
from collections.abc import Iterator
from pathlib import Path

import orjson

from corpusfit.artifacts import write_bytes

__all__ = ["FAMILIES", "TARGET_FAMILY", "docstrings", "write_demo_text"]

FAMILIES = {
    "network": "http urllib email smtplib imaplib poplib ftplib socket socketserver ssl xmlrpc",
    "gui": "tkinter turtle",
    "concurrency": "asyncio threading multiprocessing concurrent queue sched",
    "testing": "unittest doctest pdb bdb trace",
    "files": "os shutil pathlib tempfile zipfile tarfile glob fileinput gzip lzma bz2",
    "numbers": "statistics fractions decimal _pydecimal random numbers datetime calendar",
    "code": "ast inspect dis tokenize traceback typing importlib pkgutil symtable codeop",
    "text": "json csv xml html configparser string textwrap difflib locale gettext argparse",
}
"""Families of modules and what belongs to each: the demo's domains."""

TARGET_FAMILY = "network"
_TARGET_TEXTS = 100
_MOST = 350
_SHORTEST = 60


def write_demo_text(folder: Path, *, seed: int) -> tuple[Path, Path]:
    """Write `task.jsonl` and `corpus/FAMILY.jsonl`; the task's texts are not in the corpus.

    Returns:
        The task's path and the corpus's folder.
    """
    chance = random.Random(seed)
    for family, modules in FAMILIES.items():
        texts = sorted(set(docstrings(modules.split())))
        chance.shuffle(texts)
        if family == TARGET_FAMILY:
            _write(folder / "task.jsonl", texts[:_TARGET_TEXTS])
            texts = texts[_TARGET_TEXTS:]
        _write(folder / "corpus" / f"{family}.jsonl", texts[:_MOST])
    return folder / "task.jsonl", folder / "corpus"


def docstrings(modules: list[str]) -> Iterator[str]:
    """Docstrings of at least some length, of modules, classes and functions."""
    library = Path(sysconfig.get_paths()["stdlib"])
    for module in modules:
        base = library / module
        files = sorted(base.rglob("*.py")) if base.is_dir() else [base.with_suffix(".py")]
        for file in files:
            if not file.exists() or "test" in file.relative_to(library).parts:
                continue
            for node in ast.walk(ast.parse(file.read_bytes())):
                if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
                    text = ast.get_docstring(node)
                    if text and len(text) >= _SHORTEST:
                        yield text


def _write(path: Path, texts: list[str]) -> None:
    write_bytes(path, b"".join(orjson.dumps({"text": t}) + b"\n" for t in texts))
