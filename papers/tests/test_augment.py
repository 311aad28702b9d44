"""TF-IDF augmentation (`--augment tfidf`) against its closed form, and what it must not change."""

import math
from collections import Counter

import numpy as np
import pytest

from corpusfit.core.errors import UsageError
from corpusfit.evaluation.augment import replace_words, replacement_model, require_allowed
from corpusfit.evaluation.plan import AugmentPlan
from corpusfit.evaluation.task import Examples

TFIDF = AugmentPlan(kind="tfidf")
TEXTS = [
    "the drug binds the receptor with high affinity",
    "the market fell and the shares of the bank fell with it",
    "a drug for the heart , and a test of the drug",
    "the receptor of the heart is a protein",
    "high shares , high market",
]


def classified(texts):
    return Examples([[t] for t in texts], [[i % 2] for i in range(len(texts))])


def augmented(texts, *, copies=1, share=0.3, seed=0):
    plan = AugmentPlan(kind="tfidf", copies=copies, share=share)
    new = replace_words(
        classified(texts), plan, kind="classification", labels=("a", "b"), seed=seed
    )
    return [pieces[0] for pieces in new.pieces]


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
    np.testing.assert_allclose(found.drawn, weight / weight.sum())


def test_the_probabilities_of_a_text_add_up_to_the_share():
    texts = [t.split() for t in TEXTS[:4]]
    sums = np.split(
        replacement_model(texts, 0.2).probability, np.cumsum([len(t) for t in texts])[:-1]
    )
    for text, probabilities in zip(texts, sums, strict=True):
        assert probabilities.sum() == pytest.approx(0.2 * len(text))


def test_a_probability_is_at_most_one():
    assert replacement_model([["the"] + ["cell"] * 9, ["the"]], 0.5).probability.max() == 1


def test_words_are_replaced_as_often_as_they_should():
    """Over two thousand copies of each text, within 4.5 standard deviations of the count."""
    copies = 2000
    new = [t.replace(" ,", "").split() for t in augmented(TEXTS, copies=copies)]
    texts = [t.replace(" ,", "").split() for t in TEXTS]
    found = replacement_model(texts, 0.3)
    probabilities, deviations = iter(found.probability), []
    for i, text in enumerate(texts):
        for j, word in enumerate(text):
            itself = found.drawn[found.words.index(word)]
            p = next(probabilities) * (1 - itself)
            others = sum(words[j] != word for words in new[i * copies : (i + 1) * copies])
            deviations.append((others - copies * p) / math.sqrt(copies * max(p, 1e-9)))
    assert max(map(abs, deviations)) < 4.5


def test_replacements_follow_their_probabilities():
    """Chi-square test of the replacements of one word."""
    from scipy.stats import chisquare

    copies = 20_000
    texts = ["the cell cell", "the cat sat", "the cat ran", "the dog ran by"]
    new = augmented(texts, copies=copies, share=0.45)
    found = replacement_model([t.split() for t in texts], 0.45)
    first = Counter(text.split()[0] for text in new[:copies])
    p = found.probability[0]
    expected = dict(zip(found.words, copies * p * found.drawn, strict=True))
    expected["the"] += copies * (1 - p)
    some = [w for w in found.words if expected[w] > 0]
    assert len(some) > 4
    assert set(first) <= set(some)
    assert chisquare([first[w] for w in some], [expected[w] for w in some]).pvalue > 1e-3


def test_copy_j_of_example_i_is_at_its_position_with_its_labels():
    examples = classified(TEXTS)
    plan = AugmentPlan(kind="tfidf", copies=3)
    found = replace_words(examples, plan, kind="classification", labels=("a", "b"), seed=1)
    assert len(found) == 15
    assert found.labels == [own for own in examples.labels for _ in range(3)]
    for i, text in enumerate(TEXTS):
        for j in range(3):
            new = found.pieces[3 * i + j][0].split()
            assert len(new) == len(text.split())
            kept = sum(a == b for a, b in zip(new, text.split(), strict=True))
            assert kept > len(new) / 3
    assert len({found.pieces[j][0] for j in range(3)}) > 1
    assert found.labels[0] is not examples.labels[0]


def test_results_depend_on_the_seed_alone():
    assert augmented(TEXTS) == augmented(TEXTS)
    assert augmented(TEXTS) != augmented(TEXTS, seed=1)
    assert augmented(TEXTS, copies=3)[::3] == augmented(TEXTS)  # the first copies stay the same


def test_spaces_punctuation_and_markers_stay():
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


@pytest.mark.parametrize(
    "texts",
    [[""], ["word"], ["same same same", "same"], [" ,;! ", "[[ ]]"], [], ["a b", "", "c d"]],
)
def test_texts_whose_words_all_score_the_same_stay(texts):
    assert augmented(texts, copies=2, share=0.9) == [t for t in texts for _ in range(2)]


def test_an_empty_text_among_others():
    found = augmented(["", *TEXTS, "word"], share=0.9)
    assert found[0] == ""
    assert found[-1] == "word"
    assert found[1:-1] != TEXTS


def test_only_words_labeled_o_are_replaced_by_words_labeled_o():
    pieces = [t.split() for t in TEXTS]
    entities = {"drug", "receptor", "protein"}
    labels = [[1 if w in entities else 0 for w in words] for words in pieces]
    plan = AugmentPlan(kind="tfidf", copies=300, share=0.9)
    found = replace_words(
        Examples(pieces, labels), plan, kind="tagging", labels=("O", "B-x"), seed=0
    )
    outside = {w for words in pieces for w in words if w not in entities and w != ","}
    replaced = 0
    for k, (new, own) in enumerate(zip(found.pieces, found.labels, strict=True)):
        before = pieces[k // 300]
        assert own == labels[k // 300]
        for now, was, label in zip(new, before, own, strict=True):
            if label or was == ",":
                assert now == was
            else:
                assert now in outside
                replaced += now != was
    assert replaced > 1000


def test_tagging_refusals():
    examples = Examples([["a", "b"]], [[0, 1]])
    with pytest.raises(UsageError, match=r"^`augment\.kind\b.* O\b"):
        replace_words(examples, TFIDF, kind="tagging", labels=("NN", "VB"), seed=0)
    back = AugmentPlan(kind="backtranslate", mt="x", mt_back="y")
    with pytest.raises(UsageError, match=r"^`augment\.kind\b.*tagging.*'backtranslate'"):
        require_allowed(back, "tagging")
