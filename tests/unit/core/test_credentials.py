"""What a URL is called, what opens it, and what texts lose."""

import pickle
import traceback
from typing import ClassVar
from urllib.parse import urlsplit

import fsspec
import pytest
from fsspec.implementations.memory import MemoryFileSystem
from fsspec.registry import _registry

from corpusfit.core.artifacts import folder_path
from corpusfit.core.credentials import (
    URLS,
    public_name,
    public_text,
    redacted,
    registered,
    with_credentials,
)
from corpusfit.core.engine.contract import as_job
from corpusfit.core.engine.worker import opened, packed
from corpusfit.core.errors import InputError, StorageError, raise_machine_fault, without_secrets
from corpusfit.core.plan import Plan
from corpusfit.text.sources import located

SIGNED = "http://me:SECRETpw@host:8080/d/a.jsonl?X-Amz-Signature=SIGNATURE&n=b.csv#frag"


class Guarded(MemoryFileSystem):
    """Files in this process's memory, of a server that is told a password."""

    protocol = "ftp"
    seen: ClassVar = set()

    def __init__(self, host="", username="", password="", **others):
        super().__init__(**others)
        self.seen.add(password)

    @classmethod
    def _strip_protocol(cls, path):
        return urlsplit(path).path if "://" in path else path

    @staticmethod
    def _get_kwargs_from_urls(path):
        url = urlsplit(path)
        return {"host": url.hostname, "username": url.username, "password": url.password}


@pytest.fixture
def guarded_store():
    """Such a store as `ftp://`."""
    Guarded.seen.clear()
    fsspec.register_implementation("ftp", Guarded, clobber=True)
    yield Guarded
    del _registry["ftp"]


@pytest.fixture(autouse=True)
def _nothing_known(forget):
    forget()


@pytest.mark.parametrize(
    ("url", "name"),
    [
        (SIGNED, "http://host:8080/d/a.jsonl"),
        ("https://SECRETtoken@host/a.jsonl", "https://host/a.jsonl"),
        ("https://me:SEC/RE?T#pw@host/a.jsonl?s=1", "https://host/a.jsonl"),
        ("https://me:p%40ss@[::1]:80/a?b", "https://[::1]:80/a"),
        ("HTTP://me:SECRETpw@host", "HTTP://host"),
        ("s3://key:SECRETpw@bucket/a.jsonl", "s3://bucket/a.jsonl"),
        ("s3://bucket/a.jsonl?versionId=SECRET", "s3://bucket/a.jsonl"),
        ("gs://bucket/a.jsonl#token=SECRET", "gs://bucket/a.jsonl"),
        ("abfs://data:SECRETpw@account/a.jsonl?sv=1&sig=S", "abfs://data@account/a.jsonl"),
        ("sftp://me:SECRETpw@host/a.jsonl", "sftp://me@host/a.jsonl"),
        (
            "zip://a.jsonl::simplecache::http://me:SECRETpw@host/x.zip?sig=S",
            "zip://a.jsonl::simplecache::http://host/x.zip",
        ),
    ],
)
def test_a_public_name_has_no_secret(url, name):
    assert public_name(url) == name
    assert public_name(name) == name
    assert registered(url) == name
    assert with_credentials(name) == url


@pytest.mark.parametrize(
    "url",
    [
        "/data/a?b=c#d@e.jsonl",
        "file:///data/a?b=c.jsonl",
        "memory://bucket/me:you@b?c=d",
        "http://host:8080/me@you.jsonl",
        "http://[fe80::1]:80/a.jsonl",
        "s3://bucket/part-?/lang=de/*.jsonl",
        "s3://bucket/what?.jsonl",
        "s3://bucket/a#b.jsonl",
        "abfs://data@account/a.jsonl",
        "ssh://me@host/a.jsonl",
        "github://org:repo@main/a.jsonl",
        "hub:owner/name@main@train",
        "hf://datasets/owner/name@main/a.parquet",
        "zip://a@b:c.jsonl::/data/x.zip",
    ],
)
def test_a_name_without_a_secret_stays(url):
    assert public_name(url) == url
    assert registered(url) == url
    assert with_credentials(url) == url


def test_urls_that_differ_in_their_queries_are_two():
    first, second = (registered(f"http://host/a.jsonl?id={n}") for n in (5, 6))
    assert first != second
    assert [with_credentials(name)[-1] for name in (first, second)] == ["5", "6"]
    assert public_name(second) == public_name(first) == "http://host/a.jsonl"
    assert second.endswith(".jsonl")
    assert registered("http://host/a.jsonl?id=6") == registered(second) == second


def test_name_and_password_open_what_is_on_their_host():
    registered("http://me:SECRETpw@host:80/d/")
    assert with_credentials("http://host:80/d/a.jsonl") == "http://me:SECRETpw@host:80/d/a.jsonl"
    assert with_credentials("http://host/d/a.jsonl") == "http://host/d/a.jsonl"
    chained = with_credentials("zip://a.jsonl::http://host:80/x.zip")
    assert chained == "zip://a.jsonl::http://me:SECRETpw@host:80/x.zip"


def test_the_variable_opens_public_names(monkeypatch):
    monkeypatch.setenv(URLS, f"{SIGNED} s3://key:SECRETpw@bucket/b.jsonl")
    assert with_credentials("http://host:8080/d/a.jsonl") == SIGNED
    assert with_credentials("s3://bucket/b.jsonl") == "s3://key:SECRETpw@bucket/b.jsonl"
    renewed = SIGNED.replace("SIGNATURE", "another")
    monkeypatch.setenv(URLS, renewed)
    assert with_credentials("http://host:8080/d/a.jsonl") == renewed


def test_an_input_of_pairs_has_public_names(tmp_path):
    two = f"pair:{SIGNED},https://SECRETtoken@host/a.en?s=1,2"
    assert located(two, tmp_path) == "pair:http://host:8080/d/a.jsonl,https://host/a.en"
    columns = "pair:http://me:SECRETpw@host/a.tsv?sig=S:de,en"
    assert located(columns, tmp_path) == "pair:http://host/a.tsv:de,en"
    assert with_credentials("http://host/a.tsv") == "http://me:SECRETpw@host/a.tsv?sig=S"


def test_a_setting_has_a_public_name():
    plan = Plan().with_value("choose.clusters", "s3://key:SECRETpw@bucket/clusters")
    assert plan.choose.clusters == "s3://bucket/clusters"


def test_texts_lose_secrets_in_every_form():
    registered("http://me:SEC%2FRET@host/a.jsonl?X-Amz-Signature=SIG%2BNATURE&lang=german")
    for text in (
        "http://me:SEC%2FRET@host/a.jsonl?X-Amz-Signature=SIG%2BNATURE&lang=german",
        "max retries exceeded with url: /a.jsonl?X-Amz-Signature=SIG%2BNATURE&lang=german",
        "login as me:SEC/RET failed",
        "wrong password: SEC/RET",
        "wrong signature SIG+NATURE",
        "cannot open http:/me:SEC/RET@host/a.jsonl?X-Amz-Signature=another",  # of a path
        "redirected to https://cdn.host/x?X-Amz-Signature=another",
    ):
        shown = public_text(text)
        assert not any(secret in shown for secret in ("RET", "NATURE", "another"))
        assert len(shown) > 5
    assert redacted("a german text") == "a german text"


def test_texts_keep_what_is_no_secret():
    for text in (
        "C:/Users/me@home?x=1",
        "/data/a?b=c",
        "hub:owner/name@main",
        "see https://host/page, then",
        "`out` must be a URL without *, ?, [ and ::; got 's3://bucket/run?'.",
    ):
        assert public_text(text) == text


def test_texts_lose_tokens_of_the_environment(monkeypatch):
    monkeypatch.setenv("HF_TOKEN", "hf_SECRET\n")
    assert "SECRET" not in redacted(r"Illegal header value b'Bearer hf_SECRET\n'")


def test_errors_have_no_secret_in_text_and_traceback():
    cause = ConnectionError(f"403, message='Forbidden', url='{SIGNED}'")
    with pytest.raises(StorageError) as raised:
        raise_machine_fault(cause, f"Cannot read {SIGNED}")
    shown = "".join(traceback.format_exception(raised.value))
    assert "http://host:8080/d/a.jsonl" in shown
    assert "SECRETpw" not in shown
    assert "SIGNATURE" not in shown
    assert without_secrets(ConnectionError("refused")) is not None
    again = pickle.loads(pickle.dumps(InputError(f"got {SIGNED!r}.")))
    assert "SECRETpw" not in str(again)


def test_a_job_brings_what_opens_its_urls(forget):
    """Also what becomes known while a worker has the job open."""
    urls = [SIGNED, SIGNED.replace("a.jsonl", "b.jsonl")]
    jobs = [(registered(url), packed(as_job(with_credentials))) for url in urls]
    assert len({name for _, (name, _) in jobs}) == 2
    assert packed(as_job(with_credentials)) == jobs[1][1]
    forget()
    opened_urls = [opened(name, lambda data=data: data)(public) for public, (name, data) in jobs]
    assert opened_urls == urls


def test_a_folder_of_a_store_has_a_public_name(guarded_store):
    folder = folder_path("ftp://me:SECRETpw@host/out", "`out`")
    (folder / "a").write_bytes(b"x")
    assert "SECRETpw" not in f"{folder} {folder!r}"
    assert pickle.loads(pickle.dumps(folder)) / "a" == folder / "a"
    assert guarded_store.seen == {"SECRETpw"}


def test_a_folder_of_web_pages_is_asked_for_with_its_password(pages):
    folder = folder_path("http://me:SECRETpw@host/out", "`out`")
    assert str(folder) == "http://host/out"
    assert folder.storage_options["headers"] == {"Authorization": "Basic bWU6U0VDUkVUcHc="}
