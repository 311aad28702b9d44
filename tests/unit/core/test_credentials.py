"""Which URLs are refused, and what texts lose."""

import pickle
import traceback
from pathlib import Path

import pytest

from corpusfit.core.artifacts import folder_path
from corpusfit.core.credentials import public_name, public_text, redacted
from corpusfit.core.errors import (
    InputError,
    StorageError,
    UsageError,
    raise_machine_fault,
    require_public,
    without_secrets,
)
from corpusfit.core.plan import Plan
from corpusfit.text.sources import located

SIGNED = "http://me:SECRETpw@host:8080/d/a.jsonl?X-Amz-Signature=SIGNATURE&n=b.csv#frag"


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
    with pytest.raises(UsageError) as refused:
        require_public(url, "`corpus`")
    assert name in str(refused.value)
    assert not any(secret in str(refused.value) for secret in ("SEC", "p%40ss", "sig="))


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
    assert require_public(url, "`corpus`") == url


@pytest.mark.parametrize(
    "take",
    [
        lambda: located(SIGNED, Path()),
        lambda: located(f"pair:{SIGNED},https://host/a.en", Path()),
        lambda: located("pair:http://me:SECRETpw@host/a.tsv:de,en", Path()),
        lambda: Plan().with_value("choose.clusters", "s3://key:SECRETpw@bucket/clusters"),
        lambda: folder_path("http://me:SECRETpw@host/out", "`out`"),
    ],
)
def test_a_secret_is_refused_wherever_it_is_given(take):
    with pytest.raises(UsageError) as refused:
        take()
    assert "SECRET" not in str(refused.value)
    assert "curl" in str(refused.value)


def test_texts_lose_what_libraries_quote():
    for text in (
        "cannot open http:/me:SEC/RET@host/a.jsonl?X-Amz-Signature=another",  # of a path
        "redirected to https://cdn.host/x?X-Amz-Signature=another",
    ):
        shown = public_text(text)
        assert not any(secret in shown for secret in ("RET", "another"))
        assert len(shown) > 5


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
