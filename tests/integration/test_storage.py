"""A run and its cache in a store: the same bytes as on this machine, and the same manners."""

import contextlib
import socket
import subprocess
import sys
import time
import uuid

import pytest
from journeys import digests, scores

import corpusfit
from corpusfit import Machine
from corpusfit.core.artifacts import folder_path, write_bytes
from corpusfit.core.errors import (
    ChangedInputError,
    InputError,
    OutputFolderError,
    StorageError,
    UsageError,
)
from corpusfit.core.plan import ReadPlan
from corpusfit.training.inputs import find_training_inputs


@pytest.fixture
def store():
    """A place in this process's memory that fsspec treats as a store."""
    return f"memory://bucket/{uuid.uuid4().hex}"


@pytest.fixture
def select(task, pile, tiny_static):
    """`select` by embeddings over twenty shards."""

    def select(out, machine, **words):
        given = {"method": "isolation_forest", "embedder": str(tiny_static), **words}
        given.setdefault("settings", ["read.shard_mb=0.01"])
        return corpusfit.select(target=task, corpus=pile, out=out, machine=machine, **given)

    return select


def test_a_store_gets_the_same_bytes(select, store, tmp_path, inline):
    here = select(tmp_path / "out", type(inline)(cache=tmp_path / "cache"))
    there = select(f"{store}/out", type(inline)(cache=f"{store}/cache"))
    assert digests(there.path) == digests(here.path)
    assert len(digests(here.path)) > 8
    assert list(there) == list(here)
    assert scores(there) == scores(here)
    names = {p.name for p in folder_path(f"{store}/out", "").iterdir()}
    assert names == {p.name for p in here.path.iterdir()}
    embeddings = "cache/embeddings"
    assert digests(folder_path(store, ""), embeddings) == digests(tmp_path, embeddings)
    chosen = [
        corpusfit.choose(run.path, machine=inline, policy="resample", segments=7)
        for run in (here, there)
    ]
    assert digests(chosen[0].path) == digests(chosen[1].path)


@pytest.mark.slow
def test_a_run_in_a_store_is_resumed_finished_and_overwritten(select, store, inline):
    machine = type(inline)(cache=f"{store}/cache")
    words = {"method": "random", "settings": ["read.shard_mb=0.003"]}
    first = select(f"{store}/out", machine, **words)
    whole = digests(first.path)
    for name in ("manifest.json", ".corpusfit/scored.json", ".corpusfit/scored/part-00003.json"):
        (first.path / name).unlink()
    (first.path / "scores/part-00003.parquet").unlink()
    mark = first.path / ".corpusfit/scored/part-00004.json"
    created = mark.fs.created(mark.path)
    again = select(f"{store}/out", machine, **words)
    assert digests(again.path) == whole
    assert mark.fs.created(mark.path) == created
    assert select(f"{store}/out", machine, **words).manifest == again.manifest
    with pytest.raises(ChangedInputError, match=r"memory://.*seed\b.*0.*1"):
        select(f"{store}/out", machine, seed=1, **words)
    other = select(f"{store}/out", machine, seed=1, overwrite=True, **words)
    assert digests(other.path) == digests(select(f"{store}/fresh", machine, seed=1, **words).path)
    assert digests(other.path) != whole


def test_a_pattern_of_a_store_is_trained_on(store, inline):
    for name in ("part-0", "part-1", "other"):
        write_bytes(folder_path(f"{store}/{name}.jsonl", ""), b'{"text": "a"}\n')
    with inline.running() as context:
        found = find_training_inputs([f"{store}/part-*.jsonl"], (), (), ReadPlan(), context)
    assert [source.name for source in found.data] == ["part-0.jsonl", "part-1.jsonl"]


def test_a_place_with_something_else_is_refused(select, store, inline):
    write_bytes(folder_path(f"{store}/thesis/chapter.tex", ""), b"x")
    with pytest.raises(OutputFolderError, match=r"memory://.*thesis"):
        select(f"{store}/thesis", inline)


def test_a_place_that_does_not_exist_is_named(store, inline):
    with pytest.raises(InputError, match=r"memory://.*nothing"):
        corpusfit.choose(f"{store}/nothing", machine=inline, segments=3)


def test_methods_are_ranked_with_a_cache_in_a_store(store, task, pile, tiny_static, inline):
    machine = type(inline)(engine="ray", cache=f"{store}/cache")  # so that workers share it
    found = corpusfit.rank(
        target=task,
        corpus=pile,
        methods=["domain_cosine"],
        embedder=str(tiny_static),
        machine=machine,
    )
    assert {v.method for v in found} == {"domain_cosine", "random"}
    assert not folder_path(f"{store}/cache", "").exists()


def test_a_url_that_is_a_path_here(cli, task, pile, tmp_path):
    out = tmp_path / "a folder"
    done = cli(
        *("select", "--target", task, "--corpus", pile, "--method", "random"),
        *("--out", f"file://{out}", "--cache", f"file://{tmp_path}/cache"),
    )
    assert done.code == 0, done.err
    assert (out / "manifest.json").exists()
    assert cli("choose", f"file://{out}", "--segments", 3).code == 0


def test_a_store_that_nothing_reads_is_named(cli, task, pile):
    done = cli("select", "--target", task, "--corpus", pile, "--out", "gopher://hole/run")
    assert done.code == 2
    assert "--out" in done.err
    assert "gopher://hole/run" in done.err
    with pytest.raises(UsageError, match=r"cache.*gopher://hole"):
        Machine(cache="gopher://hole").cache_folder()


def test_a_store_that_refuses_is_an_error_with_a_cure(store, monkeypatch):
    path = folder_path(f"{store}/x", "")

    def refuse(*_, **__):
        raise PermissionError(13, "Access Denied")

    monkeypatch.setattr(path.fs, "pipe_file", refuse)
    with pytest.raises(StorageError, match=r"memory://.*Access Denied"):
        write_bytes(path, b"x")


@pytest.fixture(scope="module")
def s3():
    """An S3 server on this machine with a bucket; returns the bucket's URL."""
    for needed in ("moto", "flask", "s3fs"):
        pytest.importorskip(needed)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    server = subprocess.Popen(
        [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{port}")
        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
            patch.setenv(name, "test")
        patch.setenv("AWS_DEFAULT_REGION", "us-east-1")
        while server.poll() is None:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port)):
                break
            time.sleep(0.1)
        folder_path("s3://bucket", "").fs.mkdir("bucket")
        yield "s3://bucket"
    server.kill()
    server.wait()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning:botocore")
def test_object_storage_gets_the_same_bytes_from_two_workers(
    s3, select, task, pile, tmp_path, inline, tiny_static
):
    here = select(tmp_path / "out", type(inline)(cache=tmp_path / "cache"))
    fs = folder_path(s3, "").fs
    for file in pile.iterdir():
        fs.put_file(str(file), f"bucket/pile/{file.name}")
    there = corpusfit.select(
        target=task,
        corpus=f"{s3}/pile",
        out=f"{s3}/run/out",
        method="isolation_forest",
        embedder=str(tiny_static),
        settings=["read.shard_mb=0.01"],
        machine=Machine(workers=2, cache=f"{s3}/cache"),
    )
    assert digests(there.path) == digests(here.path)
    assert {p.name for p in there.path.iterdir()} == {p.name for p in here.path.iterdir()}
    machine = Machine(workers=1)
    assert digests(corpusfit.choose(there.path, segments=5, machine=machine).path) == digests(
        corpusfit.choose(here.path, segments=5, machine=inline).path
    )
    with pytest.raises(StorageError, match="s3://nowhere/"):
        write_bytes(folder_path("s3://nowhere/x", ""), b"x")


def test_a_file_that_fsspec_would_take_for_another_is_refused(select, store, inline):
    """Of `a::b.jsonl` it opens `a`."""
    folder = f"{store}/corpus"
    write_bytes(folder_path(f"{folder}/plain.jsonl", ""), b'{"text": "a b"}\n')
    target = folder_path(f"{folder}/plain.jsonl", "")
    target.fs.pipe_file(f"{target.path.rpartition('/')[0]}/a::b.jsonl", b'{"text": "a b"}\n')
    with inline.running() as context, pytest.raises(InputError, match=r"a::b\.jsonl"):
        context.find([folder], ReadPlan(), "corpus")
