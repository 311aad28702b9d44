"""The arithmetic of benchmarks/benefit*.py against closed forms and SciPy."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest
from scipy.stats import spearmanr

import benefit_cells as cells
import benefit_tables as tables
import peers
from harness import put


def cell(bits, fall, precision=0.5):
    losses = {"loss_before": 4.0, "loss_after": 4.0 - fall}
    return {"bits": bits, "precision": precision, "commit": "abc", **losses}


def results(measured):
    protocol = {"model": "m", "steps": 2, "batch": 1, "length": 8, "rate": 0.1}
    return {
        "protocol": {**protocol, "share": 0.1, "heldout": 9, "embedder": "static"},
        "targets": {"a/0": {"train": 3, "evaluated": 2}},
        "verdicts": {"a/0": {"x": {"agreement": 0.9, "f1": 0.1}}},
        "cells": measured,
    }


FALLS = {"a/C": {"x": 0.3, "y": 0.1, "random": 0.0}, "b": {"x": 0.2, "y": 0.5, "random": -0.1}}
BITS = {"a/C": {"x": 9.0, "y": 8.0, "random": 12.0}, "b": {"x": 9.5, "y": 9.0, "random": 9.9}}


def grid(seeds=1):
    return {
        f"{t}/{m}/{s}": cell(BITS[t][m], fall + s)
        for t, of in FALLS.items()
        for m, fall in of.items()
        for s in range(seeds)
    }


def test_regret_is_what_the_best_method_would_have_added():
    fall = np.array([[0.3, 0.1, 0.2], [0.0, 0.5, 0.4]])
    assert tables.regret(fall, np.array([2, 1])) == pytest.approx([0.1, 0.0])


def test_choice_is_the_best_known_and_passes_over_what_is_unknown():
    assert tables.chosen(np.array([[-9.0, -8.0, np.nan], [2.0, 2.0, 1.0]])).tolist() == [
        1,
        0,
    ]


def test_correlation_of_one_target_is_scipys_spearman():
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(2, 1, 9))
    assert tables.within_targets(x, y).pearson == pytest.approx(spearmanr(x[0], y[0]).statistic)


def test_correlation_within_targets_ignores_differences_between_targets():
    rng = np.random.default_rng(1)
    x, y = rng.normal(size=(2, 4, 7))
    apart = np.array([[0.0], [50.0], [-100.0], [7.0]])
    each = [spearmanr(a, b).statistic for a, b in zip(x, y, strict=True)]
    assert tables.within_targets(x + apart, y - apart).pearson == pytest.approx(np.mean(each))


def test_block_leaves_out_a_method_that_would_cost_more_cells_than_it_adds():
    block = [(t, m, s) for t in "abc" for m in "xy" for s in "01"] + [("a", "z", "0")]
    methods, groups = tables.largest_block(block)
    assert methods == ["x", "y"]
    assert groups == [(t, s) for t in "abc" for s in "01"]


def test_block_of_nothing_is_empty():
    assert tables.largest_block([]) == ([], [])


def test_seeds_of_a_target_are_averaged():
    block = tables.Block.of(results(grid(seeds=3)))
    assert (block.targets, block.seeds) == (["a/C", "b"], [3, 3])
    assert block.fall == pytest.approx(np.array([list(of.values()) for of in FALLS.values()]) + 1)


def test_interval_of_equal_values_has_no_width():
    assert tables.interval(np.full(5, 0.25)) == (0.25, 0.25)


def test_tables_state_regret_by_bits_and_of_each_method():
    rows = [line.split(" | ") for line in tables.tables(results(grid()), "a").splitlines()]
    said = {row[0]: row for row in rows if len(row) > 4}
    assert said["| by bits per word of unseen target text"][1:4:2] == ["0.300", "25%"]
    assert said["| always `x`"][1] == "0.250"
    assert said["| the best of each target (oracle)"][1] == "0.400"


def test_tables_of_a_file_without_cells_and_with_gaps():
    gaps = grid()
    del gaps["b/y/0"]
    assert "–" in tables.tables(results(gaps), "a")
    assert tables.tables(results({}), "a").startswith("## a\n")


def test_a_part_of_a_page_replaces_its_last_version(tmp_path):
    page = tmp_path / "page.md"
    for part in ("# A page\n\nFor all.\n", "## a\n\n1\n\n### b\n", "## b\n\n2\n", "## a\n\n3\n"):
        put(page, part)
    assert page.read_text() == "# A page\n\nFor all.\n\n## a\n\n3\n\n## b\n\n2\n"


def test_segments_are_selected_until_the_next_does_not_fit():
    documents = {"a": ["one two three", "", "four"], "b": ["five six seven"]}
    columns = {
        "source": ["a", "a", "a", "b"],
        "row": [0, 0, 2, 0],
        "start": [0, 4, 0, 0],
        "end": [3, 13, 4, 14],
        "score": [0.1, 0.7, 0.7, 0.2],
    }
    scored = SimpleNamespace(scores=lambda: [pa.table(columns)])
    texts, sources = cells.taken(scored, documents, budget=5)
    assert texts == ["two three", "four"]
    assert sources.tolist() == ["a", "a"]


RNG = np.random.default_rng(0)
TOPIC, OTHER = ([f"{letter}{i}" for i in range(40)] for letter in "at")
WANTED = [" ".join(RNG.choice(TOPIC, 30)) for _ in range(40)]
TEXTS = [" ".join(RNG.choice(of, n)) for n in (60, 130) for of in (TOPIC, OTHER) for _ in range(25)]
NEEDS = {"peer_dsir": "data_selection", "peer_fasttext": "fasttext"}


@pytest.mark.parametrize(
    "name",
    [
        "peer_dsir",
        pytest.param("peer_fasttext", marks=pytest.mark.long),
    ],
)
def test_peer_scores_every_text_and_gets_the_same_budget(name):
    if name in NEEDS:
        pytest.importorskip(NEEDS[name])
    columns = {
        "source": ["a"] * len(TEXTS),
        "row": list(range(len(TEXTS))),
        "start": [0] * len(TEXTS),
        "end": [len(text) for text in TEXTS],
        "score": np.zeros(len(TEXTS)),
    }
    scored = SimpleNamespace(scores=lambda: [pa.table(columns)])
    peer = peers.peer_of(name, WANTED, seed=0)
    scores = peer(TEXTS)
    assert scores.shape == (len(TEXTS),)
    assert np.isfinite(scores).all()
    assert (peer(TEXTS) == scores).all()
    texts, _ = cells.taken(scored, {"a": TEXTS}, 1_500, peer)
    assert 1_500 - 130 < sum(len(text.split()) for text in texts) <= 1_500
    assert np.mean([text[0] == "a" for text in texts]) > 0.7


def test_peers_are_not_ranked():
    assert not {*cells.ranked(["random", *cells.PEERS])} & {*cells.PEERS}


def test_dev_texts_of_train_are_left_out_whatever_their_tokenisation():
    train = ["The << drug >> does n't help .", "other"]
    assert cells.dev_apart(["The drug doesn't help.", "new"], train) == ["new"]


def test_dev_texts_inside_a_document_are_left_out():
    held = "a sentence of more than eight different words that is somewhere else too"
    documents = {"a": ["unrelated"], "b": [f"Before it. {held.capitalize()}. After it."]}
    assert cells.outside(["short text", held], documents) == ["short text"]


def test_bits_of_one_word_under_a_uniform_model():
    """Texts without any word of the model: each costs the same share of a larger vocabulary."""
    texts = ["b c d"] * 3
    few, many = (cells.bits(texts, ["x y z"], size) for size in (1_000, 2_000))
    assert many - few == pytest.approx(3 / 4, abs=0.01)
