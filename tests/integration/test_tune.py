"""`tune` from end to end: what it finds and leaves, that it resumes exactly, and what it refuses."""

from __future__ import annotations

import dataclasses
import json
import shutil
import time

import pytest
from journeys import digests, prose

import corpusfit
from corpusfit.engine import Progress
from corpusfit.errors import ChangedInputError, InputError, UsageError

pytest.importorskip("accelerate", reason="the extra train is not installed")
ON_CPU = ["train.device=cpu", "train.precision=fp32", "search.least=3", "search.evaluations=2"]


@pytest.fixture
def tune(tmp_path, inline, tiny_lm, task, pile):
    """`tune` in this process, with trials of a few steps of four sequences of 32 tokens."""

    def tune(out="out", **words):
        given = {"target": task, "corpus": pile, "budget": "54 steps", "methods": ["moore_lewis"]}
        given |= {"model": str(tiny_lm), "batch": 4, "length": 32, "rate": 1e-2}
        given |= {"fractions": [0.2, 0.5], "machine": inline}
        settings = [*ON_CPU, *words.pop("settings", ())]
        return corpusfit.tune(out=tmp_path / out, settings=settings, **(given | words))

    return tune


def test_it(tune):
    run = tune()
    print(json.dumps(run.manifest["trials"], indent=0))
    print(run.manifest["conclusions"])
    print(run.winner, run.trials()[0])
    assert 0
