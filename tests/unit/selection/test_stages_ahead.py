"""The stages that a selection announces are those that it runs."""

from __future__ import annotations

import dataclasses

import pytest

import corpusfit
from corpusfit.core.engine import Progress


class Stages(Progress):
    """Keeps the stages that were announced, and those that began."""

    def __init__(self):
        self.announced, self.begun = [], []

    def expect(self, stages):
        self.announced = [*stages]

    def begin(self, stage, total, unit="units"):
        self.begun.append(stage)


@pytest.fixture
def stages(jsonl, tmp_path, inline, tiny_static):
    words = [
        "binding",
        "kinase",
        "aspirin",
        "market",
        "shares",
        "model",
        "reads",
        "letters",
        "small",
        "receptor",
    ]
    texts = [" ".join(words[(i * j) % 10] for j in range(1, 9)) + f" {i}." for i in range(120)]
    target, corpus = jsonl("target.jsonl", texts[:30]), jsonl("corpus.jsonl", texts[20:])

    def select(**settings):
        seen = Stages()
        machine = dataclasses.replace(inline, progress=seen, cache=tmp_path / "cache")
        corpusfit.select(
            target=target, corpus=corpus, out=tmp_path / "out", machine=machine, **settings
        )
        return seen

    return select


@pytest.mark.parametrize("method", ["random", "ngram_coverage", "cynical", "textrank", "knn"])
def test_what_is_announced_is_what_runs(stages, method, tiny_static):
    seen = stages(method=method, embedder=f"static:{tiny_static}")
    assert seen.begun == seen.announced


def test_of_a_cascade_all_that_is_announced_runs_in_order(stages, tiny_static):
    seen = stages(cascade=f"tfidf>static:{tiny_static}", method="knn")
    begun = iter(seen.begun)
    assert all(stage in begun for stage in seen.announced)
    assert seen.announced[-1] == seen.begun[-1]
