"""What other packages may build on."""

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import corpusfit
from corpusfit import contracts
from corpusfit.contracts import check_method
from corpusfit.scoring.methods import knn

STUB = Path(contracts.__file__).with_suffix(".pyi").read_text("utf-8")


def test_every_name_is_there_and_says_what_it_is_for():
    lines = [line for line in STUB.splitlines() if line.startswith("from ")]
    assert all(re.fullmatch(r"from \S+ import (\w+) as \1  # .+", line) for line in lines)
    assert len(lines) == len(contracts.__all__) <= 80
    assert all(getattr(contracts, name) is not None for name in contracts.__all__)


def test_public_names_are_not_those_of_the_contracts():
    """`Scorer` is the estimator for users and the fitted method of a contract."""
    assert contracts.Scorer is not corpusfit.Scorer
    assert corpusfit.Scorer.__module__.endswith("estimator")


def test_methods_are_written_without_torch():
    """Names are loaded when they are used."""
    code = (
        "import sys; from corpusfit.contracts import Method, check_method, ngrams, products\n"
        "assert not {'torch', 'transformers', 'sklearn'} & {*sys.modules}"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize("broken", ["of the batch", "of chance", "not finite"])
def test_a_method_that_breaks_a_promise_is_found(monkeypatch, broken):
    scored = knn.KnnScorer.score
    times = iter(range(100))
    breaks = {
        "of the batch": lambda scores: scores + len(scores),
        "of chance": lambda scores: scores + next(times),
        "not finite": lambda scores: scores * np.float32("nan"),
    }
    check_method("knn", k=2)
    monkeypatch.setattr(knn.KnnScorer, "score", lambda self, x: breaks[broken](scored(self, x)))
    with pytest.raises(AssertionError):
        check_method("knn", k=2)
