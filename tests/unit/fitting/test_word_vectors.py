"""The score of word vectors in a fit: equal words, no held-out text, and computed once."""

from __future__ import annotations

import json

import numpy as np
import pytest

from corpusfit.core.engine import Progress
from corpusfit.evaluation.task import Examples, Task
from corpusfit.fitting import vectors
from corpusfit.fitting.vectors import AMOUNTS, EARLY, SHARES, VectorScore

KINDS = ("fruit", "car")


def texts_of(n, seed, kinds=KINDS):
    """Texts about one thing each, whose words stand among their own kind."""
    rng = np.random.default_rng(seed)
    drawn = [rng.integers(0, 150, 12) for _ in range(n)]
    return [" ".join(f"{kinds[i % len(kinds)]}{w}" for w in row) for i, row in enumerate(drawn)]


@pytest.fixture(scope="module")
def task():
    # of each word of train, test has none
    rows = {"train": range(75), "test": range(75, 150)}
    splits = {
        name: Examples(
            [[f"{kind}{word} {kind}{word - 1}"] for word in words for kind in KINDS],
            [[label] for _ in words for label in (0, 1)],
        )
        for name, words in rows.items()
    }
    return Task(
        "things", "classification", KINDS, 2, splits["train"], splits["test"], splits["test"]
    )


@pytest.fixture
def score(task, tmp_path):
    return VectorScore(task, "accuracy", 0, tmp_path / "vectors.json")


def test_the_gain_over_text_of_other_words_is_shown_at_each_amount(score):
    selected = texts_of(2_000, 0)
    others = [texts_of(2_000, seed, kinds=("planet",)) for seed in range(3)]

    score.measure(AMOUNTS, selected, others, Progress())

    facts = score.facts()
    most = facts["gains"][-1]["words"]
    assert most == 2_000 * 12
    amounts = [round(share * most) for share in SHARES]
    wanted = [n for n in amounts if n >= vectors.FEWEST_WORDS]
    assert [gain["words"] for gain in facts["gains"]] == wanted
    for gain in facts["gains"]:
        assert gain["over_random"]["mean"] == pytest.approx(gain["selection"] - gain["random"])
        assert gain["over_random"]["low"] > 0
        assert gain["random"] == 0.5  # one answer to all


def test_as_many_words_are_compared_as_the_smallest_text_has(score):
    others = [texts_of(n, seed) for seed, n in enumerate((900, 600, 800))]

    score.measure(EARLY, texts_of(2_000, 0), others, Progress())

    assert f"{600 * 12:,} selected words" in score.sentence(EARLY)


def test_texts_with_a_held_out_text_are_not_learned_from(task, tmp_path):
    """A test text of many words, in the middle of a selected one."""
    held = " ".join(f"fruit{n}" for n in range(40))
    longer = Examples([[held]], [[0]])
    asked = Task("things", "classification", KINDS, 2, task.train, longer, longer)
    score = VectorScore(asked, "accuracy", 0, tmp_path / "vectors.json")
    selected = texts_of(600, 0)
    leaked = [*selected, *[f"before {held} after"] * 50]

    score.measure(EARLY, leaked, [leaked] * 3, Progress())

    assert json.loads((tmp_path / "vectors.json").read_text())[EARLY][0]["words"] == 600 * 12


def test_what_was_measured_is_kept(score, monkeypatch):
    texts = texts_of(600, 0)
    score.measure(EARLY, texts, [texts] * 3, Progress())
    before = score.sentence(EARLY)

    score.measure(EARLY, [], [[]] * 3, Progress())

    assert score.sentence(EARLY) == before
    assert score.facts() == {}  # of several amounts nothing is known yet


def test_too_few_words_have_no_score(score):
    score.measure(EARLY, texts_of(20, 0), [texts_of(20, 1)] * 3, Progress())
    score.measure(AMOUNTS, texts_of(20, 0), [texts_of(20, 1)] * 3, Progress())

    assert "too few words" in score.sentence(EARLY)
    assert score.facts() == {}


def test_the_time_has_a_part_that_grows_with_the_words(score):
    around, each = score.seconds(texts_of(500, 0))
    assert around >= 0
    assert each > 0
