"""Overlap between splits, against counts by hand."""

from corpusfit.evaluation.task import Examples, Task, notable, split_overlaps


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


def counted(task):
    return [(each.split, each.within, each.shared) for each in split_overlaps(task)]


def test_counts():
    assert counted(TASK) == [
        ("dev", "train", 2),
        ("test", "train", 2),
        ("test", "dev", 1),
        ("train", "train", 2),
        ("dev", "dev", 1),
        ("test", "test", 1),
    ]


def test_notes():
    notes = notable(split_overlaps(TASK))
    assert len(notes) == 6
    assert notes[0].startswith("dev: 2 of 3 texts (66.7 %) are also in train")
    assert notes[3].startswith("train: 2 of 5 texts (40.0 %) repeat earlier")


def test_none():
    apart = Task("t", "classification", ("a",), 1, texts(("x", 0)), texts(("y", 0)), texts())
    found = split_overlaps(apart)
    assert notable(found) == []
    assert found[2].share == 0.0


def test_copies_that_change_no_score_are_not_told():
    test = texts(*((f"text {i}", 0) for i in range(199)), ("x", 0), ("y", 0))
    train = texts(("x", 0), ("text 7", 0))
    for n, told in ((200, 1), (201, 0)):
        part = Examples(test.pieces[-n:], test.labels[-n:])
        found = split_overlaps(Task("t", "classification", ("a",), 1, train, texts(), part))
        assert len(notable(found)) == told


def test_sentences_by_their_words():
    one, other = (
        Examples([["IL", "2", "."]], [[1, 2, 0]]),
        Examples([["IL2"], ["il", "2"]], [[1], [1, 2]]),
    )
    found = counted(Task("t", "tagging", ("O", "B-X", "I-X"), 3, one, other, one))
    assert found[:2] == [("dev", "train", 2), ("test", "train", 1)]
