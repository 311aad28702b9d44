"""The background sample is the same however the corpus is split up and in whatever order."""

import json
from functools import partial

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from corpusfit.core.plan import CutPlan, ReadPlan
from corpusfit.core.types import Shard
from corpusfit.kernels.chance import bottom_k, place_keys, uniform
from corpusfit.selection.samples import ALL, SampledUnits, merge, sample_texts

shard_sizes = st.dictionaries(st.integers(0, 10**6), st.integers(0, 40), max_size=8)


def listed(drawn):
    return [(shard, places.tolist()) for shard, places in drawn]


@given(shard_sizes, st.integers(1, 60), st.integers(0, 2**63 - 1), st.randoms())
def test_the_order_of_shards_does_not_matter(sizes, k, seed, order):
    counts = sorted(sizes.items())
    shuffled = list(counts)
    order.shuffle(shuffled)
    drawn = listed(bottom_k(counts, k, seed))
    assert listed(bottom_k(shuffled, k, seed)) == drawn
    assert [shard for shard, _ in drawn] == sorted({shard for shard, _ in drawn})
    assert sum(len(places) for _, places in drawn) == min(k, sum(sizes.values()))
    for shard, places in drawn:
        assert places
        assert places == sorted(set(places))
        assert places[-1] < sizes[shard]


@given(shard_sizes, st.integers(1, 60), st.integers(0, 2**63 - 1), st.data())
def test_drawing_texts_by_shard_and_merging_is_the_same_sample(sizes, k, seed, data):
    """Workers hand over their k best in any order, and what is held is merged now and then."""
    drawn = []
    for shard, n in data.draw(st.permutations(sorted(sizes.items()))):
        keys = place_keys(seed, shard, n)
        kept = np.sort(np.argsort(keys, kind="stable")[:k])
        texts = [f"{shard}/{i}" for i in kept]
        drawn.append(SampledUnits(shard, keys[kept], texts))
        if data.draw(st.booleans()):
            drawn = merge(drawn, k)
    merged = [text for d in (merge(drawn, k) if drawn else []) for text in d.texts]
    places = bottom_k(sorted(sizes.items()), k, seed)
    assert merged == [f"{shard}/{i}" for shard, at in places for i in at]


@settings(max_examples=50)
@given(st.integers(0, 2**63 - 1), st.integers(0, 10**9), st.integers(0, 200), st.integers(0, 200))
def test_a_places_key_does_not_depend_on_how_many_follow(seed, shard, n, more):
    keys = place_keys(seed, shard, n + more)
    np.testing.assert_array_equal(keys[:n], place_keys(seed, shard, n))
    chance = uniform(keys)
    assert ((chance > 0) & (chance < 1)).all()


def mix(z):
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 % 2**64
    z = (z ^ z >> 27) * 0x94D049BB133111EB % 2**64
    return z ^ z >> 31


def splitmix64(state, n):
    return [mix((state + i * 0x9E3779B97F4A7C15) % 2**64) for i in range(1, n + 1)]


def test_keys_are_splitmix64s():
    """A stream for each seed and shard; the reference's published outputs check ours."""
    assert splitmix64(1234567, 3) == [
        6457827717110365317,
        3203168211198807973,
        9817491932198370423,
    ]
    (start,) = splitmix64(7, 1)
    assert place_keys(7, 0, 5).tolist() == splitmix64(mix(start), 5)


def test_every_unit_is_drawn_as_often_whatever_its_shard():
    counts = [(0, 40), (3, 1), (4, 25), (9, 34)]
    first = dict(zip([0, 3, 4, 9], [0, 40, 41, 66], strict=True))
    hits = np.zeros(100)
    draws = 2000
    for seed in range(draws):
        for shard, places in bottom_k(counts, 20, seed):
            hits[first[shard] + places] += 1
    expected, spread = 0.2 * draws, np.sqrt(draws * 0.2 * 0.8)
    assert hits.sum() == 20 * draws
    assert np.abs(hits - expected).max() < 5 * spread
    squares = ((hits - expected) ** 2).sum() / (spread**2)  # chi-squared, 99 degrees of freedom
    assert 50 < squares < 160


def shard_of(lengths, number, sentence="Ab cd. "):
    lines = [json.dumps({"text": f"Row {number} {i}. " + sentence * n}) for i, n in lengths]
    data = "\n".join(lines).encode() + b"\n"
    return Shard(number, 0, "jsonl", 0, 0, data, (), 0)


def sampler(k, unit="sentence", seed=0):
    return partial(sample_texts, ReadPlan(), CutPlan(unit=unit), ("a",), k, seed)


@given(
    st.lists(st.lists(st.integers(0, 60), min_size=1, max_size=8), min_size=1, max_size=5),
    st.integers(1, 80),
    st.integers(0, 2**63 - 1),
    st.data(),
)
def test_the_sample_does_not_depend_on_when_the_bound_is_known(sizes, k, seed, data):
    shards = [shard_of(list(enumerate(of)), i) for i, of in enumerate(sizes)]
    whole = [sampler(k, seed=seed)((s, ALL))[0] for s in shards]
    expected = merge(whole, k)
    drawn, bound = [], ALL
    for shard in data.draw(st.permutations(shards)):
        drawn.append(sampler(k, seed=seed)((shard, bound))[0])
        if data.draw(st.booleans()) and sum(len(d.texts) for d in drawn) > k:
            drawn = merge(drawn, k)
            bound = int(max(d.keys.max() for d in drawn)) + 1
    assert [d.texts for d in merge(drawn, k)] == [d.texts for d in expected]
    total = sum(n + 1 for of in sizes for n in of)
    held = [t for d in expected for t in d.texts]
    assert len(held) >= min(k, total)
    if k >= total:
        assert len(held) == total
        assert len(set(held)) >= len(sizes)


def test_every_unit_is_as_likely_whatever_its_document():
    """Long documents and short ones, over 400 seeds: the share of units drawn is the same."""
    lengths = [0] * 100 + [99] * 3 + [399]
    shard = shard_of(list(enumerate(lengths)), 0, "Many a word ".ljust(90, "x") + ". ")
    found = np.zeros(2)
    for seed in range(200):
        drawn = merge([sampler(200, "sentence", seed)((shard, ALL))[0]], 200)
        texts = [text for d in drawn for text, _ in d.texts]
        found += (
            sum(t.startswith("Row") and int(t.split()[2][:-1]) < 100 for t in texts),
            len(texts),
        )
    assert abs(found[0] / found[1] - 100 / (100 + 300 + 400)) < 0.01
