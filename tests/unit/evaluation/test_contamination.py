"""Held-out texts are found in copies of all kinds; compared with sets and datasketch's MinHash."""

import random

import numpy as np
import pytest

from corpusfit.core.types import text_array
from corpusfit.decontamination.finder import (
    CONTAINMENT,
    ContaminationFinder,
    HeldoutIndex,
)
from corpusfit.kernels.tokens import reference
from corpusfit.text.same_text import text_keys

VOCABULARY = [f"{a}{b}{c}" for a in "bdfgk" for b in "aeiou" for c in "lmnrst"]


def prose(words, seed):
    return " ".join(random.Random(seed).choices(VOCABULARY, k=words))


def grams(text):
    words = reference(text)
    return {" ".join(words[i : i + 5]) for i in range(len(words) - 4)}


def containment(watched, text):
    """Containment of all 5-grams, by sets."""
    return len(grams(watched) & grams(text)) / len(grams(watched))


def edited(text, share, seed):
    """The text with a share of its words replaced."""
    rng = random.Random(seed)
    return " ".join("other" if rng.random() < share else word for word in text.split())


def held(watched, texts):
    """(text, number of the held-out text): containment."""
    found = ContaminationFinder(HeldoutIndex.of_texts(watched)).find(text_array(texts))
    pairs = zip(found.text, found.heldout, found.containment, strict=True)
    return {(int(t), int(w)): float(c) for t, w, c in pairs}


def test_a_copy_is_found_in_any_layout_and_any_context():
    text = prose(40, 1)
    copies = [
        text,
        text.upper(),
        ", ".join(text.split()),
        "\n".join(text.split()),
        f"{prose(300, 2)} {text} {prose(300, 3)}",
        " ".join(text.split()[:36]),  # 32 of 36 5-grams
    ]
    others = [prose(40, 4), " ".join(text.split()[:30]), " ".join(reversed(text.split())), ""]
    found = held([prose(60, 5), text], copies + others)
    assert set(found) == {(i, 1) for i in range(len(copies))}
    assert [found[i, 1] for i in range(5)] == [1.0] * 5
    assert found[5, 1] == pytest.approx(32 / 36)


@pytest.mark.slow
def test_containment_of_short_texts_is_exactly_that_of_sets():
    watched = [prose(n, n) for n in range(8, 120, 3)]
    texts = [edited(t, share, i) for i, t in enumerate(watched) for share in (0.0, 0.02, 0.05, 0.2)]
    expected = {
        (i, w): c
        for i, text in enumerate(texts)
        for w, other in enumerate(watched)
        if (c := containment(other, text)) >= CONTAINMENT
    }
    assert 40 < len(expected) < len(texts)
    assert held(watched, texts) == pytest.approx(expected)


def test_containment_of_long_texts_is_an_unbiased_estimate():
    errors = []
    for seed in range(150):
        watched = prose(600, seed)
        text = edited(watched, 0.03, seed)
        sketch = held([watched], [text])
        true = containment(watched, text)
        errors += [c - true for c in sketch.values()] if true > CONTAINMENT + 0.03 else []
    # 128 of 596 without replacement: a standard deviation of about 0.027
    assert len(errors) > 80
    assert abs(np.mean(errors)) < 4 * 0.03 / np.sqrt(len(errors))
    assert 0.01 < np.std(errors) < 0.04


def test_all_that_minhash_lsh_finds_is_found():
    """datasketch finds Jaccard similarity, which is never above containment."""
    datasketch = pytest.importorskip("datasketch")

    def signature(text):
        minhash = datasketch.MinHash(num_perm=256, seed=1)
        minhash.update_batch([gram.encode() for gram in grams(text)])
        return minhash

    watched = [prose(90, seed) for seed in range(40)]
    texts = [edited(t, (i % 5) / 50, i) for i, t in enumerate(watched)]
    texts += [f"{t} {prose(60, 1_000 + i)}" for i, t in enumerate(watched)]
    index = datasketch.MinHashLSH(threshold=CONTAINMENT, num_perm=256)
    for w, text in enumerate(watched):
        index.insert(w, signature(text))
    theirs = set()
    for i, text in enumerate(texts):
        for w in index.query(signature(text)):
            shared = grams(text) & grams(watched[w])
            if len(shared) >= CONTAINMENT * len(grams(text) | grams(watched[w])):
                theirs.add((i, w))
    ours = set(held(watched, texts))
    assert len(theirs) >= 8
    assert theirs <= ours
    assert {(40 + w, w) for w in range(40)} <= ours - theirs  # those inside longer texts


def test_short_texts_are_found_only_as_whole_texts():
    short = [
        "A very good film!",
        "one two three four five six seven",
        "no no no no no no no no no no no",
    ]
    same = ["a VERY good film", "One, two, three; four five six seven.", short[2] + "!"]
    longer = [f"It is {text} and more." for text in short]
    assert held(short, same + longer) == {(i, i): 1.0 for i in range(3)}
    eight = "one two three four five six seven eight"
    assert held([eight], [f"so {eight} so"]) == {(0, 0): 1.0}


def test_a_tokenised_text_is_found_in_its_printed_form():
    task = "it does n't do what it ca n't do , and we wo n't say it is n't so ."
    printed = "Before. It doesn't do what it can't do, and we won't say it isn't so. After."
    assert held([task], [printed, f"x {task} y"]) == {(0, 0): 1.0, (1, 0): 1.0}


def test_copies_are_one_text_texts_of_signs_are_compared_whole_and_blank_ones_are_skipped():
    watched = HeldoutIndex.of_texts(["Some text.", "some TEXT", "?!", "", "another"])
    assert watched.numbers(["some text!", "another", "? !", "!?"]).tolist() == [0, 2, 1, -1]
    assert held(["?!", " "], ["?!", "", "a", "...", "!!! Title"]) == {(0, 0): 1.0}
    assert HeldoutIndex.of_texts([]).numbers(["a"]).tolist() == [-1]


def test_lone_surrogates_are_accepted():
    text = prose(20, 7)
    assert held([f"{text} \ud800"], [text]) == {(0, 0): pytest.approx(1.0, abs=0.1)}


def test_matches_depend_neither_on_the_batch_nor_on_storing_the_index(tmp_path):
    watched = [prose(30 + n, n) for n in range(30)]
    texts = [
        f"{prose(20, -n - 1)} {watched[n % 30]}" if n % 3 else prose(50, 500 + n) for n in range(60)
    ]
    HeldoutIndex.of_texts(watched).write(tmp_path / "watched")
    watch = ContaminationFinder(HeldoutIndex.read(tmp_path / "watched"))
    alone = set()
    for i, text in enumerate(texts):
        found = watch.find(text_array([text]))
        alone |= {(i, int(w)) for w in found.heldout}
    assert alone == set(held(watched, texts))
    assert len(alone) == 40
    slice_of = text_array(texts)[20:]
    assert len(watch.find(slice_of)) == sum(i >= 20 for i, _ in alone)


def test_the_keys_are_those_of_stored_tokens():
    assert HeldoutIndex.of_texts(["One, two!"]).keys.tolist() == text_keys(["one TWO"]).tolist()
