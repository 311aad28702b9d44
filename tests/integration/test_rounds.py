"""A method that takes the corpus in rounds: the same order over shards, workers and kills."""

import contextlib
import itertools

import numpy as np
import pytest
from journeys import digests, kill_at, scores

import corpusfit
from corpusfit import Machine
from corpusfit.core.artifacts import write_arrays
from corpusfit.core.types import text_array
from corpusfit.kernels.chance import place_keys, uniform
from corpusfit.scoring import registry
from corpusfit.scoring.rounds import order_scores
from corpusfit.selection import rounds
from corpusfit.selection.fit import Sample

SETTINGS = ("read.shard_mb=0.006", "method.rounds=6", "cut.gamma=2", "cut.pieces=24")
SAMPLE = (*SETTINGS, "method.rounds_gb=0.00004")
BOTH = pytest.mark.parametrize("settings", [SETTINGS, SAMPLE], ids=["all", "sample"])


@pytest.fixture
def run(task, pile, tmp_path, inline):
    """`select` with `cynical` over some twenty shards, in this process."""

    def run(out="out", **words):
        given = {"target": task, "corpus": pile, "method": "cynical", "settings": SETTINGS}
        given |= {"machine": inline, "fraction": 0.2, **words}
        return corpusfit.select(out=tmp_path / out, **given)

    return run


@pytest.fixture
def command_line(task, pile):
    """The same run as a command line."""

    def command_line(out, *more, settings=SETTINGS):
        return (
            *("select", "--target", task, "--corpus", pile, "--out", out, "--fraction", 0.2),
            *("--method", "cynical", *itertools.chain(*(("--set", s) for s in settings)), *more),
        )

    return command_line


def samples(done):
    """The texts of target and corpus that the method was fitted on."""
    folder = done.path / ".corpusfit/fit"
    return [Sample(folder, name).batch("text") for name in ("target", "background")]


def test_segments_are_taken_whole_in_the_order_of_memory(run):
    """`score_corpus` on the segments' texts is the reference."""
    done = run(policy="continuous", fraction=1.0)  # a text for each segment
    found = [
        (row["score"], segment["text"]) for row, segment in zip(scores(done), done, strict=True)
    ]
    method = registry.build("cynical", {"rounds": 6})
    segments = text_array([text for _, text in found])
    ((_, expected),) = method.score_corpus([(0, segments)], *samples(done), seed=0)
    assert len(found) > 500
    assert [score for score, _ in found] == expected.tolist()


@pytest.mark.parametrize("rounds", [6, 40])
def test_the_scorer_places_texts_as_the_rounds_did(run, inline, rounds):
    """Also those of small first rounds, whose counts are far below 1."""
    settings = (*SETTINGS, f"method.rounds={rounds}")
    done = run(policy="continuous", fraction=1.0, settings=settings)  # a text for each segment
    texts = text_array([segment["text"] for segment in done])
    scorer = done.scorer()
    apart = abs(scorer.score(texts) - [row["score"] for row in scores(done)]) > 1e-4
    # of texts with the lowest gain that a round took, its budget leaves some to the next round
    gains, number, _ = scorer.placed(scorer.features.count(texts))
    assert (gains[apart] == scorer.thresholds[number[apart] - 1]).all()
    assert rounds > 6 or not apart.any()
    explained = corpusfit.explain(done.path, row="task.jsonl:3", machine=inline)
    assert explained.raised
    assert explained.score == pytest.approx(
        corpusfit.explain(done.path, text=explained.text, machine=inline).score, abs=1e-4
    )


@pytest.mark.slow
@BOTH
def test_stopped_in_any_step_it_ends_the_same(run, monkeypatch, settings):
    whole = digests(run("whole", settings=settings).path)
    steps = []

    def count(*args):
        steps.append(args)
        write_arrays(*args)

    monkeypatch.setattr(rounds, "write_arrays", count)
    assert digests(run("counted", settings=settings).path) == whole
    total = len(steps)
    assert total > 30

    def stop(*args):
        if len(steps) == total // 3:
            raise KeyboardInterrupt
        count(*args)

    monkeypatch.setattr(rounds, "write_arrays", stop)
    stops = written = 0
    finished = None
    while finished is None:  # a run that begins again from its start would never end
        steps.clear()
        with contextlib.suppress(KeyboardInterrupt):
            finished = run("stopped", settings=settings)
        stops += finished is None
        written += len(steps)
    assert stops >= 3
    assert written < 1.5 * total  # what was written is used
    assert digests(finished.path) == whole
    assert not (finished.path / ".corpusfit" / "rounds").exists()


def test_one_text_a_thousand_times(run, jsonl):
    corpus = jsonl("same.jsonl", ["kinase binds"] * 1_000)
    done = run(corpus=corpus, settings=(), dedup="none")
    assert done.manifest["selected"]["segments"] == 200
    assert len({s["row"] for s in done}) == 200  # drawn from equals
    assert any("1 of 1,000" in w for w in done.manifest["warnings"])


def test_a_text_that_no_early_round_has_room_for_does_not_stop_them(run, jsonl):
    """Closed form: of texts of four words, each round takes what is a fourth of its budget."""
    target = jsonl("target.jsonl", ["a b c d e f g h i j k l"] * 30)
    long = "a b c d e f g h i j k l " * 100  # per word it costs next to nothing, so it comes first
    corpus = jsonl("corpus.jsonl", [long, *["w x y z"] * 2_000])
    settings = ("method.rounds=20", "cut.unit=document")
    done = run(target=target, corpus=corpus, settings=settings, fraction=1.0, dedup="none")
    first, *others = [row["score"] for row in scores(done)]
    assert others == sorted(others, reverse=True)
    words = 1_200 + 4 * 2_000
    budgets = [round(words * 10 ** (-5 + 5 * i / 19)) for i in range(20)]
    for budget in budgets:
        least = np.log2(words / max(1, budget)) + 1e-3
        alone = first <= least  # the long text is still left
        assert (np.array(others) > least).sum() == (budget if alone else budget - 1_200) // 4
    pairs = itertools.pairwise(budgets)
    before, after = next((b, a) for b, a in pairs if a - b // 4 * 4 >= 1_200)
    assert np.log2(words / after) < first <= np.log2(words / before) + 1e-3


def test_a_budget_beyond_the_corpus_takes_all_of_it(run):
    done = run(fraction=None, tokens=10**9)
    segments = done.manifest["counts"]["segments"]
    assert done.manifest["selected"]["segments"] == segments
    assert any(f"all {segments:,} segments" in w for w in done.manifest["warnings"])


def test_target_and_corpus_without_a_common_word(run, jsonl):
    done = run(target=jsonl("other.jsonl", ["слово и дело", "ещё одно слово"] * 20))
    assert any("no word" in w for w in done.manifest["warnings"])


def dense(counted, features):
    """The counts as a table, float64 [texts, features]."""
    table = np.zeros((len(counted.words), features))
    text = np.repeat(np.arange(len(counted.words)), np.diff(counted.last, prepend=0))
    table[text, counted.features] = counted.counts
    return table


def rounds_in_numpy(method, features, counted, sampled, share):
    """The scores of all texts by the rounds of a sample, the first of which are repeated."""
    counts, weights = dense(counted, len(features.weights)), features.weights
    words, corpus = counted.words.astype(float), np.maximum(counts.sum(0), 1.0)
    n, budgets = words.sum(), method.budgets(int(words.sum()))

    def take(left, share, budgets):
        """Gains of all texts by round, the bounds, and the round that took each."""
        taken, done, number = np.zeros(len(corpus)), 0.0, np.zeros(len(words), np.int16)
        all_gains, bounds = [], []
        for i, budget in enumerate(budgets, start=1):
            part = max(1, budget) / n
            begin = method.start * (1 + 100 * part) * part
            rises = weights * np.log1p(counts / (taken / share + corpus * begin))
            rise = np.minimum(rises, rises.sum(1, keepdims=True) / 10).sum(1)
            cost = weights.sum() * np.log1p(words / (done / share + n * begin))
            gains = ((rise - cost) / words).astype(np.float32)
            order = np.flatnonzero(left)[np.argsort(-gains[left], kind="stable")]
            chosen = order[np.cumsum(words[order]) <= np.ceil(budget * share) - done]
            bounds.append(rounds.Round(budget).widened(gains[left], gains[chosen]))
            all_gains.append(gains)
            left = left & ~np.isin(np.arange(len(left)), chosen)
            number[chosen] = i
            taken, done = taken + counts[chosen].sum(0), done + words[chosen].sum()
        return np.array(all_gains), bounds, number

    gains, bounds, _ = take(sampled, share, budgets)
    passed = gains >= np.array([[r.threshold] for r in bounds])
    passed[-1] = True
    until = sum(b <= share * n for b in budgets)
    again = sum(b <= share * n / 2 for b in budgets)
    early = passed[:until].any(0)
    early_gains, early_bounds, early_number = take(early, 1.0, budgets[:again])
    number = again + 1 + passed[again:].argmax(0)
    number = np.where(early_number > 0, early_number, number).astype(np.int16)
    all_gains = np.concatenate([early_gains, gains[again:]])
    found = all_gains[number - 1, np.arange(len(words))]
    assert 0 < (early_number > 0).sum() < early.sum() < len(early) / 2
    return order_scores(found, number, early_bounds + bounds[again:])


def test_a_large_corpus_is_scored_by_the_rounds_of_a_sample(run, pile):
    """Each text, sampled or not, as in numpy."""
    settings = (*SAMPLE, "method.rounds=30")
    done = run(policy="continuous", fraction=1.0, settings=settings)  # a text for each segment
    share = done.manifest["rounds"]["share"]
    characters = sum(len(segment["text"]) for segment in done)
    assert done.manifest["rounds"] == {"of": "sample", "share": pytest.approx(4e4 / characters)}
    assert f"{100 * share:.3g} % of the text;" in done.manifest["remark"]
    parts = list(done.scores())
    assert len(parts) > 10
    keys = np.concatenate([place_keys(0, shard, len(part)) for shard, part in enumerate(parts)])
    method = registry.build("cynical", {"rounds": 30})
    features = method.learn(*samples(done))
    counted = features.count(text_array([segment["text"] for segment in done]))
    sampled = uniform(keys) < share
    assert 0.3 < sampled.mean() < 0.7
    expected = rounds_in_numpy(method, features, counted, sampled, share)
    assert [row["score"] for row in scores(done)] == pytest.approx(expected.tolist(), abs=1e-4)


def test_a_sample_of_everything_is_the_corpus(run):
    whole = run("whole")
    characters = sum(len(segment["text"]) for segment in run("texts", fraction=1.0))
    exactly = f"method.rounds_gb={characters / 1e9!r}"
    assert digests(run("sample", settings=(*SETTINGS, exactly)).path) == digests(whole.path)
    assert whole.manifest["rounds"] == {"of": "all", "share": 1.0}
    assert whole.manifest["remark"] == ""


def test_what_is_like_the_target_comes_first_though_the_sample_has_nothing_like_it(run, jsonl):
    likes = ["kinase binds the receptor", "kinase binds the receptor of cells and inhibits growth"]
    texts = [f"a bank sold the bonds in quarter {i}" for i in range(2_000)]
    share = 0.25
    outside = np.flatnonzero(uniform(place_keys(0, 0, len(texts))) > 2 * share)[5:7].tolist()
    for at, like in zip(outside, likes, strict=True):
        texts[at] = like
    corpus = jsonl("skew.jsonl", texts)
    target = jsonl("target.jsonl", ["kinase binds the receptor of cells and inhibits growth"] * 30)
    gb = f"method.rounds_gb={share * sum(map(len, texts)) / 1e9!r}"
    done = run(target=target, corpus=corpus, settings=(gb,))
    found = np.array([row["score"] for row in scores(done)])
    assert set(np.argsort(-found)[:2].tolist()) == set(outside)
    assert len(set(found[outside].tolist())) == 2


@pytest.mark.slow
def test_any_number_of_workers_gives_the_same_bytes(run):
    whole = digests(run("inline", settings=SAMPLE).path)
    assert digests(run("with 2", machine=Machine(workers=2), settings=SAMPLE).path) == whole


@pytest.mark.long
@BOTH
def test_ray_gives_the_same_bytes(run, own_ray, tmp_path, settings):
    whole = digests(run("inline", settings=settings).path)
    machine = Machine("ray", workers=2, cache=tmp_path / "cache")
    assert digests(run("ray", machine=machine, settings=settings).path) == whole


@pytest.mark.long
@BOTH
def test_killed_in_its_rounds_it_ends_the_same(run, start, cli, command_line, tmp_path, settings):
    whole = digests(run("whole", settings=settings).path)
    out = tmp_path / "killed"
    moments = [("counted/part-*", 5), ("groups/group-*", 2), ("round-*", 2), ("round-*", 5)]
    if settings == SAMPLE:
        moments = [("counted/part-*", 5), ("sample/groups/group-*", 1), ("sample/round-*", 5)]
        moments += [("placed/part-*", 5), ("early/round-*", 3), ("../scored/part-*", 2)]
    for pattern, count in moments:
        process = start(*command_line(out, "--workers", 2, settings=settings))
        assert kill_at(process, out / ".corpusfit/rounds", pattern, count), pattern
    assert cli(*command_line(out, settings=settings)).code == 0
    assert digests(out) == whole
