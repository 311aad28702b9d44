"""What a task adds to a ranking: equal words, no test text, and the sentence of the score."""

import dataclasses
from types import SimpleNamespace

import numpy as np
import pytest
from scipy import stats

from corpusfit.core.errors import InputError
from corpusfit.evaluation.task import Examples, Task
from corpusfit.evaluation.vector_score import VectorTask
from corpusfit.ranking import vectors
from corpusfit.ranking.ranking import Ranked, Ranking
from corpusfit.ranking.vectors import SampleWords, leave_out, score_difference
from corpusfit.selection.fit import Sample

TEXTS = ["one two three", "four, five", "six", "seven eight nine ten"]
TEST = "a held-out text of more than eight words that nobody must learn"


@pytest.fixture
def sample(tmp_path):
    """Makes samples of texts, each with a document and a number."""

    def make(name, texts):
        made = Sample(tmp_path, name)
        made.write_texts(texts, np.arange(len(texts)), {"rank": [float(i) for i in range(99)]})
        return made

    return make


@pytest.fixture
def notes():
    """What a run says, and the run."""
    said = []
    return said, SimpleNamespace(progress=SimpleNamespace(note=said.append))


def task():
    held_out = Examples([[TEST], ["short text"]], [[0], [1]])
    train = Examples([["some text"], ["another"]], [[0], [1]])
    return VectorTask.of(Task("t", "classification", ("a", "b"), 2, train, train, held_out), "", 0)


@pytest.mark.parametrize(
    ("units", "most", "taken"),
    [
        ([3], 4, [3]),
        ([3, 1], 7, [1, 3]),  # the comma counts
        ([2, 3], 1, [2]),
        ([0, 1, 2, 3], 11, [0, 1, 2, 3]),
    ],
)
def test_a_selection_has_so_many_words_of_its_first_units(sample, units, most, taken):
    words = SampleWords.of(sample("corpus", TEXTS))

    selected = words.first(np.array(units), most)

    whole = [n for i in taken for n in words.words.numbers[words.begins[i] : words.begins[i + 1]]]
    assert len(selected) == most
    assert selected.numbers.tolist() == whole


def test_the_last_text_is_cut_so_that_all_selections_have_equally_many_words(sample):
    words = SampleWords.of(sample("corpus", TEXTS))

    assert [len(words.first(np.array(order), 5)) for order in ([0, 1, 2, 3], [3, 2, 1, 0])] == [
        5,
        5,
    ]
    assert len(words.first(np.array([2]), 5)) == 1  # it has no more


@pytest.mark.parametrize(("share", "limit", "expected"), [(1, 99, 4), (0.5, 99, 2), (1, 3, 3)])
def test_the_words_of_a_selection_are_a_share_of_the_smallest_half(
    sample, monkeypatch, share, limit, expected
):
    monkeypatch.setattr(vectors, "MOST_WORDS", limit)
    halves = np.array([[0, 0, 1, 1], [1, 1, 1, 0]])  # 6 and 5 words; 7 and 4
    held = SimpleNamespace(
        halves=halves,
        count=2,
        half=lambda fold, number: np.flatnonzero(halves[fold] == number),
    )

    assert SampleWords.of(sample("corpus", TEXTS)).most(held, share) == expected


def test_units_with_a_test_text_are_left_out_and_counted(sample, notes):
    said, run = notes
    target = sample("target", ["mine", TEST.upper(), "yours"])
    corpus = sample("background", ["clean", f"before {TEST}, after", "Short text!", "long"])

    leave_out(run, task(), target, corpus)

    assert target.read_texts() == ["mine", "yours"]
    assert target.documents().tolist() == [0, 2]
    assert corpus.read_texts() == ["clean", "long"]
    assert corpus.batch("text", ["rank"]).numbers["rank"].tolist() == [0, 3]
    assert ["1 of 3" in said[0], "2 of 4" in said[1]] == [True, True]


def test_nothing_is_said_of_samples_without_a_test_text(sample, notes):
    said, run = notes
    clean = sample("target", ["mine", "yours"])

    leave_out(run, task(), clean, sample("background", ["clean"]))

    assert clean.read_texts() == ["mine", "yours"]
    assert said == []


@pytest.mark.parametrize("only", ["target", "corpus"])
def test_a_sample_of_test_texts_alone_is_refused(sample, notes, only):
    texts = {"target": ["mine"], "corpus": ["clean"], only: [TEST]}

    with pytest.raises(InputError, match=only):
        leave_out(notes[1], task(), *(sample(name, texts[name]) for name in ("target", "corpus")))


@pytest.mark.parametrize(
    ("halves", "error", "freedom"),
    [([0.5, 0.3], 0.0, 4), ([0.3, 0.3], 0.1, 99), ([0.5, 0.3], 0.1, None)],
)
def test_the_interval_is_of_two_halves_and_of_test_texts(halves, error, freedom):
    """Four parts of the same two halves are no eight samples: Student's t of four degrees."""
    scored = SimpleNamespace(
        task=SimpleNamespace(test=range(100)),
        score=lambda tallies: tallies[0],
        difference=lambda ours, base: SimpleNamespace(mean=np.mean(ours), over_examples=error),
    )

    found = score_difference(scored, halves * 4, [0.0] * 8)

    of_halves = (halves[0] - halves[1]) ** 2 / 4
    variance = of_halves + error**2
    freedom = freedom or variance**2 / (of_halves**2 / 4 + error**4 / 99)
    width = stats.t.ppf(0.975, freedom) * variance**0.5
    assert found.mean == pytest.approx(np.mean(halves))
    assert [found.low, found.high] == pytest.approx([found.mean - width, found.mean + width])


@pytest.mark.parametrize(
    ("difference", "said"),
    [
        ((0.031, 0.019, 0.043), "3.1 points above random text (95 % interval +1.9 to +4.3)"),
        ((-0.02, -0.03, -0.01), "2.0 points below random text (95 % interval -3.0 to -1.0)"),
        ((0.01, -0.02, 0.04), "no difference from random text is shown (+1.0 points, "),
        ((0.0, 0.0, 0.0), "no difference from random text is shown (+0.0 points, "),
    ],
)
def test_the_score_is_said_with_its_interval_and_of_what_it_is(difference, said):
    none = (0.0, 0.0, 0.0)
    method = Ranked("dsir", "lexical", 1.0, 8.0, none, (-1.0, -2.0, -0.5), True, ())
    scored = dataclasses.replace(method, score=0.812, score_than_random=difference)

    (sentence,) = Ranking((scored,), 0.2, None, "accuracy", 42_000, 1_000).findings()

    assert said in sentence
    assert "dsir scores 81.2 accuracy on 1,000 test texts" in sentence
    assert "42,000" in sentence
    assert "not of your model" in sentence
    assert Ranking((method,), 0.2).findings() == []


def test_rows_are_flat_with_scores_in_points_where_a_task_is_scored():
    none = (0.0, -0.1, 0.1)
    plain = Ranked("dsir", "lexical", 1.0, 8.0, none, (-1.0, -2.0, -0.5), True, ())
    scored = dataclasses.replace(plain, score=0.812, score_than_random=(0.03, -0.01, 0.07))

    (without,) = Ranking((plain,), 0.2).rows()
    (row,) = Ranking((scored,), 0.2).rows()

    assert [without[f"than_random{end}"] for end in ("", "_low", "_high")] == [-1.0, -2.0, -0.5]
    assert without.keys() == {n for n in row if not n.startswith("score")}
    ours = [row[n] for n in ("score", "score_than_random", "score_than_random_low")]
    assert ours == pytest.approx([81.2, 3.0, -1.0])
