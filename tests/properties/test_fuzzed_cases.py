"""The kept cases of `benchmarks/torture` are refused, or read and hold their property."""

import importlib.util
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "benchmarks/torture"
CASES = sorted(FOLDER.glob("cases/*/*"))


@pytest.fixture(scope="module")
def targets():
    spec = importlib.util.spec_from_file_location("torture_targets", FOLDER / "targets.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.parent.name}-{case.name}")
def test_a_case_is_an_answer(targets, case):
    targets.attempt(case.parent.name, case.read_bytes())
