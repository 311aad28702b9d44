"""Check two rules of style by the syntax of the code; part of `make lint`.

What an error or a warning is, its type and its fields say: its text is neither taken apart nor
rewritten. And a statement assigns one value, unless the values depend on each other. Prints one
line for each statement that breaks a rule, and exits with 1 if there is any.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
CHECKED = ("src", "papers/src", "benchmarks", ".ci")
TAKES_APART = {"startswith", "endswith", "partition", "rpartition", "split", "replace", "find"}
"""Methods of strings by which a text is read back, or rewritten."""
ARGS = "args of a caught error: give the error a field"
TEXT = "the text of an error of ours is taken apart: give the error a field or a type"
PAIR = "several assignments in one statement: write one each"


def complaints(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """The line and the rule of each statement that breaks one."""
    ours = _own_errors(tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.ExceptHandler) and node.name:
            yield from _of_handler(node, ours)
        elif isinstance(node, ast.Assign) and _saves_a_line(node):
            yield node.lineno, PAIR


def _own_errors(tree: ast.Module) -> set[str]:
    """The names of errors that a file imports from this project, or defines."""
    names = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("corpusfit"):
            names |= {alias.asname or alias.name for alias in node.names}
        elif isinstance(node, ast.ClassDef):
            names.add(node.name)
    return {name for name in names if name.endswith("Error")}


def _of_handler(handler: ast.ExceptHandler, ours: set[str]) -> Iterator[tuple[int, str]]:
    """What is done with a caught error that its type or its fields should say."""
    types = ast.walk(handler.type) if handler.type else ()
    caught = {node.id for node in types if isinstance(node, ast.Name)}
    for statement in handler.body:
        for node in ast.walk(statement):
            if isinstance(node, ast.Attribute) and node.attr == "args":
                if _is_name(node.value, handler.name):
                    yield node.lineno, ARGS
            elif caught & ours and _reads_text(node, handler.name):
                yield node.lineno, TEXT


def _reads_text(node: ast.AST, error: str | None) -> bool:
    """Whether a node looks for something in the text of an error."""
    if isinstance(node, ast.Attribute):
        return node.attr in TAKES_APART and _is_text(node.value, error)
    if isinstance(node, ast.Compare) and isinstance(node.ops[0], ast.In | ast.NotIn):
        return _is_text(node.comparators[0], error)
    return False


def _is_text(node: ast.expr, error: str | None) -> bool:
    """Whether a node is `str(error)`."""
    called = isinstance(node, ast.Call) and _is_name(node.func, "str") and len(node.args) == 1
    return called and _is_name(node.args[0], error)


def _is_name(node: ast.expr, name: str | None) -> bool:
    return isinstance(node, ast.Name) and node.id == name


def _saves_a_line(node: ast.Assign) -> bool:
    """Whether plain names get values that could as well be assigned one after the other."""
    target = node.targets[0]
    if not (isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple)):
        return False
    values = node.value.elts
    names = [each.id for each in target.elts if isinstance(each, ast.Name)]
    if not len(names) == len(target.elts) == len(values):
        return False
    return not any(
        isinstance(inner, ast.Starred) or (isinstance(inner, ast.Name) and inner.id in names[:i])
        for i, value in enumerate(values)
        for inner in ast.walk(value)
    )


def main() -> int:
    """Print the complaints; 1 if there are any."""
    found = 0
    for path in sorted(path for folder in CHECKED for path in (ROOT / folder).rglob("*.py")):
        for line, rule in complaints(ast.parse(path.read_text("utf-8"))):
            print(f"{path.relative_to(ROOT)}:{line}: {rule}")
            found += 1
    return int(found > 0)


if __name__ == "__main__":
    sys.exit(main())
