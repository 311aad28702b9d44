"""The rules of style that `make lint` checks by syntax."""

import ast
import importlib.util
from pathlib import Path

import pytest

PATH = Path(__file__).parents[2] / ".ci/style.py"
HANDLER = """
from corpusfit.core.errors import InputError
try:
    read()
except {caught} as e:
    {statement}
"""


@pytest.fixture(scope="module")
def style():
    spec = importlib.util.spec_from_file_location("style_of_the_code", PATH)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def rules(style, code):
    return {rule for _, rule in style.complaints(ast.parse(code))}


@pytest.mark.parametrize(
    ("statement", "rule"),
    [
        ("e.args = (f'In a file: {e}',)", "ARGS"),
        ("raise KeyError(e.args[0]) from e", "ARGS"),
        ("found = str(e).startswith('No row')", "TEXT"),
        ("first = str(e).partition(': ')[0]", "TEXT"),
        ("found = 'No row' in str(e)", "TEXT"),
    ],
)
def test_an_error_of_ours_is_known_by_its_type_and_its_fields(style, statement, rule):
    code = HANDLER.format(caught="(OSError, InputError)", statement=statement)
    assert rules(style, code) == {getattr(style, rule)}


@pytest.mark.parametrize("statement", ["say(f'Read on: {e}')", "raise", "found = e.row in rows"])
def test_an_error_may_be_said_and_asked(style, statement):
    assert not rules(style, HANDLER.format(caught="InputError", statement=statement))


def test_the_text_of_an_error_of_a_library_may_be_all_that_there_is(style):
    code = HANDLER.format(caught="RuntimeError", statement="found = 'out of memory' in str(e)")
    assert not rules(style, code)


@pytest.mark.parametrize(
    ("code", "saves"),
    [
        ("a, b = 1, f(2)", True),
        ("a, b = b, a", False),
        ("a, b = 1, f(a)", False),
        ("a, b = f()", False),
        ("a, b = 1, *c", False),
        ("a.x, b = 1, 2", False),
        ("a = 1, 2", False),
    ],
)
def test_a_statement_assigns_one_value(style, code, saves):
    assert rules(style, code) == ({style.PAIR} if saves else set())
