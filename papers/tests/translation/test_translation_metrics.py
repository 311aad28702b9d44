"""BLEU, chrF and their paired tests from stored sums are those of sacreBLEU."""

import random

import numpy as np
import pytest

from corpusfit.evaluation.task import Examples
from corpusfit.evaluation.tasks import load

pytest.importorskip("sacrebleu", reason="the extra train is not installed")
from sacrebleu.metrics import BLEU, CHRF

SIDES = ("de", "en")
METRICS = {"bleu": BLEU(force=True), "chrf": CHRF(), "chrf++": CHRF(word_order=2)}
WORDS = ["the", "cat", "sat", ",", ".", "house", "big", "12", "(x)", "tree", "it's", "käse"]


def references(n, seed=0):
    chance = random.Random(seed)
    return [" ".join(chance.choices(WORDS, k=chance.randint(1, 20))) for _ in range(n)]


def worse(texts, share, seed):
    """Translations with a share of wrong words, some cut short, one empty."""
    chance = random.Random(seed)
    found = []
    for text in texts:
        words = text.split()[: chance.randint(1, 25)]
        found.append(
            " ".join(chance.choice(WORDS) if chance.random() < share else w for w in words)
        )
    return [*found[:-1], ""]


def tallied(texts, answers, sides=SIDES):
    examples = Examples([["x"]] * len(texts), [[text] for text in texts])
    return load("translation").tally(sides, examples, np.array(answers, object))


def test_scores_of_a_corpus_are_those_of_sacrebleu():
    found = load("translation")
    for n in (1, 3, 80):
        texts = references(n)
        for share in (0.0, 0.3, 1.0):
            answers = worse(texts, share, n)
            summed = tallied(texts, answers).sum(0)
            for name, metric in METRICS.items():
                wanted = metric.corpus_score(answers, [texts]).score
                assert 100 * float(found.score(name, summed)) == pytest.approx(wanted, abs=1e-9)


def test_scores_of_many_sums_at_once_are_those_of_each():
    found, texts = load("translation"), references(30)
    counts = tallied(texts, worse(texts, 0.4, 1))
    for name, metric in METRICS.items():
        together = 100 * found.score(name, counts)
        for text, answer, own in zip(texts, worse(texts, 0.4, 1), together, strict=True):
            assert own == pytest.approx(metric.corpus_score([answer], [[text]]).score, abs=1e-9)


def test_the_signature_is_that_of_the_scores():
    signatures = load("translation").signatures(SIDES)
    for name, metric in METRICS.items():
        metric.corpus_score(["a"], [["a"]])
        assert signatures[name] == str(metric.get_signature())
    for labels in (("en", "zh"), ("en", "zho_Hans")):
        assert "tok:zh" in load("translation").signatures(labels)["bleu"]
    assert "tok:char" in load("translation").signatures(("de", "ja"))["bleu"]


def test_chinese_is_cut_into_characters():
    texts, answers = ["我喜欢猫和狗。"], ["我喜欢狗和猫。"]
    summed = tallied(texts, answers, ("en", "zh")).sum(0)
    wanted = BLEU(tokenize="zh").corpus_score(answers, [texts]).score
    assert wanted > 0
    assert 100 * float(load("translation").score("bleu", summed)) == pytest.approx(wanted)
