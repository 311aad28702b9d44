"""A method that takes the corpus in rounds: the same order over shards, workers and kills."""

import contextlib
import itertools

import pytest
from journeys import digests, kill_at, scores

import corpusfit
from corpusfit import Machine
from corpusfit.core.artifacts import write_arrays
from corpusfit.core.types import text_array
from corpusfit.scoring import registry
from corpusfit.selection import rounds
from corpusfit.selection.fit import Sample

SETTINGS = ("read.shard_mb=0.006", "method.rounds=6", "cut.gamma=2", "cut.pieces=24")


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

    def command_line(out, *more):
        settings = itertools.chain(*(("--set", s) for s in SETTINGS))
        return (
            *("select", "--target", task, "--corpus", pile, "--out", out, "--fraction", 0.2),
            *("--method", "cynical", *settings, *more),
        )

    return command_line


def test_segments_are_taken_whole_in_the_order_of_memory(run):
    """`score_corpus` on the segments' texts is the reference."""
    done = run(fraction=1.0)
    found = [
        (row["score"], segment["text"]) for row, segment in zip(scores(done), done, strict=True)
    ]
    target = Sample(done.path / ".corpusfit/fit", "target").batch("text")
    method = registry.corpus_method("cynical", {"rounds": 6})
    segments = text_array([text for _, text in found])
    ((_, expected),) = method.score_corpus([(0, segments)], target, None, seed=0)
    assert len(found) > 500
    assert [score for score, _ in found] == expected.tolist()


@pytest.mark.parametrize("rounds", [6, 40])
def test_the_scorer_places_texts_as_the_rounds_did(run, inline, rounds):
    """Also those of small first rounds, whose counts are far below 1."""
    done = run(fraction=1.0, settings=(*SETTINGS, f"method.rounds={rounds}"))
    texts = text_array([segment["text"] for segment in done])
    scorer = done.scorer()
    apart = abs(scorer.score(texts) - [row["score"] for row in scores(done)]) > 1e-4
    # of texts with the lowest gain that a round took, its budget leaves some to the next round
    gains, number = scorer._placed(texts)
    assert (gains[apart] == scorer.thresholds[number[apart] - 1]).all()
    assert rounds > 6 or not apart.any()
    explained = corpusfit.explain(done.path, row="task.jsonl:3", machine=inline)
    assert explained.raised
    assert explained.score == pytest.approx(
        corpusfit.explain(done.path, text=explained.text, machine=inline).score, abs=1e-4
    )


def test_stopped_in_any_step_it_ends_the_same(run, monkeypatch):
    whole = digests(run("whole").path)
    steps = []

    def count(*args):
        steps.append(args)
        write_arrays(*args)

    monkeypatch.setattr(rounds, "write_arrays", count)
    assert digests(run("counted").path) == whole
    total = len(steps)
    assert total > 30

    def stop(*args):
        if len(steps) == 11:
            raise KeyboardInterrupt
        count(*args)

    monkeypatch.setattr(rounds, "write_arrays", stop)
    stops = written = 0
    finished = None
    while finished is None:  # a run that begins again from its start would never end
        steps.clear()
        with contextlib.suppress(KeyboardInterrupt):
            finished = run("stopped")
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
    assert [s["row"] for s in done] == list(range(200))
    assert any("1 of 1,000" in w for w in done.manifest["warnings"])


def test_a_budget_beyond_the_corpus_takes_all_of_it(run):
    done = run(fraction=None, tokens=10**9)
    segments = done.manifest["counts"]["segments"]
    assert done.manifest["selected"]["segments"] == segments
    assert any(f"all {segments:,} segments" in w for w in done.manifest["warnings"])


def test_target_and_corpus_without_a_common_word(run, jsonl):
    done = run(target=jsonl("other.jsonl", ["слово и дело", "ещё одно слово"] * 20))
    assert any("no word" in w for w in done.manifest["warnings"])


@pytest.mark.slow
def test_any_number_of_workers_gives_the_same_bytes(run):
    whole = digests(run("inline").path)
    assert digests(run("with 2", machine=Machine(workers=2)).path) == whole


@pytest.mark.slow
def test_ray_gives_the_same_bytes(run, own_ray, tmp_path):
    whole = digests(run("inline").path)
    machine = Machine("ray", workers=2, cache=tmp_path / "cache")
    assert digests(run("ray", machine=machine).path) == whole


@pytest.mark.slow
def test_killed_in_its_rounds_it_ends_the_same(run, start, cli, command_line, tmp_path):
    whole = digests(run("whole").path)
    out = tmp_path / "killed"
    moments = [("counted/part-*", 5), ("groups/group-*", 2), ("round-*", 2), ("round-*", 5)]
    for pattern, count in moments:
        process = start(*command_line(out, "--workers", 2))
        assert kill_at(process, out / ".corpusfit/rounds", pattern, count), pattern
    assert cli(*command_line(out)).code == 0
    assert digests(out) == whole
