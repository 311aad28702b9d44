"""The score of word vectors: what it counts, what it learns, and bad input."""

from __future__ import annotations

import numpy as np
import pytest

from corpusfit.evaluation import vector_score
from corpusfit.evaluation.task import Examples, Task
from corpusfit.evaluation.vector_score import VectorTask, Words, WordVectors, answers
from corpusfit.kernels.skipgram import WIDTH


@pytest.fixture(scope="module")
def selection():
    """Texts about two things, whose words stand among their own kind."""
    # frequent words are left out by chance, so there are many words of each kind
    rng = np.random.default_rng(0)
    kinds = ("fruit", "car")
    return [" ".join(f"{kinds[i % 2]}{n}" for n in rng.integers(0, 200, 12)) for i in range(2_000)]


@pytest.fixture(scope="module")
def vectors(selection):
    return WordVectors.learned(Words.of(selection), 0)


TRAIN = ["fruit1 fruit2", "fruit3, fruit4", "car1 car2", "car3 of a car4"]
TEST = ["Fruit5 and fruit6", "car5/car6", "a fruit7 fruit8", "the car9 car8"]


def test_words_of_the_selection_generalize_to_others(vectors):
    given = answers(vectors, Words.of(TRAIN), ["fruit"] * 2 + ["car"] * 2, Words.of(TEST))

    assert given == ["fruit", "car", "fruit", "car"]


def test_labels_may_be_numbers(vectors):
    given = answers(vectors, Words.of(TRAIN), [10, 10, 2, 2], Words.of(TEST))

    assert given == [10, 2, 10, 2]


def test_classes_may_have_one_row_each(vectors):
    given = answers(vectors, Words.of(TRAIN), ["a", "b", "c", "d"], Words.of(TEST))

    assert set(given) <= {"a", "b", "c", "d"}


def test_a_text_is_the_mean_of_the_words_that_have_a_vector(vectors):
    words = Words.of(["fruit1 unknown car1 fruit1", "", "unknown"])

    means = vectors.means(words)

    fruit, car = (vectors.means(Words.of([word]))[0] for word in ("fruit1", "car1"))
    assert means.shape == (3, WIDTH)
    assert means[0] == pytest.approx((2 * fruit + car) / 3)
    assert not means[1:].any()


def test_words_that_no_selection_has_get_the_most_frequent_label(vectors):
    train = Words.of(["xx", "yy", "zz"])

    assert answers(vectors, train, ["b", "a", "b"], Words.of(["qq", ""])) == ["b", "b"]


@pytest.mark.parametrize("texts", [[], [""], ["one two three"]])
def test_a_selection_of_next_to_nothing_is_no_error(texts):
    learned = WordVectors.learned(Words.of(texts), 0)

    given = answers(learned, Words.of(TRAIN), ["a", "a", "a", "b"], Words.of(TEST))

    assert given == ["a"] * 4


def test_rows_of_one_label_and_no_test_rows(vectors):
    assert answers(vectors, Words.of(TRAIN[:2]), ["a", "a"], Words.of(TEST)) == ["a"] * 4
    assert answers(vectors, Words.of(TRAIN), ["a", "b", "b", "b"], Words.of([])) == []


def test_two_rows_of_a_class_and_a_test_set_of_twelve(vectors):
    given = answers(vectors, Words.of(TRAIN), ["x", "x", "y", "y"], Words.of(TEST * 3))

    assert given == ["x", "y", "x", "y"] * 3


def test_a_language_without_spaces():
    rng = np.random.default_rng(0)
    kinds = [chr(0x5000 + i) for i in range(200)], [chr(0x6000 + i) for i in range(200)]
    texts = ["".join(rng.choice(kinds[i % 2], 12)) for i in range(2_000)]
    of = [["".join(kind[i : i + 2]) for kind in kinds] for i in (0, 2)]
    learned = WordVectors.learned(Words.of(texts), 0)

    given = answers(learned, Words.of(of[0]), [1, 2], Words.of(of[1]))

    assert given == [1, 2]


@pytest.mark.parametrize(("most", "left"), [(0, 0), (1, 1), (4, 4), (5, 5), (9, 6)])
def test_a_selection_is_cut_to_the_word(most, left):
    words = Words.of(["one two, three", "four five"])  # the comma counts

    cut = words.first(most)

    assert len(words) == 6
    assert len(cut) == left
    assert np.count_nonzero(cut.numbers == 1) == np.count_nonzero(cut.numbers == 2)


def test_case_and_form_do_not_matter(vectors):
    plain, other = (vectors.means(Words.of([text])) for text in ("fruit1", "ＦＲＵＩＴ１"))

    assert plain.tolist() == other.tolist()


def _task(kind="classification", test=TEST * 3, labels=(0, 1, 0, 1)):
    train = Examples([[text] for text in TRAIN], [[0], [0], [1], [1]])
    held_out = Examples([[text] for text in test], [[label] for label in (*labels,) * 3])
    return Task("things", kind, ("fruit", "car"), 2, train, held_out, held_out)


def test_a_task_is_scored_by_its_metric(selection):
    task = VectorTask.of(_task(), "accuracy", 0)
    half_right = VectorTask.of(_task(labels=(0, 0, 1, 1)), "accuracy", 0)
    words = Words.of(selection)

    assert task.score([task.tally(words, seed) for seed in (0, 1)]) == 1
    assert half_right.score([half_right.tally(words, 0)]) == 0.5


def test_a_gain_over_text_that_teaches_nothing_is_shown_on_twelve_test_texts(selection):
    task = VectorTask.of(_task(), "", 0)
    ours = [task.tally(Words.of(selection), seed) for seed in range(3)]
    empty = [task.tally(Words.of(["nothing of this"] * 9), seed) for seed in range(3)]

    found = task.difference(ours, empty)

    assert task.metric == "macro_f1"
    assert found.mean == pytest.approx(task.score(ours) - task.score(empty))
    assert found.shown == 1
    assert task.difference(ours, ours).shown == 0


def test_a_large_task_learns_from_a_part_of_its_training_examples(monkeypatch):
    monkeypatch.setattr(vector_score, "MOST_ROWS", 3)
    task = VectorTask.of(_task(), "", 1)

    assert len(task.task.train) == 3
    assert np.count_nonzero(task.train.numbers == 1) == 3
