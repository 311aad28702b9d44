"""Text for `corpusfit demo`: docstrings of Python's standard library, by family of modules."""

from __future__ import annotations

import ast
import random
import sysconfig
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path

import orjson

from corpusfit.core.artifacts import write_bytes

TARGET_FAMILY = "network"

FAMILIES = {
    TARGET_FAMILY: "http urllib xmlrpc email smtplib imaplib poplib socket socketserver ssl ftplib",
    "gui": "tkinter turtle",
    "concurrency": "asyncio threading multiprocessing concurrent queue sched",
    "testing": "unittest doctest pdb bdb trace",
    "files": "os shutil pathlib tempfile zipfile tarfile glob fileinput gzip lzma bz2",
    "numbers": "statistics fractions decimal _pydecimal random numbers datetime calendar",
    "code": "ast inspect dis tokenize traceback typing importlib pkgutil symtable codeop",
    "text": "json csv xml html configparser string textwrap difflib locale gettext argparse",
}
"""The demo's domains: families of modules."""

_SPLITS = {"train": 100, "test": 180}
_MAX_ROWS = 350
_MIN_CHARACTERS = 60


def write_demo_text(folder: Path, *, seed: int) -> tuple[Path, Path]:
    """Write `task/SPLIT.jsonl` and `corpus/FAMILY.jsonl`; the task's texts are not in the corpus.

    Docstrings of one project share a style, which makes the families harder to distinguish than
    real domains: the demo's figures are no comparison of tools.

    Returns:
        The folders of the task and of the corpus.
    """
    rng = random.Random(seed)
    task = folder / "task"
    corpus = folder / "corpus"
    for family, modules in FAMILIES.items():
        texts = sorted(set(docstrings(modules.split())))
        rng.shuffle(texts)
        rest = iter(texts)
        for split, n in _SPLITS.items() if family == TARGET_FAMILY else ():
            _write(task / f"{split}.jsonl", islice(rest, n))
        _write(corpus / f"{family}.jsonl", islice(rest, _MAX_ROWS))
    return task, corpus


def docstrings(modules: list[str]) -> Iterator[str]:
    """The longer docstrings of modules, classes and functions; nothing is imported."""
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
                    if text and len(text) >= _MIN_CHARACTERS:
                        yield text


def _write(path: Path, texts: Iterable[str]) -> None:
    write_bytes(path, b"".join(orjson.dumps({"text": text}) + b"\n" for text in texts))
