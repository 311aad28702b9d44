"""The judge of benchmarks/cuts.py against what must hold of probabilities, and its rule."""

from __future__ import annotations

import numpy as np
import pytest

import cuts
import cuts_tables
from trigram import BORDER as B
from trigram import Trigram, judged


def test_chances_of_all_words_add_up_to_one_after_every_context():
    words = np.random.default_rng(0).integers(3, 9, 400)
    text = np.concatenate([[B, B, *part] for part in np.split(words, 20)])
    model = Trigram(text, vocabulary=12)  # numbers 3 to 14, six of them unseen

    for context in ([], [4], [14], [4, 5], [14, 5]):
        every = [model.bits(np.array([B, B, *context, word]))[-1] for word in range(3, 15)]
        assert (2.0 ** -np.array(every)).sum() == pytest.approx(1)


def test_a_repeated_trigram_has_the_chance_of_the_formula():
    # "3 4 5" four times: 5 follows "3 4" always; with too few counts a count of 4 loses 1.5
    text = np.array([B, B, 3, 4, 5] * 4)
    model = Trigram(text, vocabulary=10)

    last = 2.0 ** -model.bits(np.array([B, B, 3, 4, 5]))[-1]

    single = (1 - 0.5 + 3 * 0.5 / 10) / 3  # three types, each after one word
    pair = 0.5 + 0.5 * single
    assert last == pytest.approx((4 - 1.5 + 1.5 * pair) / 4)


def test_words_across_the_borders_of_texts_do_not_count():
    model = Trigram(np.array([B, B, 3, 4, B, B, 5, 6]), vocabulary=10)

    after, first = (model.bits(np.array(text))[-1] for text in ([B, B, 4, 5], [B, B, 5]))

    assert after == first


def test_the_judge_takes_exactly_as_many_words_and_refuses_too_few():
    texts = ["one two three four", "five six"]

    assert judged(texts, ["one two"], 10, 5) != judged(texts, ["one two"], 10, 4)
    assert judged(texts, ["six"], 10, 5) == judged([*texts[:1], "five"], ["six"], 10, 5)
    with pytest.raises(ValueError, match="6 words"):
        judged(texts, ["one"], 10, 7)


def test_the_rule_takes_the_nearest_size_between_its_bounds():
    assert [cuts_tables.followed(n, cuts.FOLLOWED) for n in (8, 50, 75, 110, 150, 240, 900)] == [
        *(48, 48, 64, 96, 128, 256, 256),
    ]


def test_a_training_text_is_cut_to_the_word():
    assert cuts.first_words(["a b", "c d e", "f"], 4) == ["a b", "c d"]


def cell(target, cut, number, *, median=100, seed=0):
    made = {"task": target, "seed": seed, "median": median, "column": f"cynical@{cut}"}
    return made | {"result": {"nats": number}}


def test_the_cut_that_follows_is_the_one_of_each_target():
    cells = [cell("a", "256x15", 3.0), cell("a", "96x1", 2.5), cell("a", "64x1", 2.0)]
    cells += [cell("b", "256x15", 4.0, median=9), cell("b", "48x1", 3.75, median=9)]

    values = cuts_tables.values_of(cells, "", cuts.FOLLOWED)

    assert cuts_tables.differences(values, "follow").tolist() == [[-0.5], [-0.25]]
    assert cuts_tables.differences(values, "64x1").tolist() == [[-1.0]]
    assert cuts_tables.cuts_of(values) == ["256x15", "follow", "96x1", "64x1", "48x1"]


def test_differences_are_paired_within_a_draw():
    cells = [cell("a", "256x15", 3.0), cell("a", "64x1", 2.0), cell("a", "64x1", 9.0, seed=1)]

    values = cuts_tables.values_of(cells, "", cuts.FOLLOWED)

    assert cuts_tables.differences(values, "64x1")[0, 0] == -1.0
    assert np.isnan(cuts_tables.differences(values, "64x1")[0, 1])
