"""A corpus of many small files, against the same files each in shards of their own."""

import json
from collections import Counter

import pytest
from journeys import digests, prose, scores

import corpusfit
from corpusfit import text
from corpusfit.core.errors import ChangedInputError
from corpusfit.core.plan import ReadPlan
from corpusfit.scoring import table
from corpusfit.training.inputs import TrainingInputs, sample_texts


@pytest.fixture
def small(tmp_path, jsonl):
    """Sixty files in three folders; two have a row that is rejected."""
    for number in range(60):
        rows = [{"text": t} for t in prose("task" if number % 4 else "kitchen", 6, seed=number)]
        if number in (7, 31):
            rows.insert(2, {"no": "text"})
        jsonl(f"small/{number % 3}/{number:02d}.jsonl", rows)
    return tmp_path / "small"


@pytest.fixture
def run(task, small, tmp_path, inline):
    def select(out="out", *settings, machine=inline, method="moore_lewis"):
        settings = ("cut.pieces=16", "cut.gamma=2", *settings)
        return corpusfit.select(
            target=task, corpus=small, out=tmp_path / out, method=method, fraction=0.3,
            settings=settings, machine=machine,
        )  # fmt: skip

    return select


def _by_place(done):
    return {
        (s["source"], s["row"], s["segment"]): (s["score"], s["selected"]) for s in scores(done)
    }


def _rejects(done):
    return sorted(
        map(str, map(json.loads, (done.path / "rejects.jsonl").read_bytes().splitlines()))
    )


@pytest.mark.slow
def test_scores_and_rejects_are_those_of_each_file_alone(run, inline):
    together, alone = run("out"), run("alone", "read.shard_mb=0.0004")
    assert len(list((together.path / "scores").iterdir())) == 1
    assert len(list((alone.path / "scores").iterdir())) >= 60
    assert _by_place(together) == _by_place(alone)
    assert _rejects(together) == _rejects(alone) != []
    one, other = (run.manifest["selected"]["by_source"] for run in (together, alone))
    assert one == other
    labeled = (t for t in together.labeled_scores("text", machine=inline))
    counted = Counter(source for t in labeled for source in t.column("source").to_pylist())
    assert counted == {n: c["segments"] for n, c in one.items()}
    for place, (score, selected) in list(_by_place(together).items())[::37]:
        row = "{}:{}:{}".format(*place)
        found = corpusfit.explain(together.path, row=row, machine=inline)
        assert (found.source, found.row, found.segment) == place
        assert (found.score, found.selected) == (pytest.approx(score), selected)


def test_another_layout_is_not_mixed_in(run):
    done = run()
    identity = done.path / ".corpusfit" / "run.json"
    known = json.loads(identity.read_bytes())
    del known["small files"]
    identity.write_text(json.dumps(known))
    with pytest.raises(ChangedInputError, match="small files"):
        run()


def test_many_sources_are_counted_by_folder(run, monkeypatch):
    names = run("out").manifest["selected"]["by_source"]
    monkeypatch.setattr(table, "MAX_SOURCES", 10)
    found = run("grouped").manifest["selected"]["by_source"]
    assert set(found) == {"0/", "1/", "2/"}
    for folder, counts in found.items():
        own = [c for name, c in names.items() if name.startswith(folder)]
        assert counts == {key: sum(c[key] for c in own) for key in counts}


def test_split_and_contamination_are_those_of_each_file_alone(
    small, jsonl, tmp_path, inline, monkeypatch
):
    held = jsonl("held.jsonl", prose("task", 3, seed=5) + prose("kitchen", 3, seed=8))

    def read(out):
        done = corpusfit.split(
            data=small, dev=10, test=10, near=True, out=tmp_path / out, machine=inline
        )
        return done, corpusfit.contamination(task=held, data=small, machine=inline)

    (together, leaks), shards = read("together"), []

    def alone(*words):
        for shard in text.shards(*words):
            shards.append(shard)
            yield shard

    monkeypatch.setattr(text, "packed", alone)
    apart, leaks_apart = read("apart")
    assert len(shards) > 120
    names = ("train.jsonl", "dev.jsonl", "test.jsonl", "rejects.jsonl")
    assert digests(together.path, *names) == digests(apart.path, *names)
    assert len(_rejects(together)) >= 2
    assert together.manifest["counts"] == apart.manifest["counts"]
    assert leaks.rows == leaks_apart.rows
    assert set(leaks.rows) >= {"2/05.jsonl", "2/08.jsonl"}
    assert leaks.splits == leaks_apart.splits
    assert leaks.examples == leaks_apart.examples


def test_a_sample_for_a_tokenizer_is_that_of_each_file_alone(small, monkeypatch):
    source = text.find([str(small)], ReadPlan(), role="data")
    given = TrainingInputs(source, [], []), 0, ["words"], 8_000
    together = list(sample_texts(*given))
    monkeypatch.setattr(text, "packed", text.shards)

    assert together == list(sample_texts(*given))
    assert 0 < len(together) < 360


@pytest.mark.slow
def test_the_number_of_workers_changes_nothing(run):
    words = {"method": "moore_lewis"}
    one = run("inline", "read.shard_mb=0.01", **words)
    two = run("two", "read.shard_mb=0.01", machine=corpusfit.Machine(workers=2), **words)
    assert digests(one.path) == digests(two.path)
