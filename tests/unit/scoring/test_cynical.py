"""`cynical` against its definition in plain Python, and its order against one text at a time."""

import itertools
import math
import random
from collections import Counter

import numpy as np
import pytest

from corpusfit.core.types import text_array
from corpusfit.kernels.cynical import WORDLESS
from corpusfit.kernels.tokens import reference
from corpusfit.scoring import registry
from corpusfit.scoring.rounds import Round, RoundScorer, TextCounts, order_scores, summed

OF_TASK = "kinase binds the receptor and inhibits growth of cells in mice with a ligand"
OF_OTHERS = "shares fell as investors sold the bonds of a bank in quarterly results"
WORDS, OTHER = OF_TASK.split(), OF_OTHERS.split()
NO_SAMPLE = text_array([])  # of the corpus, so that every order of words is as good


def prose(seed, n, words, most=30):
    draw = random.Random(seed)
    return [" ".join(draw.choices(words, k=draw.randint(1, most))) for _ in range(n)]


TARGET = prose(1, 30, WORDS)
CORPUS = prose(2, 120, WORDS + OTHER) + prose(3, 60, OTHER) + ["", "?!", "kinase " * 700]


def pairs_of(tokens):
    return list(itertools.pairwise(tokens))


def features_of(tokens, weight):
    return Counter(tokens) + (Counter(pairs_of(tokens)) if weight else Counter())


def weights_of(target, weight):
    single, double = Counter(), Counter()
    for text in target:
        single.update(reference(text))
        double.update(pairs_of(reference(text)))
    shares = {v: n / single.total() for v, n in single.items()}
    return shares | {v: weight * n / double.total() for v, n in double.items() if weight}


def gain(tokens, weights, taken, words, weight):
    """Axelrod (2017), with pairs, for one text; at most a tenth of the sum is by one of them."""
    counts = features_of(tokens, weight)
    known = [(v, c) for v, c in counts.items() if v in weights]
    rises = [weights[v] * math.log((taken[v] + c) / taken[v]) for v, c in known]
    fall = sum(min(rise, sum(rises) / 10) for rise in rises)
    scale = sum(weights.values())
    return (fall - scale * math.log((words + len(tokens)) / words)) / len(tokens)


def in_plain_python(target, corpus, weight, start, budgets):
    """The numbers of the texts in the order of taking, and the number of each one's round."""
    weights = weights_of(target, weight)
    texts = [reference(t) for t in corpus]
    total, n = Counter(), sum(map(len, texts))
    for tokens in texts:
        total.update(features_of(tokens, weight))
    taken, done = Counter(), 0
    left, order = list(range(len(texts))), []
    for number, budget in enumerate(budgets, start=1):
        part = max(1, budget) / n
        share = start * (1 + 100 * part) * part
        before = {v: taken[v] + c * share for v, c in total.items()}
        words = done + n * share
        found = {
            i: gain(texts[i], weights, before, words, weight) if texts[i] else -math.inf
            for i in left
        }
        held, more = Counter(), 0
        longest = max(budget - done, 10 * n / len(texts))  # what is longer waits
        fitting = [i for i in left if len(texts[i]) <= longest]
        for i in sorted(fitting, key=lambda i: (-np.float32(found[i]), i)):
            if done + more + len(texts[i]) > budget:
                break
            order.append((i, number))
            left.remove(i)
            held.update(features_of(texts[i], weight))
            more += len(texts[i])
        taken.update(held)
        done += more
    return sorted(order, key=lambda taken: not texts[taken[0]])  # those without a word come last


def taken_whole(features, counted):
    """The counts of all texts."""
    f = len(features.weights)
    return TextCounts(np.zeros(f), 0).with_more([summed([(counted, None)], f)])


@pytest.mark.parametrize("weight", [0.0, 0.3, 1.0])
def test_gains_follow_the_definition(weight):
    method = registry.build("cynical", {"pairs": weight})
    features = method.learn(text_array(TARGET), NO_SAMPLE)
    counted = features.count(text_array(CORPUS))
    n = int(counted.words.sum())
    found = method.begin(taken_whole(features, counted), n).gains(features)(counted)
    weights, total = weights_of(TARGET, weight), Counter()
    for text in CORPUS:
        total.update(features_of(reference(text), weight))
    added = method.start * 101  # 1 and 100 %
    taken = {v: c * added for v, c in total.items()}
    for text, ours in zip(CORPUS, found, strict=True):
        tokens = reference(text)
        if not tokens:
            assert ours == WORDLESS
            continue
        theirs = gain(tokens, weights, taken, n * added, weight)
        assert ours == pytest.approx(theirs, rel=1e-5, abs=1e-9)


@pytest.mark.parametrize("rounds", [1, 7, 60])
def test_the_order_is_that_of_plain_python(rounds):
    method = registry.build("cynical", {"pairs": 0.3, "rounds": rounds, "start": 0.2})
    ((_, scores),) = method.score_corpus(
        [(0, text_array(CORPUS))], text_array(TARGET), NO_SAMPLE, seed=0
    )
    budgets = method.budgets(sum(len(reference(t)) for t in CORPUS))
    expected = in_plain_python(TARGET, CORPUS, 0.3, 0.2, budgets)
    ours = np.argsort(-scores, kind="stable")
    assert sorted(i for i, _ in expected) == list(range(len(CORPUS)))
    assert list(ours) == [i for i, _ in expected]


def test_taking_one_text_a_round_covers_what_is_still_missing():
    one, other = "a b c d e f g h i j", "k l m n o p q r s t"
    target = [f"{one} {one} {other}"] * 5
    corpus = [one] * 5 + [other] * 5 + ["u v w x y z"] * 5
    method = registry.build("cynical", {"pairs": 0.0, "rounds": 200, "start": 0.05})
    ((_, scores),) = method.score_corpus(
        [(0, text_array(corpus))], text_array(target), NO_SAMPLE, seed=0
    )
    first = [corpus[i] for i in np.argsort(-scores, kind="stable")[:6]]
    assert set(first) == {one, other}
    assert max(scores[10:]) < min(scores[:10])


def test_a_text_that_repeats_one_rare_word_does_not_come_first():
    target = [f"{text} et al" for text in prose(6, 40, WORDS, 60)]
    typical = prose(7, 20, WORDS, 60)
    corpus = ["al al al al al", "al al", *typical, *prose(8, 200, OTHER, 60)]
    method = registry.build("cynical", {})
    ((_, scores),) = method.score_corpus(
        [(0, text_array(corpus))], text_array(target), NO_SAMPLE, seed=0
    )
    assert (scores[2:22] > max(scores[:2])).sum() >= 10


def sentences(seed, n, words, in_order=0.75):
    """Texts in which a share of the words follow the word before them in the list."""
    draw = random.Random(seed)
    texts = []
    for _ in range(n):
        at = draw.randrange(len(words))
        text = []
        for _ in range(30):
            at = (at + 1) % len(words) if draw.random() < in_order else draw.randrange(len(words))
            text.append(words[at])
        texts.append(" ".join(text))
    return texts


def test_words_of_the_target_in_any_order_come_last():
    salad = sentences(11, 12, WORDS, 0.0)
    corpus = [*salad, *sentences(12, 50, WORDS), *sentences(13, 400, WORDS[:3] + OTHER)]
    target = text_array(sentences(14, 40, WORDS))
    method = registry.build("cynical", {})
    first = {}
    for name, sample in (("before", NO_SAMPLE), ("after", text_array(corpus[1::2]))):
        ((_, scores),) = method.score_corpus([(0, text_array(corpus))], target, sample, seed=0)
        order = np.argsort(-scores, kind="stable")
        first[name] = np.count_nonzero(order[: len(salad) + 50] < len(salad))
    assert first == {"before": len(salad), "after": 0}
    features = method.learn(target, text_array(corpus[1::2]))
    taken = TextCounts(np.ones(len(features.weights)), 100.0)
    scorer = RoundScorer.of(features, [taken], [Round(1_000, 1.0, -1.0)])
    assert all(e.effect < 0 for e in scorer.explain(salad[0]))
    assert any(e.effect > 0 for e in scorer.explain(corpus[len(salad)]))


def test_a_target_of_words_in_any_order_leaves_no_such_text_out():
    corpus = [*prose(11, 50, WORDS, 30), *sentences(12, 50, WORDS), *sentences(13, 400, OTHER)]
    features = registry.build("cynical", {}).learn(text_array(TARGET), text_array(corpus[1::2]))
    counted = features.count(text_array(corpus[:100]))
    assert np.count_nonzero(np.diff(counted.last, prepend=0) == 0) < 10


def test_the_targets_domain_comes_before_what_is_common_in_the_corpus():
    """Half of the domain's words are not in the target, all of the common ones are."""
    draw = random.Random(15)
    common, new = ([f"{name}{i}" for i in range(n)] for name, n in (("the", 30), ("new", 3_000)))

    def of_domain():
        parts = (draw.choices(WORDS, k=6), draw.choices(common, k=6), draw.sample(new, 12))
        return " ".join(itertools.chain(*parts))

    target = [text.split(" new")[0] for text in (of_domain() for _ in range(40))]
    domain = [of_domain() for _ in range(100)]
    corpus = [*domain, *(" ".join(draw.choices(common + OTHER, k=24)) for _ in range(900))]
    method = registry.build("cynical", {})
    ((_, scores),) = method.score_corpus(
        [(0, text_array(corpus))], text_array(target), NO_SAMPLE, seed=0
    )
    first = np.argsort(-scores, kind="stable")[:100]
    assert np.count_nonzero(first < 100) > 75


def test_a_score_is_the_share_taken_until_then():
    method = registry.build("cynical", {})
    corpus = prose(5, 3_000, WORDS + OTHER)
    ((_, scores),) = method.score_corpus(
        [(0, text_array(corpus))], text_array(TARGET), NO_SAMPLE, seed=0
    )
    order = np.argsort(-scores, kind="stable")
    words = np.array([len(reference(corpus[i])) for i in order])
    shares = np.cumsum(words) / words.sum()
    at = np.searchsorted(shares, [0.01, 0.05, 0.1, 0.3, 0.6])
    assert scores[order][at] == pytest.approx(-np.log2(shares[at]), abs=0.35)


def test_the_last_text_of_a_round_scores_above_the_first_of_the_next():
    rounds = [Round(10, 4.0, 2.0), Round(100, 3.0, 1.0), Round(1_000, 2.0, -5.0)]
    gains = np.array([4.0, 2.0, 3.0, 1.0, 2.0, -5.0, WORDLESS], np.float32)
    number = np.array([1, 1, 2, 2, 3, 3, 3], np.int16)
    scores = order_scores(gains, number, rounds)
    assert (np.diff(scores) < 0).all()
    assert np.isfinite(scores).all()
    assert order_scores(gains[:0], number[:0], rounds).shape == (0,)


def test_one_text_a_thousand_times_is_taken_by_position():
    method = registry.build("cynical", {})
    corpus = text_array(["kinase binds"] * 1_000)
    ((_, scores),) = method.score_corpus([(0, corpus)], text_array(TARGET), NO_SAMPLE, seed=0)
    assert (np.diff(scores) <= 0).all()
    assert len(set(scores.tolist())) > 5


def test_a_target_with_no_word_of_the_corpus_still_orders_it():
    method = registry.build("cynical", {})
    target = text_array(["слово", "ещё слово"])
    ((_, scores),) = method.score_corpus([(0, text_array(CORPUS))], target, NO_SAMPLE, seed=0)
    assert np.isfinite(scores).all()


def test_effects_add_up_to_the_gain_in_the_text_s_round():
    method = registry.build("cynical", {"rounds": 1, "pairs": 0.3})
    features = method.learn(text_array(TARGET), NO_SAMPLE)
    counted = features.count(text_array(CORPUS))
    n = int(counted.words.sum())
    taken = method.begin(taken_whole(features, counted), n)
    scorer = RoundScorer.of(features, [taken], [Round(1_000, 1.0, -1.0)])
    gains = taken.gains(features)(counted)
    for text, gain_of_text in zip(CORPUS[:40], gains, strict=False):
        effects = scorer.explain(text)
        worth = gain_of_text * taken.words / features.weights.sum()
        assert sum(e.effect for e in effects) == pytest.approx(worth, rel=1e-4, abs=1e-5)
    assert scorer.explain("?!") == []
    outside = scorer.explain("unheard words")
    assert [e.part for e in outside] == ["unheard", "words"]
    assert all(e.effect < 0 for e in outside)
