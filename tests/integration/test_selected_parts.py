"""The files of `selected/`: parts of one size, whatever happens while they are written."""

import math

import orjson
import pytest
import zstandard
from journeys import digests, prose, stamps, write_rows

import corpusfit
from corpusfit.core import artifacts
from corpusfit.selection import merging, writing
from corpusfit.selection.writing import WriteSelected

MOST = 0.0022
SETTINGS = ["cut.pieces=256", "read.shard_mb=0.003", f"choose.part_mb={MOST}"]


@pytest.fixture
def run(task, pile, tmp_path, inline):
    def run(out="out", **words):
        given = {"target": task, "corpus": pile, "method": "random", "settings": SETTINGS, **words}
        return corpusfit.select(out=tmp_path / out, machine=inline, **given)

    return run


def parts(folder):
    """The text of each part, by name."""
    unpack = zstandard.ZstdDecompressor().decompress
    files = sorted((folder / "selected").iterdir())
    return {file.name: unpack(file.read_bytes()) for file in files}


def test_parts_have_one_size_and_are_numbered_in_reading_order(run):
    several, one = run(), run("one", settings=SETTINGS[:2])
    text = parts(several.path)
    assert list(text) == [f"part-{n:05d}.jsonl.zst" for n in range(len(text))]
    assert len(text) > 5
    assert max(map(len, text.values())) <= MOST * 2**20
    assert list(parts(one.path)) == ["part-00000.jsonl.zst"]
    assert b"".join(text.values()) == b"".join(parts(one.path).values())
    assert list(several) == list(one)
    whole = digests(one.path, "scores", "examples.parquet")
    assert digests(several.path, "scores", "examples.parquet") == whole
    assert not (several.path / ".corpusfit/pieces").exists()


def test_a_part_smaller_than_a_shard_is_the_text_of_one_shard(run):
    chosen = run(settings=[*SETTINGS[:2], "choose.part_mb=1e-9"])
    assert chosen.manifest["plan"]["choose"]["part_mb"] == 1e-9
    one = run("one", settings=SETTINGS[:2])
    assert list(chosen) == list(one)
    assert all(parts(chosen.path).values())


class StopError(Exception):
    """In place of a kill."""


def stop_after(patch, owner, name, count):
    """Let a function be called so often, and then stop instead."""
    work, calls = getattr(owner, name), iter(range(count))

    def counted(*given, **words):
        if next(calls, None) is None:
            raise StopError
        return work(*given, **words)

    patch.setattr(owner, name, counted)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("owner", "name", "count"),
    [
        (WriteSelected, "__call__", 5),
        (writing, "plan_parts", 0),  # every piece is written, and no part planned
        (writing, "merge_pieces", 3),
        (merging, "remove_files", 2),  # a part is written, and its pieces not removed
        (writing, "write_examples", 0),
    ],
)
def test_stopped_anywhere_it_ends_the_same(run, monkeypatch, tmp_path, owner, name, count):
    whole = digests(run("whole").path)
    with monkeypatch.context() as patch:
        stop_after(patch, owner, name, count)
        with pytest.raises(StopError):
            run()
    made = stamps(tmp_path / "out/selected", "*")
    assert digests(run().path) == whole
    assert made.items() <= stamps(tmp_path / "out/selected", "*").items()
    assert not (tmp_path / "out/.corpusfit/pieces").exists()


@pytest.mark.slow
def test_a_piece_that_a_power_cut_damaged_is_written_anew(run, monkeypatch, tmp_path):
    whole = digests(run("whole").path)
    with monkeypatch.context() as patch:
        stop_after(patch, writing, "merge_pieces", 2)
        with pytest.raises(StopError):
            run()
    piece = sorted((tmp_path / "out/.corpusfit/pieces").iterdir())[-1]
    piece.write_bytes(b"")
    with pytest.raises(artifacts.StorageError, match="run the same command again"):
        run()
    assert digests(run().path) == whole


def test_a_part_that_is_gone_is_written_again(run, inline):
    chosen = run()
    whole = digests(chosen.path)
    for file in sorted((chosen.path / "selected").iterdir())[1:3]:
        file.unlink()
    made = stamps(chosen.path / "selected", "*")
    again = corpusfit.choose(chosen.path, settings=SETTINGS[2:], machine=inline)
    assert digests(again.path) == whole
    assert made.items() <= stamps(chosen.path / "selected", "*").items()


@pytest.mark.slow
def test_stopped_between_two_amounts_either_can_follow(run, inline, monkeypatch):
    first, other = run(fraction=0.1), run("other", fraction=0.5)
    wholes = {0.1: digests(first.path), 0.5: digests(other.path)}
    for stopped, then in ((0.5, 0.1), (0.1, 0.5), (0.5, 0.5), (0.1, 0.1)):
        words = {"settings": SETTINGS[2:], "machine": inline}
        with monkeypatch.context() as patch:
            stop_after(patch, writing, "merge_pieces", 1)
            if stopped != first.manifest["plan"]["choose"]["fraction"]:
                with pytest.raises(StopError):
                    corpusfit.choose(first.path, fraction=stopped, **words)
        first = corpusfit.choose(first.path, fraction=then, **words)
        assert digests(first.path) == wholes[then]


def test_shards_without_selected_text(task, tmp_path, inline):
    """Skewed: one file has all of the selected text, and there are shards without a usable row."""
    corpus = tmp_path / "corpus"
    write_rows(corpus / "a.jsonl", prose("market", 60))
    write_rows(corpus / "b.jsonl", [{"no": "text"}] * 300)
    write_rows(corpus / "c.jsonl", prose("task", 60, seed=1))
    write_rows(corpus / "d.jsonl", prose("kitchen", 60))
    words = {"target": task, "corpus": corpus, "method": "dsir", "machine": inline}
    chosen = corpusfit.select(**words, segments=30, settings=SETTINGS, out=tmp_path / "out")
    assert {segment["source"] for segment in chosen} == {"c.jsonl"}
    text = parts(chosen.path)
    assert list(text) == [f"part-{n:05d}.jsonl.zst" for n in range(len(text))]
    assert len(text) > 1
    lines = [orjson.loads(line) for line in b"".join(text.values()).splitlines()]
    assert [line["row"] for line in lines] == sorted(line["row"] for line in lines)
    none = corpusfit.choose(chosen.path, threshold=1e9, machine=inline)
    assert (len(none), list(none), parts(none.path)) == (0, [], {})
    every = corpusfit.choose(
        chosen.path, fraction=1.0, dedup="none", settings=SETTINGS[2:], machine=inline
    )
    whole = every.manifest["counts"]["segments"]
    assert len(list(every)) == whole
    size = sum(map(len, parts(every.path).values()))
    assert len(parts(every.path)) <= 2 * math.ceil(size / (MOST * 2**20))
