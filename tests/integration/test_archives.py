"""Archives and other files that are cut from their beginning are read by the workers."""

import gzip
import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard
from journeys import digests, kill_at, prose

import corpusfit
from corpusfit import Machine
from corpusfit import text as texts
from corpusfit.core.engine import InlineEngine
from corpusfit.core.errors import ChangedInputError
from corpusfit.core.plan import ReadPlan
from corpusfit.core.types import Shard
from corpusfit.text import blocks
from corpusfit.text.surveyed import Kept

SHARDS = "read.shard_mb=0.002"


@pytest.fixture
def corpus(tmp_path):
    """One large archive, two small ones, a Parquet file of several row groups, and a CSV file."""
    folder = tmp_path / "corpus"
    folder.mkdir()

    def lines(topic, n, seed):
        rows = (json.dumps({"text": text}) + "\n" for text in prose(topic, n, seed))
        return "".join(rows).encode()

    frames = [zstandard.compress(lines("task", 60, seed)) for seed in range(6)]
    (folder / "large.jsonl.zst").write_bytes(b"".join(frames))
    for seed in range(2):
        (folder / f"small-{seed}.jsonl.gz").write_bytes(gzip.compress(lines("kitchen", 3, seed)))
    texts = prose("market", 120)
    pq.write_table(pa.table({"text": texts}), folder / "b.parquet", row_group_size=25)
    quoted = "".join(f'"{text}\n{text}"\n' for text in prose("kitchen", 60, 9))
    (folder / "c.csv").write_text(f"text\n{quoted}")
    return folder


@pytest.fixture
def run(task, corpus, tmp_path, inline):
    def run(out, machine=inline, **words):
        given = {"method": "moore_lewis", "fraction": 0.3, "settings": [SHARDS], **words}
        return corpusfit.select(task, corpus, out=tmp_path / out, machine=machine, **given)

    return run


def test_the_starting_process_unpacks_nothing_during_a_pass(run, monkeypatch):
    """Pieces hold places; the engine's workers read."""
    seen = []
    drawn = InlineEngine.map

    def spied(self, job, pieces, on_share=None):
        def noted():
            for piece in pieces:
                for each in piece if isinstance(piece, list) else ():
                    parts = each if isinstance(each, tuple) else (each,)
                    seen.extend(part for part in parts if isinstance(part, Shard))
                yield piece

        return drawn(self, job, noted(), on_share)

    monkeypatch.setattr(InlineEngine, "map", spied)
    run("out")
    assert len(seen) > 60
    assert not any(shard.data for shard in seen)


@pytest.mark.slow
def test_several_workers_give_the_same_bytes(run):
    whole = digests(run("inline").path)
    assert len(whole) > 60
    assert digests(run("with 2", Machine(workers=2)).path) == whole


@pytest.mark.slow
def test_a_killed_run_resumes_in_the_middle_of_an_archive(run, task, corpus, tmp_path, start, cli):
    whole = digests(run("whole").path)
    out = tmp_path / "killed"
    words = (
        *("select", "--target", task, "--corpus", corpus, "--out", out, "--fraction", 0.3),
        *("--method", "moore_lewis", "--set", SHARDS, "--workers", 2),
    )
    assert kill_at(start(*words), out, "scores/part-*", 10)
    assert cli(*words).code == 0
    assert digests(out) == whole


def test_only_shards_of_new_archives_are_found(corpus, tmp_path, monkeypatch):
    monkeypatch.setattr(blocks, "_LEAST", 0)
    plan, looked = ReadPlan(shard_mb=0.002), []
    find_blocks = blocks._found

    def found(sources, *rest):
        looked.append([source.name for source in sources])
        return find_blocks(sources, *rest)

    monkeypatch.setattr(blocks, "_found", found)

    def places():
        kept = Kept(tmp_path / "kept")
        sources = texts.find([str(corpus)], plan, role="corpus", kept=kept)
        return [shard.span for shard in texts.shards(sources, plan)]

    before = places()
    (corpus / "copy.csv").write_bytes((corpus / "c.csv").read_bytes())
    (corpus / "new.jsonl.gz").write_bytes(gzip.compress(b'{"text": "a new one"}\n' * 90))
    after = places()
    (corpus / "large.jsonl.zst").write_bytes(zstandard.compress(b'{"text": "it changed"}\n'))
    changed = places()

    assert looked[0] == [
        *("b.parquet", "c.csv", "large.jsonl.zst", "small-0.jsonl.gz", "small-1.jsonl.gz")
    ]
    assert looked[1:] == [["new.jsonl.gz"], ["large.jsonl.zst"]]
    assert places() == changed
    assert len(before) > 60
    assert set(before) < set(after)
    assert len(changed) < len(after)


@pytest.mark.parametrize("rows", [40, 400])
def test_an_archive_that_changes_during_a_run_is_named(tmp_path, rows):
    plan = ReadPlan(shard_mb=0.002)
    path = tmp_path / "a.jsonl.gz"

    def write(n):
        path.write_bytes(gzip.compress(b"".join(b'{"text": "row %d"}\n' % i for i in range(n))))

    write(300)
    sources = texts.find([str(path)], plan, role="corpus")
    write(rows)
    with pytest.raises(ChangedInputError, match=r"a\.jsonl\.gz"):
        [texts.documents(shard, plan) for shard in texts.shards(sources, plan)]


def test_an_archive_of_one_key_and_a_frame_that_is_cut_off(run, corpus):
    """The rows before it are read, and it is named; the other files are not affected."""
    frames = [zstandard.compress(b'{"text": "words of a text, all the same"}\n' * 400)] * 3
    cut = b"".join((frames[0], frames[1][:-9], frames[2]))
    (corpus / "large.jsonl.zst").write_bytes(cut)
    done = run("out")
    assert done.manifest["counts"]["documents"] >= 400 + 186
    assert any("large.jsonl.zst" in warning for warning in done.manifest["warnings"])
    assert done.manifest["selected"]["copies"]["exact"] >= 399
