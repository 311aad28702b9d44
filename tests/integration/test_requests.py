"""What commands ask of a store of objects: few requests a file, and no answer of another file."""

import json

import fsspec
import pytest
from fsspec.implementations.memory import MemoryFileSystem

import corpusfit
from corpusfit.core.artifacts import folder_path, read_slices, write_arrays
from corpusfit.core.errors import ChangedInputError, InputError, StorageError
from corpusfit.core.plan import ReadPlan
from corpusfit.selection import examples, folder
from corpusfit.text import files
from corpusfit.text.sources import current_sources, find
from counted_store import CountedStore


@pytest.fixture
def store(monkeypatch):
    """The store, empty, as `memory://`."""
    fsspec.register_implementation("memory", CountedStore, clobber=True)
    CountedStore.clear()
    monkeypatch.setattr(files, "_REPORTS_DIGEST", {"memory"})
    yield CountedStore()
    fsspec.register_implementation("memory", MemoryFileSystem, clobber=True)


def rows(begin, n=2):
    words = ("bread", "river", "stone", "music", "paper", "green", "seven")
    texts = (f"text {i} of {words[i % 7]} and {words[i % 5]}" for i in range(begin, begin + n))
    return "".join(json.dumps({"text": text}) + "\n" for text in texts).encode()


@pytest.fixture
def select(store, inline, monkeypatch):
    """`select` over n files, each a shard."""
    # as in a large corpus: long runs of parts, and few of the parts with examples
    monkeypatch.setattr(folder, "_FEW_RUNS", 1)
    monkeypatch.setattr(examples, "_EACH", 1)

    def select(n, **words):
        store.clear()
        store.pipe_file("target.jsonl", rows(0, 9))
        for i in range(n):
            store.pipe_file(f"corpus/{i:03d}.jsonl", rows(2 * i))
        store.requests.clear()
        return corpusfit.select(
            target="memory://target.jsonl",
            corpus="memory://corpus",
            out="memory://out",
            method="random",
            segments=3,
            settings=["read.shard_mb=0.0001"],
            machine=type(inline)(cache="memory://cache"),
            **words,
        )

    return select


def test_files_of_a_folder_are_listed_not_asked_for_one_by_one(store):
    names = [f"memory://corpus/{i:03d}.jsonl" for i in range(50)]
    for i, name in enumerate(names):
        store.pipe_file(name, rows(i))
    for inputs in (["memory://corpus"], ["memory://corpus/*.jsonl"], names):
        store.requests.clear()
        sources = find(inputs, ReadPlan(), role="corpus")
        assert len(sources) == 50
        assert sum(store.requests.values()) < 12
    store.requests.clear()
    assert current_sources(sources, ReadPlan()) == (sources, [])
    assert store.requests == {"LIST": 1}


def test_a_file_that_is_not_listed_yet_is_asked_for(store):
    names = [f"memory://corpus/{i:03d}.jsonl" for i in range(20)]
    for i, name in enumerate(names):
        store.pipe_file(name, rows(i))
    sources = find(names, ReadPlan(), role="corpus")
    store.late.add("/corpus/007.jsonl")
    assert find(names, ReadPlan(), role="corpus") == sources
    store.rm("memory://corpus/007.jsonl")
    with pytest.raises(InputError, match=r"007\.jsonl"):
        find(names, ReadPlan(), role="corpus")


@pytest.mark.slow
def test_choose_makes_at_most_three_requests_a_shard(store, select, inline):
    asked = {}
    for n in (64, 128):
        found = select(n)
        store.requests.clear()
        corpusfit.choose(found.path, segments=2, machine=inline)
        asked[n] = store.requests.total()
    assert asked[128] - asked[64] <= 3 * 64


def test_a_range_of_a_stored_file_is_one_request(store):
    store.pipe_file("a.jsonl", rows(0, 100))
    store.requests.clear()
    assert files.read_bytes("memory://a.jsonl", 10, 50) == rows(0, 100)[10:50]
    assert store.requests == {"GET": 1}
    with pytest.raises(InputError, match="became shorter"):
        files.read_bytes("memory://a.jsonl", 10, 100_000)


def test_slices_of_arrays_are_ranges(store):
    import numpy as np

    path = folder_path("memory://x.safetensors", "")
    write_arrays(path, {f"array{i}": np.arange(9) for i in range(30)}, {"long": "x" * 2_000})
    store.requests.clear()
    assert read_slices(path, {"array7": (2, 5)})["array7"].tolist() == [2, 3, 4]
    assert store.requests == {"GET": 3}  # two of the long header
    assert read_slices(path, {"array7": (2, 2)})["array7"].tolist() == []


def test_a_file_that_changes_while_it_is_read_is_an_error(store, select, monkeypatch):
    cat_file = CountedStore.cat_file

    def changing(self, path, **place):
        if "corpus/005" in path:
            store.pipe_file("corpus/005.jsonl", rows(10).replace(b"bread", b"crumb"))
        return cat_file(self, path, **place)

    monkeypatch.setattr(CountedStore, "cat_file", changing)
    with pytest.raises(ChangedInputError, match=r"005\.jsonl"):
        select(20)


@pytest.mark.parametrize("missing", [3, 19])
def test_a_listing_that_lacks_new_parts_is_an_error(store, select, monkeypatch, missing):
    late = {f"/out/scores/part-{missing:05d}.parquet"}
    monkeypatch.setattr(CountedStore, "late", late)
    monkeypatch.setattr(CountedStore, "clear", lambda *_: None)
    with pytest.raises(StorageError, match=rf"shard {missing}\b.*lists new files late"):
        select(20)
    late.clear()
    assert len(list(select(20))) == 3
