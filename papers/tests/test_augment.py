"""TF-IDF augmentation against its closed form, and what it must not change."""

import json
import math
from collections import Counter

import numpy as np
import pytest
from typer.testing import CliRunner

from corpusfit import EvaluatePlan
from corpusfit.cli.app import app
from corpusfit.contracts import InputError, UsageError, read_task
from corpusfit_papers import augment
from corpusfit_papers.augmenting import (
    Augmentation,
    replacement_model,
    split_words,
    with_augmented,
)

TEXTS = [
    "the drug binds the receptor with high affinity",
    "the market fell and the shares of the bank fell with it",
    "a drug for the heart , and a test of the drug",
    "the receptor of the heart is a protein",
    "high shares , high market",
]


LABELS = {
    "classification": lambda text: "drug" if "drug" in text else "money",
    "multilabel": lambda text: ["drug"] * ("drug" in text) + ["money"] * ("market" in text),
    "regression": lambda text: len(text) / 2,
    "tagging": lambda text: ["B-x" if word in ENTITIES else "O" for word in text.split()],
}
ENTITIES = {"drug", "receptor", "protein"}


def stored(folder, kind, texts=TEXTS):
    """The folder of a task, whose splits have the same examples."""
    folder.mkdir(parents=True)
    rows = [
        {"text": text.split() if kind == "tagging" else text, "label": LABELS[kind](text)}
        for text in texts
    ]
    for split in ("train", "dev", "test"):
        (folder / f"{split}.jsonl").write_text("".join(json.dumps(r) + "\n" for r in rows))
    return folder


def read(folder):
    return read_task(str(folder), EvaluatePlan().task, seed=0)


@pytest.fixture
def augmented(tmp_path):
    """The copies of texts, those of a text side by side."""
    task = read(stored(tmp_path / "any", "classification"))

    def make(texts, *, copies=1, share=0.3, seed=0):
        pieces, labels = [[t] for t in texts], [[i % 2] for i in range(len(texts))]
        vars(task)["train"] = type(task.train)(pieces, labels)
        plan = Augmentation(copies=copies, share=share)
        train = with_augmented(task, plan, seed=seed, device="cpu").train
        assert train.pieces[: len(texts)] == pieces
        assert train.labels == labels + [own for own in labels for _ in range(copies)]
        return [text for (text,) in train.pieces[len(texts) :]]

    return make


def test_probabilities_are_the_papers_formulas():
    """Word by word, with document frequencies from scikit-learn."""
    from sklearn.feature_extraction.text import CountVectorizer

    texts = [t.split() for t in TEXTS]
    found = replacement_model(texts, 0.3)
    counter = CountVectorizer(analyzer=str.split, binary=True).fit(TEXTS)
    df = dict(zip(counter.get_feature_names_out(), counter.transform(TEXTS).sum(0).A1, strict=True))
    idf = {w: math.log(len(texts) / df[w]) for w in df}
    expected = []
    for text in texts:
        tfidf = [text.count(w) / len(text) * idf[w] for w in text]
        z = sum(max(tfidf) - t for t in tfidf) / len(text)
        expected += [min(0.3 * (max(tfidf) - t) / z, 1) for t in tfidf]
    np.testing.assert_allclose(found.probability, expected)
    s = {w: n * idf[w] for w, n in Counter(w for text in texts for w in text).items()}
    weight = np.array([max(s.values()) - s[w] for w in sorted(s)])
    np.testing.assert_allclose(found.replacement_probability, weight / weight.sum())


def test_the_probabilities_of_a_text_add_up_to_the_share():
    texts = [t.split() for t in TEXTS[:4]]
    sums = np.split(
        replacement_model(texts, 0.2).probability, np.cumsum([len(t) for t in texts])[:-1]
    )
    for text, probabilities in zip(texts, sums, strict=True):
        assert probabilities.sum() == pytest.approx(0.2 * len(text))


def test_a_probability_is_at_most_one():
    assert replacement_model([["the"] + ["cell"] * 9, ["the"]], 0.5).probability.max() == 1


def test_words_are_replaced_as_often_as_they_should(augmented):
    """Over two thousand copies of each text, within 4.5 standard deviations of the count."""
    copies = 2000
    new = [t.replace(" ,", "").split() for t in augmented(TEXTS, copies=copies)]
    texts = [t.replace(" ,", "").split() for t in TEXTS]
    found = replacement_model(texts, 0.3)
    probabilities, deviations = iter(found.probability), []
    for i, text in enumerate(texts):
        for j, word in enumerate(text):
            itself = found.replacement_probability[found.words.index(word)]
            p = next(probabilities) * (1 - itself)
            others = sum(words[j] != word for words in new[i * copies : (i + 1) * copies])
            deviations.append((others - copies * p) / math.sqrt(copies * max(p, 1e-9)))
    assert max(map(abs, deviations)) < 4.5


def test_replacements_follow_their_probabilities(augmented):
    """Chi-square test of the replacements of one word."""
    from scipy.stats import chisquare

    copies = 20_000
    texts = ["the cell cell", "the cat sat", "the cat ran", "the dog ran by"]
    new = augmented(texts, copies=copies, share=0.45)
    found = replacement_model([t.split() for t in texts], 0.45)
    first = Counter(text.split()[0] for text in new[:copies])
    p = found.probability[0]
    expected = dict(zip(found.words, copies * p * found.replacement_probability, strict=True))
    expected["the"] += copies * (1 - p)
    some = [w for w in found.words if expected[w] > 0]
    assert len(some) > 4
    assert set(first) <= set(some)
    assert chisquare([first[w] for w in some], [expected[w] for w in some]).pvalue > 1e-3


def test_the_command_writes_what_the_function_writes(tmp_path):
    folder = stored(tmp_path / "task", "classification")
    augment(task=folder, out=tmp_path / "one", seed=3)
    words = ["augment", "--task", str(folder), "--out", str(tmp_path / "two"), "--seed", "3"]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0, done.output
    for split in ("train", "dev", "test"):
        one, two = (tmp_path / out / f"{split}.jsonl" for out in ("one", "two"))
        assert one.read_bytes() == two.read_bytes()


@pytest.mark.parametrize("kind", LABELS)
def test_a_task_that_is_written_is_the_task_with_copies(kind, tmp_path):
    """As `evaluate` reads it; copy j of example i keeps its length and most of its words."""
    folder = stored(tmp_path / "task", kind)
    before = read(folder)
    done = augment(task=folder, out=tmp_path / "out", copies=3, share=0.4, seed=1)
    assert (done.kind, done.examples, done.added) == (kind, 5, 15)
    after = read(done.path)
    expected = with_augmented(before, Augmentation(copies=3, share=0.4), seed=1, device="cpu")
    for split in ("train", "dev", "test"):
        assert getattr(after, split).pieces == getattr(expected, split).pieces
        assert getattr(after, split).labels == getattr(expected, split).labels
    assert (after.kind, after.labels, after.learnable) == (kind, before.labels, before.learnable)
    assert after.train.labels[5:] == [own for own in before.train.labels for _ in range(3)]
    for i, own in enumerate(before.train.texts()):
        for new in after.train.texts()[5 + 3 * i : 8 + 3 * i]:
            same = sum(a == b for a, b in zip(new.split(), own.split(), strict=True))
            assert same > len(own.split()) / 4
    assert len(set(after.train.texts())) > 5 + 5


def test_results_depend_on_the_seed_alone(augmented):
    assert augmented(TEXTS) == augmented(TEXTS)
    assert augmented(TEXTS) != augmented(TEXTS, seed=1)
    assert augmented(TEXTS, copies=3)[::3] == augmented(TEXTS)  # the first copies stay the same


def test_spaces_punctuation_and_markers_stay(augmented):
    texts = [
        "<<  Kinase >>  inhibitors ( the [[ drug ]] ) , in the\ttest ;  of the <e1> cell </e1>.\n",
        "the <<drug>> of @GENE$ in the [CITE], and the test-tube of the cell (see [12])",
        "the test of a drug, in a cell of the heart",
    ]
    found = augmented(texts, copies=200, share=0.9)
    for i, text in enumerate(texts):
        words = sorted({w for t in texts for w in t.replace("test-tube", "").split()})
        for new in found[i * 200 : (i + 1) * 200]:
            for mark in ("<<", ">>", "[[", "]]", "<e1>", "</e1>.\n", "@GENE$", "[CITE],", "[12])"):
                assert (mark in text) == (mark in new), (words, new)
            assert [c for c in new if not c.isalnum() and c != "-"] == [
                c for c in text if not c.isalnum() and c != "-"
            ]


def test_signs_and_accents_belong_to_their_word():
    text = "हिन्दी தமிழ் cafe\u0301 test-tube it's"
    assert split_words(text)[1::2] == text.split()
    assert "".join(split_words(text)) == text


@pytest.mark.parametrize(
    "texts",
    [[""], ["word"], ["same same same", "same"], [" ,;! ", "[[ ]]"], [], ["a b", "", "c d"]],
)
def test_texts_whose_words_all_score_the_same_stay(texts, augmented):
    assert augmented(texts, copies=2, share=0.9) == [t for t in texts for _ in range(2)]


def test_an_empty_text_among_others(augmented):
    found = augmented(["", *TEXTS, "word"], share=0.9)
    assert found[0] == ""
    assert found[-1] == "word"
    assert found[1:-1] != TEXTS


def test_only_words_labeled_o_are_replaced_by_words_labeled_o(tmp_path):
    task = read(stored(tmp_path / "task", "tagging"))
    found = with_augmented(task, Augmentation(copies=300, share=0.9), seed=0, device="cpu").train
    outside = {w for t in TEXTS for w in t.split() if w not in ENTITIES and w != ","}
    replaced = 0
    for k, new in enumerate(found.pieces[5:]):
        for now, was in zip(new, task.train.pieces[k // 300], strict=True):
            if was in ENTITIES or was == ",":
                assert now == was
            else:
                assert now in outside
                replaced += now != was
    assert replaced > 1000


def test_what_an_augmentation_cannot_do_is_refused(tmp_path):
    folder = stored(tmp_path / "task", "tagging")
    models = {"method": "backtranslate", "mt": "x", "mt_back": "y"}
    for words, error, names in (
        (models, UsageError, r"^`method` .*tagging.*'backtranslate'"),
        ({"method": "eda"}, UsageError, "^`method` .*'eda'"),
        ({"method": "backtranslate"}, UsageError, "^`mt` and `mt_back` "),
        ({"mt": "x"}, UsageError, "^`mt` and `mt_back` "),
        ({"copies": 0}, UsageError, "^`copies` "),
        ({"share": 1.0}, UsageError, "^`share` "),
        ({"kind": "language_modeling"}, InputError, "^`task` .*language_modeling"),
        ({"out": folder}, UsageError, "^`out` "),
    ):
        with pytest.raises(error, match=names):
            augment(**{"task": folder, "out": tmp_path / "out", **words})
    assert not (tmp_path / "out").exists()
