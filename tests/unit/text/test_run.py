"""What the steps of a command share."""

import gzip
import json
import os
import pickle
from pathlib import Path

import pytest

from corpusfit.core.engine import Meter, Progress, RayEngine
from corpusfit.core.errors import InputError, UsageError
from corpusfit.core.plan import ReadPlan
from corpusfit.core.types import FILE_BITS, Reason
from corpusfit.selection.result import Selection
from corpusfit.selection.writing import Chosen
from corpusfit.text import rejects
from corpusfit.text.context import Machine, Run, default_cache, machine_of
from corpusfit.text.input import Input
from corpusfit.text.reading import Reasons, Rejects, Tally


class RecordingProgress(Progress):
    """Records all calls."""

    def __init__(self):
        self.calls = []

    def begin(self, stage, total):
        self.calls.append(("begin", stage, total))

    def advance(self, done, units=0):
        self.calls.append(("advance", done, units))

    def skip(self, done):
        self.calls.append(("skip", done))

    def end(self):
        self.calls.append(("end",))

    def warn(self, message):
        self.calls.append(("warn", message))


@pytest.fixture
def run(tmp_path, inline):
    machine = type(inline)(progress=RecordingProgress())
    return Run(machine, machine.start(), tmp_path)


def test_where_the_cache_is(monkeypatch, tmp_path):
    monkeypatch.setenv("CORPUSFIT_CACHE", str(tmp_path))
    assert default_cache() == tmp_path
    monkeypatch.delenv("CORPUSFIT_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert default_cache() == tmp_path / "xdg" / "corpusfit"
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert default_cache() == Path.home() / ".cache" / "corpusfit"


def test_torch_keeps_compiled_code_in_the_cache(monkeypatch, tmp_path):
    def kept():
        return os.environ.get("TORCHINDUCTOR_CACHE_DIR")

    machine = Machine(cache=tmp_path / "cache")
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", "the user's own")
    machine_of(machine, {})
    assert kept() == "the user's own"
    monkeypatch.delenv("TORCHINDUCTOR_CACHE_DIR")
    with monkeypatch.context() as patched:
        patched.setattr("os.access", lambda _, way: way != os.W_OK)  # a cache that is read-only
        machine_of(machine, {})
    assert kept() is None
    machine_of(machine, {})
    assert kept() == str(tmp_path / "cache/compiled")
    assert not (tmp_path / "cache").exists()


def test_a_machine_has_one_of_two_kinds_of_engine():
    assert Machine(workers=3).start().workers == 3
    assert isinstance(Machine(engine="ray").start(), RayEngine)
    with pytest.raises(UsageError, match=r"^`engine` must .*'spark'"):
        Machine(engine="spark").start()


def test_a_warning_is_shown_once_and_stored(run):
    run.warn("careful")
    run.warn("careful")
    assert run.warnings == ["careful"]
    assert run.machine.progress.calls == [("warn", "careful")]


def test_a_stage_is_timed_and_ends_whatever_happens(run):
    with run.stage("read", 5):
        pass
    with pytest.raises(ValueError, match="no"), run.stage("read"):
        raise ValueError("no")
    assert run.machine.progress.calls == [
        ("begin", "read", 5),
        ("end",),
        ("begin", "read", 0),
        ("end",),
    ]
    assert list(run.seconds) == ["read"]
    assert run.seconds["read"] >= 0


def double(piece):
    return 2 * piece


def number(piece):
    """The number of a shard."""
    return piece.index


def test_shards_weigh_their_bytes_and_those_that_are_done_are_skipped(run, jsonl):
    """Closed form: what was done and what was skipped add up to the corpus."""
    path = jsonl("corpus.jsonl", [f"row {i} of a corpus in shards" for i in range(400)])
    read = ReadPlan(shard_mb=0.004)
    texts = Input(run.find([str(path)], read, "corpus"), read)
    calls = run.machine.progress.calls
    assert list(run.over_shards("score", texts, number, lambda i: i in (0, 2))) == [1, 3]
    assert run.shard_count == 4
    done, skipped = ([c[1] for c in calls if c[0] == kind] for kind in ("advance", "skip"))
    assert calls[0] == ("begin", "score", path.stat().st_size)
    assert sum(done) + sum(skipped) == path.stat().st_size
    assert len(skipped) == 2
    assert min(done) > 0


@pytest.mark.parametrize(("packed", "groups"), [(True, [34] * 4), (False, [1] * 136)])
def test_shards_of_an_archive_go_to_a_worker_in_stretches(run, tmp_path, packed, groups):
    """As many as two workers take in two rounds; each piece has its share of the bytes."""
    lines = "".join(f'{{"text": "row {i} of a corpus in shards"}}\n' for i in range(4000))
    path = tmp_path / ("corpus.jsonl" + ".gz" * packed)
    path.write_bytes(gzip.compress(lines.encode(), 1) if packed else lines.encode())
    read = ReadPlan(shard_mb=0.0012)
    texts = Input(run.find([str(path)], read, "corpus"), read)
    run.engine.workers, seen = 2, []
    drawn = run.engine.map

    def spied(job, pieces, on_share):
        def noted():
            for piece in pieces:
                seen.append(len(piece))
                yield piece

        return drawn(job, noted(), on_share)

    run.engine.map = spied
    assert list(run.over_shards("score", texts, number)) == list(range(136))
    assert seen == groups
    calls = run.machine.progress.calls
    assert sum(c[1] for c in calls if c[0] == "advance") == path.stat().st_size


def test_many_pieces_travel_together(run):
    """Each message has at most a sixty-fourth of what a worker has got so far."""
    run.engine.workers, sizes = 1, []
    drawn = run.engine.map
    run.engine.map = lambda job, pieces, tell: drawn(
        job, (sizes.append(len(p)) or p for p in pieces), tell
    )
    found = list(run.map(double, range(20_000)))
    assert found == [2 * i for i in range(20_000)]
    assert (sizes[0], sizes[63], max(sizes)) == (1, 1, 256)
    assert len(sizes) < 1000
    before = 0
    for size in sizes[:-1]:
        assert size == max(1, min(256, before // 64))
        before += size


def test_a_piece_is_done_when_the_next_one_is_drawn(run):
    calls = run.machine.progress.calls
    for _ in run.track(iter("ab")):
        assert sum(c[1] for c in calls) == len(calls) // 2
    assert sum(c[1] for c in calls) == 2


def test_a_meter_counts_parts_of_pieces_once(run):
    """Closed form: half of 30, then all of it, and a quarter of 40."""
    weights, calls = [], run.machine.progress.calls
    meter = Meter(run.machine.progress, weights)

    def pieces():
        for weight in (10, 20, 30):
            weights.append(weight)
        yield "heavy"
        weights.append(40)
        yield "other"

    assert list(meter.weighed(pieces())) == ["heavy", "other"]
    for number, share in ((0, 0.0), (0, 0.5), (0, 0.5), (1, 0.25), (0, 1.0), (0, 0.9)):
        meter(number, share)
    assert sum(c[1] for c in calls if c[0] == "advance") == 30 + 10
    assert [c[1] for c in calls if c[0] == "skip"] == [30]


def test_reasons_name_the_three_commonest_with_an_example():
    reasons = Reasons()
    assert str(reasons)
    found = [f"text is not a string: {t}" for t in ["int", "list"] * 700]
    found += ["empty line", "empty line", "a", "a", "b"]
    reasons.add(Rejects.stored([(i, 0, text) for i, text in enumerate(found)]).counts())
    assert str(reasons) == (
        "text is not a string: int (1,400 rows); empty line (2 rows); a (2 rows)"
    )


OF_A_TEXT = [
    *(rejects.INVALID_UTF8, rejects.NULL_TEXT, rejects.EMPTY_TEXT, rejects.NUL),
    *(rejects.EMPTY_LINE, rejects.not_a_string([])),
    *(rejects.too_long(ReadPlan()), rejects.truncated("gz"), rejects.corrupt("gz", "no end")),
]
REASONS = [
    *(each for each in vars(rejects).values() if isinstance(each, Reason)),
    *map(rejects.in_translation, OF_A_TEXT),
    *(rejects.noted(each, "body") for each in OF_A_TEXT),
    rejects.missing_field("text", {"a b": 1, "meta": {"text": 2}}),
    rejects.missing_field("text", []),
    rejects.not_a_string(5, listed=True),
    rejects.no_number("n", None),
    rejects.no_number("n", "x: y"),
    rejects.not_comparable(InputError("a > 1")),
    rejects.malformed_csv("2 fields under a header of 1"),
    rejects.too_long(ReadPlan()),
    rejects.too_long(ReadPlan(), "use another"),
    rejects.truncated("gz"),
    rejects.corrupt("zst", "bad: checksum"),
    rejects.corrupt("gz", ""),
    rejects.bomb(ReadPlan()),
    rejects.unreadable("parquet", ValueError()),
    rejects.too_long_conversation(1024),
    rejects.refused_by_template(ValueError("no: roles")),
]


@pytest.mark.parametrize("reason", REASONS, ids=str)
def test_a_reason_is_the_same_from_a_file_and_from_a_worker(reason):
    again = rejects.stored(str(reason))
    assert again == reason._replace(fields=())
    assert (str(again), again.kind) == (str(reason), reason.kind)
    assert pickle.loads(pickle.dumps(reason)) == reason


def test_a_tally_survives_json():
    each = [(1, 20, rejects.EMPTY_LINE), (3, 31, rejects.NUL), (4, 40, rejects.EMPTY_LINE)]
    tally = Tally(2, documents=3, rejects=Rejects(each))
    again = Tally.stored(json.loads(json.dumps(tally.as_dict())))
    assert again.as_dict() == tally.as_dict()
    for sent in (again, pickle.loads(pickle.dumps(tally))):
        assert list(sent.rejects) == each
        assert sent.rejects.counts() == {rejects.EMPTY_LINE: 2, rejects.NUL: 1}


def test_rejects_are_counted_by_file():
    each = [
        (1, 20, rejects.NUL),
        (2 << FILE_BITS, 0, rejects.NUL),
        (2 << FILE_BITS, 9, rejects.NUL),
    ]
    assert Rejects(each).by_file() == {0: {rejects.NUL: 1}, 2: {rejects.NUL: 2}}
    assert Rejects(each[:1]).by_file() == {0: {rejects.NUL: 1}}
    assert Rejects().by_file() == {}


def test_selected_parts_are_read_by_number(tmp_path):
    import zstandard

    (tmp_path / "selected").mkdir()
    for number in (0, 2, 10, 99_999, 100_000):
        data = zstandard.ZstdCompressor().compress(b'{"part": %d}\n' % number)
        (tmp_path / f"selected/part-{number:05d}.jsonl.zst").write_bytes(data)
    assert [s["part"] for s in Selection(tmp_path, {})] == [0, 2, 10, 99_999, 100_000]


def test_nothing_chosen_has_no_threshold():
    assert (Chosen().segments, Chosen().threshold) == (0, None)


def test_what_a_folder_has_beside_its_texts_is_in_the_warnings_of_a_run(run, jsonl, tmp_path):
    (tmp_path / "pile").mkdir()
    for name in ("a.jsonl", "b.jsonl.lz4"):
        (tmp_path / "pile" / name).write_text('{"text": "a"}\n')
    found = run.find([str(tmp_path / "pile")], ReadPlan(), "corpus")
    assert [source.name for source in found] == ["a.jsonl"]
    assert "1 .lz4" in run.warnings[0]
