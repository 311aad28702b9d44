"""Overlap between splits, against counts by hand."""

import json

from corpusfit.evaluation.task import Examples, Overlap, Task, split_overlaps


def texts(*rows):
    return Examples([[t] for t, _ in rows], [[n] for _, n in rows])


TASK = Task(
    "t",
    "classification",
    ("a", "b", "c"),
    2,
    texts(("One two.", 0), ("one  TWO", 1), ("One two.", 0), ("three", 0), ("four", 1)),
    texts(("three", 0), ("<< Three >>", 1), ("five", 0)),
    texts(("one, two!", 2), ("One two.", 1), ("five", 0), ("six", 0)),
)


def test_counts():
    found = split_overlaps(TASK)
    assert found.between == (
        Overlap("dev", "train", 3, shared=2, identical=1, relabeled=1),
        Overlap("test", "train", 4, shared=2, identical=1, relabeled=1),
        Overlap("test", "dev", 4, shared=1, identical=1, relabeled=0),
    )
    assert found.duplicates == (
        Overlap("train", "train", 5, shared=2, identical=1, relabeled=1),
        Overlap("dev", "dev", 3, shared=1, identical=0, relabeled=1),
        Overlap("test", "test", 4, shared=1, identical=0, relabeled=1),
    )


def test_notes_and_values():
    found = split_overlaps(TASK)
    notes = found.notes()
    assert len(notes) == 6
    for figure in ("dev: 2 of 3 texts (66.7 %)", "in train", "1 exact", "1 with another label"):
        assert figure in notes[0]
    assert notes[1].startswith("test: 2 of 4 texts (50.0 %)")
    assert notes[3].startswith("train: 2 of 5 texts (40.0 %)")
    values = json.loads(json.dumps(found.as_dict()))
    assert values["between"][0] == {
        "split": "dev",
        "within": "train",
        "examples": 3,
        "shared": 2,
        "identical": 1,
        "relabeled": 1,
        "share": 2 / 3,
    }
    assert len(values["duplicates"]) == 3


def test_none():
    apart = Task("t", "classification", ("a",), 1, texts(("x", 0)), texts(("y", 0)), texts())
    found = split_overlaps(apart)
    assert found.notes() == []
    assert found.between[2].share == 0.0
    assert str(found.between[0]).startswith("dev: 0 of 1 texts (0.0 %)")
    assert "exact" not in str(found.between[0])


def test_copies_that_change_no_score_are_not_told():
    test = texts(*((f"text {i}", 0) for i in range(199)), ("x", 0), ("y", 0))
    train = texts(("x", 0), ("text 7", 0))
    for n, told in ((200, 1), (201, 0)):
        part = Examples(test.pieces[-n:], test.labels[-n:])
        found = split_overlaps(Task("t", "classification", ("a",), 1, train, texts(), part))
        assert len(found.notes()) == told


def test_sentences_by_their_words_and_tags():
    one, other = (
        Examples([["IL", "2", "."]], [[1, 2, 0]]),
        Examples([["IL2"], ["il", "2"]], [[1], [1, 2]]),
    )
    found = split_overlaps(Task("t", "tagging", ("O", "B-X", "I-X"), 3, one, other, one))
    assert found.between[0] == Overlap("dev", "train", 2, shared=2, identical=0, relabeled=2)
    assert found.between[1] == Overlap("test", "train", 1, shared=1, identical=1, relabeled=0)
