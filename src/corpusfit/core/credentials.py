"""Names, passwords and signatures in URLs: in no name, file or message.

A URL of the user must have none (`errors.require_public`): what opens a store is told to its
library. What libraries say may still quote some.
"""

from __future__ import annotations

import os
import re

_SCHEME = r"[a-z][a-z0-9+.-]*"
_LINKS = re.compile(rf"::(?={_SCHEME}(?:://|::))", re.I)
"""Between the links of a chain of fsspec; an address of IPv6 has no scheme behind its colons."""
_LINK = re.compile(rf"({_SCHEME})://(.*)", re.I | re.S)
_USER = re.compile(r"[^/?#]*@|[^:/?#@\[\]]+:(?!\d*(?:[/?#]|$))[^@]*@")
"""A name and a password; one with a `/` that is not escaped, too, unless it may be a port."""
_QUERY = re.compile(r"[?#][\w.%+~-]+=.*", re.S)
"""A query as opposed to a pattern or a name with a `?`."""
_WEB_QUERY = re.compile(r"[?#].*", re.S)
_WEB = {"http", "https"}
_PATHS = {"file", "local", "memory", "zip", "tar", "libarchive", "github", "git"}
"""What follows their `://` is no host, and an `@` belongs to the path or names a revision."""
_ACCOUNTS = {"abfs", "abfss", "wasb", "wasbs", "ftp", "hdfs", "sftp", "smb", "ssh", "webhdfs"}
"""The name before the `@` says which container or account is meant, and is no secret."""
_IN_TEXT = re.compile(rf"({_SCHEME}(?<=..)):/{{1,2}}([^\s'\"<>`/][^\s'\"<>`]*)", re.I)
"""A URL, or what a path makes of it, which has one slash."""
_HIDDEN = "***"
_LEAST = 6
"""Letters of a token, as a shorter text is also a part of words."""
_TOKENS = ("HF_TOKEN", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AZURE_STORAGE_KEY")
"""Variables of the environment whose values stores get, and may quote if they are damaged."""


def public_name(url: str) -> str:
    """A URL, or a chain of them, without names, passwords, query and fragment."""
    return "::".join(map(_public, _LINKS.split(url))) if "://" in url else url


def _public(link: str) -> str:
    match = _LINK.fullmatch(link)
    if match is None or match[1].lower() in _PATHS:
        return link
    scheme, rest = match[1].lower(), match[2]
    user = _USER.match(rest)
    if user:
        account = user[0].partition(":")[0].removesuffix("@") if scheme in _ACCOUNTS else ""
        rest = (f"{account}@" if account else "") + rest[user.end() :]
    query = _WEB_QUERY if scheme in _WEB else _QUERY
    return f"{match[1]}://{query.sub('', rest)}"


def redacted(text: str) -> str:
    """A text without the tokens of this process's environment."""
    for name in _TOKENS:
        token = os.environ.get(name, "").strip()
        if len(token) >= _LEAST:
            text = text.replace(token, _HIDDEN)
    return text


def public_text(text: str) -> str:
    """`redacted`, and every URL in the text by its public name; for what libraries say."""
    if ":/" in text:
        text = _IN_TEXT.sub(_named, text)
    return redacted(text)


def _named(match: re.Match[str]) -> str:
    url = f"{match[1]}://{match[2]}"
    public = public_name(url)
    return match[0] if public == url else public
