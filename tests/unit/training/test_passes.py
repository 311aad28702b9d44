"""Chunks and passes against closed forms: shares, expected counts, alignment, effective size."""

import numpy as np
import pytest

from corpusfit.core.errors import EmptyInputError, InputError
from corpusfit.kernels.chance import value_keys
from corpusfit.training.batches import Feed, Passes, drawn_counts
from corpusfit.training.chunks import Chunks, cut_chunks, exclude_keys, split_heldout

SETTINGS = {"length": 64, "overhead": 2, "resample": False, "pack": True, "batch": 8, "seed": 3}


KEYS = value_keys(0, 0, np.arange(1_000, dtype=np.uint64))
"""Keys of a thousand distinct texts."""


def chunks(lengths, weights=None, room=62, store=0):
    lengths = np.asarray(lengths, np.int64)
    weights = np.ones(len(lengths)) if weights is None else np.asarray(weights)
    return cut_chunks(lengths, weights.astype(np.float32), room, store=store)


def passes(data, replay=None, share=0.0, **settings):
    return Passes(data, replay, share, **{**SETTINGS, **settings})


def lengths_of(n, seed=0):
    return np.random.default_rng(seed).integers(1, 200, n)


def test_texts_are_cut_one_after_the_other():
    found = chunks([5, 0, 4, 1, 8], [1, 2, 3, 4, 5], room=4, store=1)
    assert found.text.tolist() == [0, 0, 2, 3, 4, 4]
    assert found.begin.tolist() == [0, 4, 0, 0, 0, 4]
    assert found.length.tolist() == [4, 1, 4, 1, 4, 4]
    assert found.weight.tolist() == [1, 1, 3, 4, 5, 5]
    assert found.store.tolist() == [1] * 6
    assert len(chunks([])) == len(chunks([0, 0])) == 0


@pytest.mark.parametrize(
    ("texts", "most", "share", "held"),
    [
        (1, 9, 0.05, 0),
        (2, 9, 0.05, 1),
        (39, 9, 0.05, 1),
        (40, 9, 0.05, 2),
        (400, 9, 0.05, 9),
        (400, 99, 0.05, 20),
        (400, 0, 0.05, 0),
        (400, 99, 0.1, 40),
        (1, 9, 1.0, 1),
        (30, 99, 1.0, 30),
    ],
)
def test_whole_texts_are_held_out(texts, most, share, held):
    data = chunks(np.concatenate([[0, 0], lengths_of(texts)]))
    training, kept = split_heldout(data, KEYS, most, 5, share)
    assert len(kept) == len(set(kept.text.tolist())) == held
    assert not set(kept.text.tolist()) & set(training.text.tolist())
    assert len(set(training.text.tolist())) == texts - held
    everything = set(zip(data.text.tolist(), data.begin.tolist(), strict=True))
    assert set(zip(kept.text.tolist(), kept.begin.tolist(), strict=True)) <= everything
    gone = sum(data.text.tolist().count(t) for t in kept.text.tolist())
    assert len(training) == len(data) - gone


def test_copies_are_held_out_together_and_one_stands_for_them():
    data = chunks(lengths_of(60))
    keys = KEYS.copy()
    keys[30:60] = keys[:30]
    training, kept = split_heldout(data, keys, 99, 3, 0.2)
    assert len(kept) == len(set(kept.text.tolist())) == 6
    assert kept.text.max() < 30
    gone = {t for text in kept.text.tolist() for t in (text, text + 30)}
    assert set(training.text.tolist()) == set(range(60)) - gone
    assert len(exclude_keys(training, keys, keys[:30])) == 0


def test_every_text_and_every_chunk_of_it_is_as_likely_held_out():
    data = chunks([62 * 4] * 40)
    texts, begins = np.zeros(40), np.zeros(4)
    draws = 2_000
    for seed in range(draws):
        _, kept = split_heldout(data, KEYS, 99, seed)
        np.add.at(texts, kept.text, 1)
        np.add.at(begins, kept.begin // 62, 1)
    for hits in (texts, begins):
        assert hits.sum() == 2 * draws
        share = 1 / len(hits)
        spread = np.sqrt(2 * draws * share * (1 - share))
        assert np.abs(hits - 2 * draws * share).max() < 4.5 * spread


def test_a_held_out_text_stays_so_when_others_are_left_out():
    lengths = lengths_of(200)
    _, kept = split_heldout(chunks(lengths), KEYS, 10, seed=1)
    fewer = lengths.copy()
    fewer[np.setdiff1d(np.arange(100), kept.text)] = 0
    _, again = split_heldout(chunks(fewer), KEYS, 10, seed=1)
    assert set(again.text.tolist()) <= set(kept.text.tolist())
    assert len(again) > 2


def test_each_chunk_comes_once_a_pass_in_another_order():
    found = passes(chunks(lengths_of(300)))
    first, second = (found.rows(p) for p in range(2))
    n = len(found.chunks)
    assert sorted(first.order.tolist()) == sorted(second.order.tolist()) == list(range(n))
    assert first.order.tolist() != second.order.tolist()
    np.testing.assert_array_equal(found.rows(0).order, first.order)  # also after another pass
    other = passes(found.chunks, seed=4).rows(0)
    assert other.order.tolist() != first.order.tolist()


def test_fill_is_the_share_of_tokens():
    data = chunks([30, 30, 30])  # 32 tokens each, two in a row of 64
    assert len(passes(data).rows(0)) == 2
    assert passes(data).fill() == 96 / 128


@pytest.mark.parametrize("draw", [False, True])
@pytest.mark.parametrize("pack", [False, True])
@pytest.mark.parametrize("share", [0.05, 0.5, 0.9])
def test_replay_makes_its_share_of_the_tokens(draw, pack, share):
    lengths = lengths_of(2_000)
    data, general = chunks(lengths, lengths**2), chunks(lengths_of(900, 1), store=1)
    all_passes = passes(data, general, share, resample=draw, pack=pack)
    for number in range(3):
        order = all_passes.rows(number).order
        tokens, of_general = all_passes.chunks.length[order], all_passes.chunks.store[order] == 1
        own = int(tokens[~of_general].sum())
        if not draw:
            assert abs(int(tokens[of_general].sum()) - own * share / (1 - share)) <= 64
        assert abs(tokens[of_general].sum() / tokens.sum() - share) < 0.01


def test_replay_goes_round_from_pass_to_pass():
    data, general = chunks([62] * 100), chunks(lengths_of(500, 1), store=1)
    all_passes = passes(data, general, 0.1)
    orders = [all_passes.rows(p).order for p in range(60)]
    seen = np.concatenate([o[o >= len(data)] for o in orders]) - len(data)
    counts = np.bincount(seen, minlength=len(general))
    assert counts.max() - counts.min() <= 1  # no chunk repeats before all have come
    first = np.bincount(orders[0][orders[0] >= len(data)] - len(data), minlength=len(general))
    assert first.max() == 1
    tiny = passes(data, chunks([3, 5], store=1), 0.5).rows(0).order
    counts = np.bincount(tiny[tiny >= len(data)] - len(data))
    assert abs(int(counts @ [3, 5]) - 6_200) <= 8
    assert abs(counts[0] - counts[1]) <= 1


def test_drawing_gives_the_expected_counts_rounded():
    rng = np.random.default_rng(0)
    for weights in (rng.random(999), rng.pareto(0.7, 500), rng.integers(0, 3, 400)):
        w = weights.astype(np.float32)
        expected = len(w) * w.astype(np.float64) / w.astype(np.float64).sum()
        for offset in (0.0, 0.3, 1 - 2**-53):
            counts = drawn_counts(w, offset)
            assert counts.sum() == len(w)
            assert (np.abs(counts - expected) < 1).all()
            assert (counts[w == 0] == 0).all()


def test_over_a_uniform_chance_counts_are_exactly_in_proportion():
    """The mean over a grid of offsets is within half a grid step of n w / sum w."""
    w = np.random.default_rng(1).random(50).astype(np.float32)
    w[[3, 49]] = 0
    grid = (np.arange(4_000) + 0.5) / 4_000
    mean = np.mean([drawn_counts(w, offset) for offset in grid], axis=0)
    np.testing.assert_allclose(mean, 50 * w / w.astype(np.float64).sum(), atol=1 / 4_000)


def test_over_many_passes_chunks_are_drawn_by_their_weight():
    rng = np.random.default_rng(2)
    weights = rng.random(80) ** 3
    weights[:5] = 0
    data = chunks([40] * 80, weights)
    all_passes = passes(data, resample=True)
    hits, together = np.zeros(80), 0
    for number in range(3_000):
        order = all_passes.rows(number).order
        assert len(order) == 80
        hits += np.bincount(order, minlength=80)
        together += order[0] == order[1]
    expected = 3_000 * 80 * weights / weights.sum()
    assert (hits[:5] == 0).all()
    rest = expected / 3_000 % 1
    spread = np.sqrt(3_000 * rest * (1 - rest)) + 1e-9
    assert (np.abs(hits - expected) / spread)[5:].max() < 4.5
    assert together < 3_000 * 0.2  # copies of a chunk are not adjacent


def test_the_loss_counts_weights_over_the_mean_weight_of_a_token():
    data = chunks([10, 30, 60], [0.5, 0, 1])
    all_passes = passes(data, chunks([9, 9], [5, 7], store=1), 0.1)
    mean = (10 * 0.5 + 60 * 1) / 100
    np.testing.assert_allclose(all_passes.scale, [0.5 / mean, 0, 1 / mean, 1, 1], rtol=1e-6)
    assert all_passes.scale[:3] @ data.length / 100 == pytest.approx(1)
    drawn = passes(data, resample=True)
    assert drawn.scale.tolist() == [1, 1, 1]


@pytest.mark.parametrize("draw", [False, True])
def test_a_frequency_is_the_mean_count_in_a_pass_times_the_scale(draw):
    """Counted over 600 passes, with replay text that comes once in about four passes."""
    weights = np.random.default_rng(2).random(30)
    data, general = chunks([40] * 30, weights), chunks([20] * 80, store=1)
    all_passes = passes(data, general, 0.25, resample=draw)
    counts = np.zeros(len(all_passes.chunks))
    for number in range(600):
        np.add.at(counts, all_passes.rows(number).order, 1)
    found = counts / 600 * all_passes.scale
    np.testing.assert_allclose(found, all_passes.frequency, atol=4.5 * 0.5 / np.sqrt(600))
    np.testing.assert_allclose(found[30:], all_passes.frequency[30:], atol=2 / 600)


@pytest.mark.parametrize("share", [0.0, 0.3])
@pytest.mark.parametrize("draw", [False, True])
def test_without_packing_batches_hold_similar_lengths_also_across_passes(share, draw):
    """Every batch but those at the end of a pass has a narrow range of lengths."""
    data = chunks(lengths_of(1_000), room=200)
    general = chunks(lengths_of(300, 1), room=200, store=1) if share else None
    all_passes = passes(data, general, share, length=202, pack=False, resample=draw)
    feed, wide, batches, tokens, padded = Feed(all_passes), 0, 0, 0, 0
    while feed.at[0] < 4:
        rows = feed.take(8)
        assert all(len(r) == 1 for r in rows)
        lengths = all_passes.chunks.length[np.concatenate(rows)] + 2  # special tokens
        wide += np.ptp(lengths) > 12
        tokens += lengths.sum()
        padded += len(lengths) * lengths.max()
        batches += 1
    assert batches > 490
    assert wide <= 2 * 4
    assert tokens / padded > 0.97


def test_unusable_data_is_an_error():
    with pytest.raises(EmptyInputError, match=r"Check `data`\.$"):
        passes(chunks([0, 0]))
    with pytest.raises(EmptyInputError, match=r"Check `replay`\.$"):
        passes(chunks([5]), chunks([0]), 0.1)
    with pytest.raises(InputError, match=r"choose\.alpha"):
        passes(chunks([5, 5], [0, 0]), resample=True)
    for bad in (-0.5, np.nan, np.inf):
        with pytest.raises(InputError, match="weight"):
            passes(chunks([5, 5], [1, bad]))


def test_which_chunks_are_drawn_together_is_random():
    """20 of 40 shares of a half are drawn; in a fixed order it would be every other one."""
    all_passes = passes(chunks([9] * 40, [1, 3] * 20), resample=True)
    drawn = [np.bincount(all_passes.rows(p).order, minlength=40) for p in range(30)]
    assert len({tuple(d.tolist()) for d in drawn}) == 30


def test_the_order_of_batches_is_not_the_order_of_lengths():
    all_passes = passes(chunks(lengths_of(400), room=200), length=202, pack=False)
    means = all_passes.chunks.length[all_passes.rows(0).order].reshape(-1, 8).mean(1)
    assert abs(np.corrcoef(means, np.arange(len(means)))[0, 1]) < 0.4


def test_chunks_are_selected_and_concatenated():
    data = chunks([5, 6], [1, 2]).followed_by(chunks([7], [3], store=1))
    assert isinstance(data, Chunks)
    assert data.take(np.array([2, 0])).length.tolist() == [7, 5]
    assert data.take(np.array([False, True, True])).store.tolist() == [0, 1]
