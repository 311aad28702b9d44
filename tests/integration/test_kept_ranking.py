"""The ranking behind `auto` is kept in the cache for the next command on the same samples."""

from __future__ import annotations

import dataclasses

import pytest
from journeys import digests

import corpusfit
from corpusfit.workflows.selection import auto


class RankedAgainError(Exception):
    """The methods were ranked a second time."""


@pytest.fixture
def selected(task, pile, tmp_path, inline, tiny_static, monkeypatch):
    """`select` with `auto`, of which only the first may rank."""
    on = dataclasses.replace(inline, cache=tmp_path / "cache")

    def selected(out, **words):
        given = {"target": task, "corpus": pile, "machine": on, "embedder": str(tiny_static)}
        found = corpusfit.select(out=tmp_path / out, **{**given, **words})
        monkeypatch.setattr(auto, "rank_methods", again)
        return found

    def again(*_, **__):
        raise RankedAgainError

    return selected


@pytest.mark.parametrize("contenders", [auto.CONTENDERS, ("knn",)])
def test_the_next_command_takes_the_ranking(selected, monkeypatch, contenders):
    monkeypatch.setattr(auto, "CONTENDERS", contenders)
    one, two = selected("one"), selected("two", fraction=0.3)
    for name in ("ranking", "method", "reason", "warnings"):
        assert one.manifest[name] == two.manifest[name], name
    assert digests(one.path / "scores") == digests(two.path / "scores")


@pytest.mark.parametrize(
    "words", [{"seed": 1}, {"budget": "1h"}, {"settings": ["fit.background=40"]}]
)
def test_other_samples_and_budgets_are_ranked_anew(selected, words):
    selected("one")
    with pytest.raises(RankedAgainError):
        selected("two", **words)
