"""Augmentation by workers: the same as in one process, and nothing is translated twice."""

import pytest

pytest.importorskip("torch", reason="the extra train is not installed")

from corpusfit.core.engine import Progress
from corpusfit.core.errors import UsageError
from corpusfit.evaluation import augment
from corpusfit.evaluation.augment import (
    BackTranslator,
    augment_examples,
    replace_words,
    write_augmented_examples,
)
from corpusfit.evaluation.plan import AugmentPlan
from corpusfit.evaluation.task import Examples, load_examples
from translating import built

EXAMPLES = Examples(
    [[f"the model reads word {i} ."] for i in range(7)], [[i % 2] for i in range(7)]
)


@pytest.fixture(scope="module")
def plan(tmp_path_factory, word_pieces):
    folder = tmp_path_factory.mktemp("there-and-back")
    mt, mt_back = (str(built(folder / str(n), word_pieces, "marian", n)) for n in (1, 2))
    return AugmentPlan(kind="backtranslate", copies=2, mt=mt, mt_back=mt_back)


@pytest.fixture
def make(tmp_path, inline, monkeypatch):
    """`write_augmented_examples` in this process, three texts per piece; returns the examples."""
    monkeypatch.setattr(augment, "TEXTS_PER_PIECE", 3)

    def make(plan, *, kind="classification", seed=0, out="companions.json"):
        path = tmp_path / out
        words = {"kind": kind, "labels": ["a", "b"], "seed": seed, "device": "cpu"}
        write_augmented_examples(EXAMPLES, plan, path, machine=inline, **words)
        return load_examples(path)

    return make


def together(plan):
    """Augmentation of all examples, translated at once."""
    models = BackTranslator.load(plan.mt, plan.mt_back, device="cpu")
    texts = [text for pieces in EXAMPLES.pieces for text in pieces]
    said = models.translate(texts, copies=plan.copies, seed=0, progress=Progress())
    return augment_examples(EXAMPLES, said, plan.copies)


@pytest.mark.slow
def test_pieces_give_the_same_as_all_at_once(make, plan, tmp_path):
    made = make(plan)
    whole = together(plan)
    assert made.pieces == whole.pieces
    assert made.labels == whole.labels
    assert not (tmp_path / "companions.parts").exists()
    assert make(plan, seed=1).pieces != made.pieces


def test_after_a_stop_only_what_is_missing_is_translated(make, plan, tmp_path, monkeypatch):
    whole = make(plan, out="whole.json")
    translate = BackTranslator.translate
    asked = []

    def stopping(self, texts, *, first, **words):
        asked.append(first)
        if len(asked) == 3:
            raise KeyboardInterrupt
        return translate(self, texts, first=first, **words)

    monkeypatch.setattr(BackTranslator, "translate", stopping)
    with pytest.raises(KeyboardInterrupt):
        make(plan)
    assert not (tmp_path / "companions.json").exists()
    assert make(plan).pieces == whole.pieces
    assert asked == [0, 3, 6, 6]


@pytest.mark.slow
def test_pieces_of_other_settings_are_not_reused(make, plan, monkeypatch):
    def stopped(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(augment, "augment_examples", stopped)
    with pytest.raises(KeyboardInterrupt):
        make(plan, seed=1)
    monkeypatch.undo()
    monkeypatch.setattr(augment, "TEXTS_PER_PIECE", 3)
    whole = together(plan)
    assert make(plan).pieces == whole.pieces


def test_words_are_replaced_without_workers_and_tags_are_rejected(make, plan):
    replaced = AugmentPlan(kind="tfidf")
    whole = replace_words(EXAMPLES, replaced, kind="classification", labels=["a", "b"], seed=0)
    assert make(replaced).pieces == whole.pieces
    with pytest.raises(UsageError, match=r"^`augment\.kind` must be tfidf for tagging"):
        make(plan, kind="tagging")
