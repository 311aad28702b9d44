"""Names, passwords and signatures of URLs are in no file, no line and no error."""

import dataclasses
import gzip
import json
import subprocess
import sys
import traceback

import pyarrow.parquet as pq
import pytest
from journeys import WORDS, Done, digests, prose

import corpusfit
from corpusfit.cli.bar import Bar
from corpusfit.core.credentials import URLS
from corpusfit.core.engine.logged import Logged
from corpusfit.core.errors import CorpusfitWarning, InputError
from corpusfit.core.manifest import source_as_dict
from corpusfit.core.plan import ReadPlan
from corpusfit.training.inputs import find_training_inputs
from listening import Listening
from signed_pages import SECRETS, SIGNATURES, Pages, Web

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd


def lines_of(texts):
    return b"".join(json.dumps({"text": text}).encode() + b"\n" for text in texts)


@pytest.fixture(scope="module")
def web():
    """A server with a corpus, a target and a file of no known kind."""
    pile = lines_of(text for topic in WORDS for text in prose(topic, 60))
    pages = {
        "/d/pile.jsonl.gz": gzip.compress(pile),
        "/d/task.jsonl": lines_of(prose("task", 40, seed=1)),
        "/d/page": b"<html>",
        "/d/part.jsonl?part=1": lines_of(prose("task", 3)),
        "/d/part.jsonl?part=2": lines_of(prose("market", 3)),
    }
    web = Web(pages)
    yield web
    web.server.shutdown()
    web.server.server_close()


def with_secrets(folder):
    """Names of files that hold a secret, unpacked; how many files there are."""
    found, files = [], [file for file in folder.rglob("*") if file.is_file()]
    for file in files:
        content = file.read_bytes()
        if file.suffix == ".zst":
            content = zstd.decompress(content)
        elif file.suffix == ".parquet":
            table = pq.read_table(file)
            content += f"{table.to_pylist()} {table.schema.metadata}".encode()
        found += [file.name for secret in SECRETS if secret.encode() in content]
    return found, len(files)


def is_clean(done):
    return not any(secret in done.out + done.err for secret in SECRETS)


@pytest.mark.slow
def test_no_file_and_no_line_of_a_run_has_a_secret(
    cli, web, pages, forget, tmp_path, monkeypatch, inline
):
    out, cache = tmp_path / "out", tmp_path / "cache"
    monkeypatch.setenv("CORPUSFIT_CACHE", str(cache))

    def select(signature):
        urls = [
            web.url(f"/d/{name}", signature=signature) for name in ("task.jsonl", "pile.jsonl.gz")
        ]
        inputs = ("--target", urls[0], "--corpus", urls[1])
        command = ("--method", "random", "--fraction", "0.3", "--out", out)
        return urls, cli("select", *inputs, *command)

    urls, done = select(SIGNATURES[0])
    assert done.code == 0, done.err
    assert is_clean(done)
    manifest = json.loads((out / "manifest.json").read_bytes())
    assert manifest["corpus"][0]["url"] == f"http://{web.host}/d/pile.jsonl.gz"
    assert manifest["corpus"][0]["name"] == "pile.jsonl.gz"
    assert f"http://{web.host}/d/task.jsonl" in manifest["repeat"]
    before = digests(out)
    # a renewed signature continues the run
    forget()
    _, done = select(SIGNATURES[1])
    assert done.code == 0, done.err
    assert digests(out) == before
    # what reads the corpus again is refused, with a cure that works
    forget()
    done = cli("choose", out, "--segments", 5)
    assert done.code == 1
    assert f"http://{web.host}/d/pile.jsonl.gz" in done.err
    assert URLS in done.err
    assert is_clean(done)
    listening = Listening()
    with dataclasses.replace(inline, progress=listening).running() as context:  # as `adapt` does
        assert find_training_inputs([str(out)], (), (), ReadPlan(), context).task == []
    assert [URLS in warning for warning in listening.warnings] == [True]
    monkeypatch.setenv(URLS, " ".join(urls))
    row = pq.read_table(next((out / "scores").glob("*.parquet"))).to_pylist()[0]
    for again in (
        ("choose", out, "--segments", 5),
        ("explain", out, "--row", f"{row['source']}:{row['row']}"),
        ("report", out),
    ):
        done = cli(*again)
        assert done.code == 0, (again, done.err)
        assert is_clean(done), again
    with inline.running() as context:
        texts = find_training_inputs([str(out)], (), (), ReadPlan(), context)
    assert [source.url for source in texts.task] == [f"http://{web.host}/d/task.jsonl"]
    found, files = with_secrets(tmp_path)
    assert found == []
    assert files > 10


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("/d/pile.jsonl.gz", {"user": "me:SECRETother"}),
        ("/d/pile.jsonl.gz", {"host": "127.0.0.1:1"}),
        ("/d/page", {}),
        ("/d/gone.jsonl", {}),
        ("/moved/d/pile.jsonl.gz", {}),
    ],
)
def test_no_error_has_a_secret(cli, web, pages, tmp_path, path, words):
    url = web.url(path, **words)
    inputs = ("--target", web.url("/d/task.jsonl"), "--corpus", url)
    done = cli("select", *inputs, "--method", "random", "--out", tmp_path / "out")
    if path.startswith("/moved"):  # from where the server asks for another signature
        assert "SIGNATURE-moved" not in done.err
    assert done.code == 1
    assert f"{words.get('host', web.host)}{path}" in done.err
    assert is_clean(done)
    assert with_secrets(tmp_path)[0] == []


def test_no_traceback_has_a_secret(web, pages, tmp_path, inline):
    url = web.url("/d/pile.jsonl.gz", signature="SIGNATURE-of-old")
    with pytest.raises(InputError) as raised:
        corpusfit.select(target=url, corpus=url, out=tmp_path / "out", machine=inline)
    shown = "".join(traceback.format_exception(raised.value))
    assert web.host in shown
    assert not any(secret in shown for secret in SECRETS)


def test_a_page_is_of_the_kind_that_its_path_says(web, pages, inline, tmp_path):
    with inline.running(tmp_path) as context:
        (source,) = context.find([web.url("/d/pile.jsonl.gz")], ReadPlan(), "corpus")
    assert (source.format, source.compression) == ("jsonl", "gz")
    assert source_as_dict(source)["url"] == f"http://{web.host}/d/pile.jsonl.gz"
    assert source.name == "pile.jsonl.gz"


def test_files_that_differ_in_their_queries_are_named_by_content(
    web, pages, forget, inline, tmp_path
):
    urls = [web.url("/d/part.jsonl", last=f"part={n}") for n in (1, 2)]
    found = []
    for inputs in (urls, urls[::-1]):
        forget()
        with inline.running(tmp_path) as context:
            found.append(context.find(inputs, ReadPlan(), "corpus"))
    names = [{source.name: source.fingerprint for source in sources} for sources in found]
    assert list(names[0]) == ["part.jsonl", "part.jsonl~2"]
    assert len(set(names[0].values())) == 2
    assert names[0] == names[1]
    assert not any(secret in f"{found}" for secret in SECRETS)


def test_links_of_a_page_have_public_names(web, pages, inline, tmp_path, monkeypatch):
    link = web.url("/d/task.jsonl")
    listed = {link: {"name": link, "size": None, "type": "file"}}
    monkeypatch.setattr(Pages, "isfile", lambda *_: False)
    monkeypatch.setattr(Pages, "isdir", lambda *_: True)
    monkeypatch.setattr(Pages, "find", lambda *_, **__: listed)
    with inline.running(tmp_path) as context:
        (source,) = context.find([f"http://me:SECRETpw@{web.host}/d"], ReadPlan(), "corpus")
    assert (source.name, source.url) == ("task.jsonl", f"http://{web.host}/d/task.jsonl")
    assert source.size == len(web.pages["/d/task.jsonl"])


def test_what_is_shown_and_kept_has_no_secret(cli, web, pages, capsys, caplog, inline, tmp_path):
    url = web.url("/d/task.jsonl")
    assert is_clean(done := cli("split", url))
    assert done.code == 2
    Bar().warn(f"{url} is odd.")
    assert is_clean(Done(0, *capsys.readouterr()))
    with pytest.warns(CorpusfitWarning) as warned:
        Logged().warn(f"{url} is odd.")
    with caplog.at_level("INFO", "corpusfit"):
        Logged().note(f"{url} is odd.")
    with inline.running(tmp_path) as run:
        run.warn(f"{url} is odd.")
    said = [str(warned[0].message), *caplog.messages, *run.all_warnings()]
    assert said == [f"http://{web.host}/d/task.jsonl is odd."] * 3


def test_an_unknown_error_has_no_secret_either():
    """Of a bug: the traceback that ends the command."""
    code = (
        "import sys; from corpusfit.cli import app\n"
        "def bug(): raise RuntimeError('http://me:SECRETpw@host/a?X-Amz-Signature=SIGNATURE-one')\n"
        "app.app = bug; app.run()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "RuntimeError: http://host/a" in done.stderr
    assert not any(secret in done.stderr for secret in SECRETS)


@pytest.mark.slow
def test_workers_open_what_their_command_was_given(command, web, tmp_path):
    pytest.importorskip("aiohttp")
    inputs = ("--target", web.url("/d/task.jsonl"), "--corpus", web.url("/d/pile.jsonl.gz"))
    here = ("--out", tmp_path / "out", "--cache", tmp_path / "cache", "--workers", 2)
    done = command("select", *inputs, "--method", "random", *here)
    assert done.code == 0, done.err
    assert is_clean(done)
    assert with_secrets(tmp_path)[0] == []
