"""Names, passwords and signatures of URLs are refused, and in no file, no line and no error."""

import subprocess
import sys
import traceback

import pytest
from journeys import Done, prose

import corpusfit
from corpusfit.cli.bar import Bar
from corpusfit.core.engine.logged import Logged
from corpusfit.core.errors import CorpusfitWarning, InputError
from corpusfit.core.plan import ReadPlan
from corpusfit.text.context import Run
from signed_pages import SECRETS, Pages, Web

SIGNED = "http://me:SECRETpw@host/d/task.jsonl?X-Amz-Signature=SIGNATURE-one"


@pytest.fixture(scope="module")
def web():
    """A server with a target and a file of no known kind."""
    rows = "".join(f'{{"text": "{text}"}}\n' for text in prose("task", 40, seed=1))
    web = Web({"/d/task.jsonl": rows.encode(), "/d/page": b"<html>"})
    yield web
    web.server.shutdown()
    web.server.server_close()


def is_clean(done):
    return not any(secret in done.out + done.err for secret in SECRETS)


@pytest.mark.parametrize(
    "inputs",
    [
        ("--target", SIGNED, "--corpus", "corpus.jsonl"),
        ("--target", f"pair:{SIGNED},http://host/b", "--corpus", "corpus.jsonl"),
    ],
)
def test_a_url_with_a_secret_is_refused_before_anything_is_written(cli, tmp_path, inputs):
    done = cli("select", *inputs, "--method", "random", "--out", tmp_path / "out")
    assert done.code == 2
    assert "curl" in done.err
    assert is_clean(done)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "path", ["/d/page", "/d/gone.jsonl", "/closed/a.jsonl", "/moved/closed/a.jsonl"]
)
def test_no_error_has_a_secret(cli, web, pages, tmp_path, path):
    inputs = ("--target", f"http://{web.host}/d/task.jsonl", "--corpus", f"http://{web.host}{path}")
    done = cli("select", *inputs, "--method", "random", "--out", tmp_path / "out")
    assert done.code == 1
    assert f"{web.host}{path}" in done.err
    assert is_clean(done)


def test_no_traceback_has_a_secret(web, pages, tmp_path, inline):
    url = f"http://{web.host}/moved/closed/a.jsonl"
    with pytest.raises(InputError) as raised:
        corpusfit.select(target=url, corpus=url, out=tmp_path / "out", machine=inline)
    shown = "".join(traceback.format_exception(raised.value))
    assert web.host in shown
    assert not any(secret in shown for secret in SECRETS)


def test_links_of_a_page_with_a_signature_are_passed_over_by_name(
    web, pages, inline, tmp_path, monkeypatch
):
    links = [f"http://{web.host}/d/task.jsonl", f"http://{web.host}/d/b.jsonl?sig=SIGNATURE"]
    listed = {link: {"name": link, "size": None, "type": "file"} for link in links}
    monkeypatch.setattr(Pages, "isfile", lambda *_: False)
    monkeypatch.setattr(Pages, "isdir", lambda *_: True)
    monkeypatch.setattr(Pages, "find", lambda *_, **__: listed)
    with inline.running(tmp_path) as context:
        (source,) = context.find([f"http://{web.host}/d"], ReadPlan(), "corpus")
    assert (source.name, source.url) == ("task.jsonl", links[0])
    assert source.size == len(web.pages["/d/task.jsonl"])
    (note,) = context.passed_over
    assert "b.jsonl" in note
    assert "SIGNATURE" not in note


def test_what_is_shown_and_kept_has_no_secret(cli, capsys, caplog, inline, tmp_path):
    assert is_clean(done := cli("split", SIGNED))
    assert done.code == 2
    Bar().warn(f"{SIGNED} is odd.")
    assert is_clean(Done(0, *capsys.readouterr()))
    with pytest.warns(CorpusfitWarning) as warned:
        Logged().warn(f"{SIGNED} is odd.")
    with caplog.at_level("INFO", "corpusfit"):
        Logged().note(f"{SIGNED} is odd.")
    with inline.running(tmp_path) as context:
        run = Run.of(context, corpusfit.Plan(), [], [])
        run.warn(f"{SIGNED} is odd.")
    said = [str(warned[0].message), *caplog.messages, *run.all_warnings()]
    assert said == ["http://host/d/task.jsonl is odd."] * 3


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
