"""Cascades end to end: every segment has its place, whatever happens on the way."""

import itertools
import json
import random
import uuid

import numpy as np
import pytest
from journeys import WORDS, digests, kill_at, prose, scores, stamps, write_rows

import corpusfit
from corpusfit import Machine
from corpusfit.core.engine import Call
from corpusfit.core.errors import UsageError
from corpusfit.scoring import registry
from corpusfit.selection.cascade import ScoreStage

pytestmark = pytest.mark.slow
SHARDS = "read.shard_mb=0.02"
TEXTS = "random>dsir>moore_lewis"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A task, and a corpus of long and short documents of mixed topics; no test writes to them."""
    folder = tmp_path_factory.mktemp("cascade")
    write_rows(folder / "task.jsonl", prose("task", 40))
    chance = random.Random(4)
    for topic in WORDS:
        texts = []
        for i in range(150):
            words = WORDS[topic] if i % 3 else [w for words in WORDS.values() for w in words]
            texts.append(" ".join(chance.choices(words, k=chance.randint(4, 120))) + f" {i}.")
        write_rows(folder / f"pile/{topic}.jsonl", texts)
    return folder


@pytest.fixture(scope="module")
def task(folder):
    return folder / "task.jsonl"


@pytest.fixture(scope="module")
def pile(folder):
    return folder / "pile"


@pytest.fixture(scope="module")
def select(task, pile, inline):
    """`select` with a cascade, in this process."""

    def select(out, **words):
        machine = words.pop("machine", inline)
        settings = [SHARDS, "cut.pieces=30", "cut.gamma=2", *words.pop("settings", ())]
        given = {"target": task, "corpus": pile, "cascade": TEXTS, "fraction": 0.1, **words}
        return corpusfit.select(out=out, machine=machine, settings=settings, **given)

    return select


@pytest.fixture
def run(select, tmp_path):
    """`select` with a cascade, into a folder of the test's own."""
    return lambda out="out", **words: select(tmp_path / out, **words)


@pytest.fixture(scope="module")
def whole(select, folder):
    """The cascade, run to its end."""
    return select(folder / "whole")


@pytest.fixture(scope="module")
def last(select, folder):
    """The cascade's last stage alone, run to its end."""
    return select(folder / "last", cascade=None, method="moore_lewis")


def alone(run, method, **words):
    return run("alone", cascade=None, method=method, **words)


def test_every_segment_is_there_and_ordered_by_stage_then_score(whole, last):
    rows, others = scores(whole), scores(last)
    place = ("source", "row", "segment", "start", "end", "units", "tokens")
    assert [[r[n] for n in place] for r in rows] == [[r[n] for n in place] for r in others]
    assert whole.manifest["counts"] == last.manifest["counts"]
    said = whole.manifest["cascade"]["stages"]
    assert [s["stage"] for s in said] == TEXTS.split(">")
    reached = [sum(r["stage"] >= n for r in rows) for n in (1, 2, 3)]
    assert reached == [s["segments"] for s in said] == [len(rows), *(s["passed"] for s in said[:2])]
    assert [round(s["share"] * len(rows)) for s in said[:2]] == reached[1:]
    assert [s["share"] for s in said[:2]] == pytest.approx([0.1 ** (1 / 3), 0.1 ** (2 / 3)])
    for low, high in itertools.pairwise((1, 2, 3)):
        below = [r["score"] for r in rows if r["stage"] == low]
        above = [r["score"] for r in rows if r["stage"] == high]
        assert not below or not above or max(below) < min(above)
    assert [said[n]["units"] for n in range(3)] == [
        sum(r["units"] for r in rows if r["stage"] > n) for n in range(3)
    ]
    assert all(o["stage"] == 1 for o in others)


def test_a_last_stage_with_settings_of_its_own(run):
    """With `method.name`, `method.*` are its settings."""
    named = {"cascade": "random:0.1>moore_lewis", "method": "moore_lewis"}
    done = run(**named, settings=["method.order=2"], fraction=0.05)
    assert done.manifest["method"]["options"]["order"] == 2
    rows = scores(done)
    assert 0 < sum(row["stage"] == 2 for row in rows) < len(rows) / 5


def test_what_reaches_the_last_stage_has_its_score(run):
    """And those before it are cut where their own scores say."""
    rows = scores(run(cascade="random:0.5>dsir:0.25>moore_lewis"))
    stage, final = (np.array([r[name] for r in rows]) for name in ("stage", "score"))
    random, dsir, last = (
        np.array([r["score"] for r in scores(alone(run, method, overwrite=True))])
        for method in TEXTS.split(">")
    )
    assert (stage > 1).sum() == round(0.5 * len(rows))
    assert (stage > 2).sum() == round(0.25 * len(rows))
    assert np.array_equal(final[stage == 3], last[stage == 3])
    assert random[stage > 1].min() >= random[stage == 1].max()
    assert dsir[stage == 3].min() >= dsir[stage == 2].max()
    for n, own in ((1, random), (2, dsir)):  # order within a stage is that of its scores
        order = np.argsort(own[stage == n], kind="stable")
        assert (np.diff(final[stage == n][order]) >= 0).all()


def test_with_all_passed_on_it_is_the_last_stage_alone(run, last):
    cascade = run(cascade="random:1>dsir:1>moore_lewis")
    assert [r["score"] for r in scores(cascade)] == [r["score"] for r in scores(last)]
    recall = cascade.manifest["cascade"]["recall"]
    assert (recall["estimate"], recall["lost"]) == (1.0, 0)
    assert digests(cascade.path, "selected") == digests(last.path, "selected")


def test_the_estimate_is_near_the_truth(run, last):
    wanted = {i for i, r in enumerate(scores(last)) if r["selected"]}
    cascade = run(cascade="dsir:0.12>moore_lewis", settings=["cascade.sample=300"])
    reached = {i for i, r in enumerate(scores(cascade)) if r["stage"] == 2}
    said = cascade.manifest["cascade"]["recall"]
    truth = len(wanted & reached) / len(wanted)
    assert 0 < truth < 1
    assert said["estimate"] == pytest.approx(truth, abs=0.15)
    assert said["sample"] == 300


_OF_A_CASCADE = ("_fit_stage_surrogate", "_score_sample", "ScoreStage")


def test_what_scores_by_a_network_says_so(run, tiny_static, monkeypatch):
    """So that it gets a GPU; the stages before it do not."""
    said = []

    def telling(start):
        def told(job):
            function = job.function if isinstance(job, Call) else job
            function = getattr(function, "func", function)
            said.append((getattr(function, "__name__", type(job).__name__), job.encodes))
            return start(job)

        return told

    for job in (Call, ScoreStage):
        monkeypatch.setattr(job, "start", telling(job.start))
    monkeypatch.setattr(registry.load("moore_lewis"), "exact", False)
    run(cascade=f"random:0.5>{tiny_static}:0.3>moore_lewis")
    said = [(name, encodes) for name, encodes in said if name in _OF_A_CASCADE]
    assert said == [
        ("_fit_stage_surrogate", True),
        ("_score_sample", True),
        *(("ScoreStage", network) for network in (False, False, True)),
    ]


@pytest.mark.parametrize(
    ("amount", "known"),
    [({}, True), ({"segments": 9}, False), ({"tokens": 900}, False), ({"threshold": 0.0}, False)],
)
def test_a_score_alone_knows_the_recall_of_a_fraction(task, pile, tmp_path, inline, amount, known):
    words = {"target": task, "corpus": pile, "cascade": "random:0.3>dsir", "machine": inline}
    settings = [f"choose.{name}={value}" for name, value in amount.items()]
    scored = corpusfit.score(out=tmp_path / "out", settings=settings, **words)
    assert (scored.manifest["cascade"]["recall"] is not None) == known


def test_choosing_again_goes_on_below_the_last_stage(run, inline):
    first = run(cascade="random:0.3>moore_lewis")
    chosen = corpusfit.choose(first.path, fraction=0.6, machine=inline)
    rows = scores(chosen)
    words = sum(r["tokens"] for r in rows)
    assert sum(r["tokens"] for r in rows if r["selected"]) >= 0.6 * words
    assert all(r["selected"] for r in rows if r["stage"] == 2)
    assert chosen.manifest["cascade"]["recall"]["estimate"] < 0.9
    fresh = run("fresh", cascade="random:0.3>moore_lewis", fraction=0.6)
    assert digests(chosen.path) == digests(fresh.path)
    with pytest.raises(UsageError, match=r"choose.policy.*top.*cascade"):
        corpusfit.choose(first.path, weights="continuous", machine=inline)


def test_a_threshold_is_of_the_last_stages_scores(run, inline):
    """A segment that an earlier stage dropped has no such score, however low the threshold."""
    first = run(cascade="random:0.3>moore_lewis")
    chosen = corpusfit.choose(first.path, threshold=-1e9, machine=inline)
    assert [r["selected"] for r in scores(chosen)] == [r["stage"] == 2 for r in scores(chosen)]


@pytest.mark.long
def test_a_surrogate_keeps_more_than_its_embedders_own_method(run, tiny_static, tiny_encoder):
    """The last stage reads one embedder's vectors, the first learns it from another's."""
    words = {"method": "domain_cosine", "settings": ["cascade.sample=200"]}
    cascade = run(cascade=f"{tiny_static}:0.3>{tiny_encoder}", **words)
    said = cascade.manifest["cascade"]
    assert [s["embedder"] for s in said["stages"]] == [str(tiny_static), str(tiny_encoder)]
    whole = alone(run, "domain_cosine", embedder=str(tiny_encoder))
    wanted = {i for i, r in enumerate(scores(whole)) if r["selected"]}
    reached = {i for i, r in enumerate(scores(cascade)) if r["stage"] == 2}
    assert len(wanted & reached) / len(wanted) > 0.5  # by chance 0.3
    found = {i: r["score"] for i, r in enumerate(scores(cascade)) if r["stage"] == 2}
    others = scores(whole)
    assert max(abs(score - others[i]["score"]) for i, score in found.items()) < 5e-3


def test_a_surrogate_learns_a_method_on_words(run, tiny_static):
    """Then the background is drawn from the text, and the surrogate learns on all of it."""
    found = run(cascade=f"{tiny_static}:0.3>dsir", settings=["cascade.sample=100"])
    rows, others = scores(found), scores(alone(run, "dsir"))
    reached = {i for i, r in enumerate(rows) if r["stage"] == 2}
    assert len(reached) == round(0.3 * len(rows))
    assert all(rows[i]["score"] == others[i]["score"] for i in reached)
    wanted = {i for i, r in enumerate(others) if r["selected"]}
    assert len(wanted & reached) / len(wanted) > 0.5  # by chance 0.3


@pytest.mark.long
def test_any_number_of_workers_gives_the_same_bytes(run, tiny_static):
    words = {
        "cascade": f"random>{tiny_static}>knn@{tiny_static}",
        "settings": ["cascade.sample=100"],
    }
    whole = digests(run("inline", **words).path)
    assert len(whole) > 8
    assert digests(run("two", machine=Machine(workers=2), **words).path) == whole


def test_a_store_gets_the_same_bytes(run, task, pile, tiny_static, inline):
    store = f"memory://bucket/{uuid.uuid4().hex}"
    words = {"cascade": f"random>{tiny_static}>knn@{tiny_static}", "fraction": 0.1}
    settings = [SHARDS, "cut.pieces=30", "cut.gamma=2", "cascade.sample=100"]
    here = run("here", **{**words, "settings": ["cascade.sample=100"]})
    there = [
        corpusfit.select(
            target=task,
            corpus=pile,
            out=f"{store}/out",
            machine=type(inline)(cache=f"{store}/cache"),
            settings=settings,
            **words,
        )
        for _ in range(2)  # the second finds all done
    ]
    assert digests(there[0].path) == digests(here.path)
    assert there[0].manifest == there[1].manifest
    again = corpusfit.choose(there[0].path, machine=inline, fraction=0.2)
    assert again.manifest["cascade"]["recall"] is not None


@pytest.mark.long
def test_killed_at_random_moments_it_ends_the_same(whole, start, cli, task, pile, tmp_path):
    """The process is killed, not stopped: nothing tidies up after it."""
    settings = (SHARDS, "cut.pieces=30", "cut.gamma=2")
    command = (
        *("select", "--target", task, "--corpus", pile, "--out", tmp_path / "out"),
        *("--cascade", TEXTS, "--fraction", 0.1, "--workers", 1),
        *(word for setting in settings for word in ("--set", setting)),
    )
    kept, first = {}, ".corpusfit/stages/1/part-*.safetensors"
    for pattern, count in (("stages/1/part-*", 3), ("stages/2/part-*", 2), ("scored/part-*", 4)):
        assert kill_at(start(*command), tmp_path / "out/.corpusfit", pattern, count)
        assert not (tmp_path / "out/manifest.json").exists()
        assert kept.items() <= stamps(tmp_path / "out", first).items()
        kept = stamps(tmp_path / "out", first)
    assert cli(*command).code == 0
    assert digests(tmp_path / "out") == digests(whole.path)


class Stopped(Exception):
    """The run ends here."""


@pytest.mark.parametrize(
    "stop", ["sample", "fit", "1 random", "2 dsir", "3 moore", "join", "choose"]
)
def test_stopped_anywhere_it_ends_the_same(run, whole, inline, stop, tmp_path, monkeypatch):
    from corpusfit.core.engine import Progress

    scorer = registry.scorer_class("moore_lewis")
    monkeypatch.setattr(scorer, "remark", lambda _: "Of the last stage.")

    class Stopping(Progress):
        """Stops in the middle of a stage."""

        def begin(self, stage, total):
            self.stage, self.left = stage, 3

        def advance(self, done, units=0):
            self.left -= 1
            if self.stage.startswith(stop) and self.left == 0:
                raise Stopped

        def end(self):
            if self.stage.startswith(stop) and stop == "fit":
                raise Stopped

    with pytest.raises(Stopped):
        run("stopped", machine=type(inline)(progress=Stopping()))
    assert not (tmp_path / "stopped/manifest.json").exists()
    first = tmp_path / "stopped/.corpusfit/stages/1"
    kept = stamps(first, "part-*")
    again = run("stopped")
    assert kept.items() <= stamps(first, "part-*").items()
    assert digests(again.path) == digests(whole.path)
    both = [json.loads(json.dumps(r.manifest["cascade"])) for r in (again, whole)]
    for said in both:
        for s in said["stages"]:
            del s["seconds"], s["units_per_second"]
    assert both[0] == both[1]
    assert again.manifest["remark"] == "Of the last stage."


def test_another_cascade_in_the_same_folder_is_named(run):
    run()
    with pytest.raises(corpusfit.core.errors.ChangedInputError, match=r"cascade\.stages"):
        run(cascade="random>moore_lewis")
    assert (
        run(cascade="random>moore_lewis", overwrite=True).manifest["cascade"]["stages"][1]["passed"]
        is None
    )


@pytest.mark.parametrize("method", ["random", "moore_lewis"])
def test_another_file_of_any_stage_is_named(run, method, tmp_path, monkeypatch):
    file = tmp_path / "model"
    file.write_text("one")
    monkeypatch.setattr(registry.load(method), "files", (str(file),))
    first = run(cascade="random:0.5>moore_lewis")
    assert list(first.manifest["files"]) == [str(file)]
    assert run(cascade="random:0.5>moore_lewis").manifest == first.manifest
    file.write_text("another")
    with pytest.raises(corpusfit.core.errors.ChangedInputError, match="model"):
        run(cascade="random:0.5>moore_lewis")


def test_a_stage_that_passes_nothing_is_named(run):
    with pytest.raises(UsageError) as error:
        run(cascade="random:0.0001>dsir")
    assert "random" in str(error.value)
    assert "cascade" in str(error.value)
    assert "0.0001" in str(error.value)


def test_a_tiny_corpus(run, jsonl, inline, tmp_path, task):
    """One segment is the sample, the background and the corpus."""
    one = jsonl("one.jsonl", ["kinase inhibitor"])
    found = corpusfit.select(
        target=task, corpus=one, out=tmp_path / "tiny", cascade="random>dsir", machine=inline
    )
    assert found.manifest["selected"]["segments"] == 1
    assert found.manifest["cascade"]["recall"]["estimate"] == 1.0


def test_explain_says_where_a_segment_dropped_out(run, cli):
    done = run(cascade="random:0.3>moore_lewis")
    of = {n: next(r for r in scores(done) if r["stage"] == n) for n in (1, 2)}
    place = {n: f"{r['source']}:{r['row']}:{r['segment']}" for n, r in of.items()}
    first, last = (corpusfit.explain(done.path, row=place[n]) for n in (1, 2))
    assert (first.dropped, last.dropped) == ("random", None)
    assert first.score > of[1]["score"]
    assert last.score == pytest.approx(of[2]["score"])
    assert (first.raised, first.lowered) == ([], [])
    assert last.raised or last.lowered
    said = cli("explain", done.path, "--row", place[1])
    assert "random" in said.out


def test_the_command_line_says_what_the_stages_did(cli, task, pile, tmp_path):
    words = ("select", "--target", task, "--corpus", pile, "--set", SHARDS, "--fraction", 0.1)
    done = cli(*words, "--out", tmp_path / "out", "--cascade", TEXTS)
    assert done.code == 0
    assert all(stage in done.out for stage in TEXTS.split(">"))
    assert "moore_lewis" in done.err
    dry = cli(*words, "--out", tmp_path / "dry", "--cascade", "random:0.4>dsir", "--dry-run")
    assert "40.0 %" in dry.err
    dry = cli(*words, "--out", tmp_path / "dry", "--cascade", "random>dsir", "--dry-run", "--json")
    assert json.loads(dry.out)["shares"] == pytest.approx([0.1**0.5])
    bad = cli(*words, "--out", tmp_path / "bad", "--cascade", "random>")
    assert (bad.code, bad.out) == (2, "")
    assert "--cascade" in bad.err
    assert "random>" in bad.err
