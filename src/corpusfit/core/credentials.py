"""Names, passwords and signatures in URLs: kept in this process, and in no name, file or message.

An input is exchanged for its public name where it is first read (`registered`), so that all that is
written, shown or hashed has this name alone. Whoever opens it asks for the URL as it was given
(`with_credentials`). Jobs bring what is known to their workers (`known`, `learn`).
"""

from __future__ import annotations

import itertools
import os
import re
from collections.abc import Iterable
from urllib.parse import parse_qsl, quote, unquote

URLS = "CORPUSFIT_URLS"
"""The variable of the environment with URLs, between spaces, by which public names are opened."""

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
"""Letters of a secret, as a shorter one is also a part of words."""
_LONG = 16
"""Letters from which on any value of a query may be a secret."""
_SECRET = re.compile("sig|token|key|secret|pass|auth|cred|policy|code|session", re.I)
"""Names of parameters with secrets."""

_TOKENS = ("HF_TOKEN", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AZURE_STORAGE_KEY")
"""Variables of the environment whose values stores get, and may quote if they are damaged."""

_given: dict[str, str] = {}
"""URLs as they were given, by public name."""
_users: dict[str, str] = {}
"""Hosts with name and password, by hosts without."""
_secrets: set[str] = set()
_variable = [""]
"""The variable when it was last read."""
_changed = [0]
"""How often a URL was added."""


def public_name(url: str) -> str:
    """A URL, or a chain of them, without names, passwords, query and fragment."""
    return "::".join(map(_public, _LINKS.split(url))) if "://" in url else url


def _public(link: str) -> str:
    match = _LINK.fullmatch(link)
    if match is None or match[1].lower() in _PATHS:
        return link
    scheme = match[1].lower()
    rest = match[2]
    user = _USER.match(rest)
    if user:
        account = user[0].partition(":")[0].removesuffix("@") if scheme in _ACCOUNTS else ""
        rest = (f"{account}@" if account else "") + rest[user.end() :]
    query = _WEB_QUERY if scheme in _WEB else _QUERY
    return f"{match[1]}://{query.sub('', rest)}"


def registered(url: str) -> str:
    """Register a URL as it was given; returns the public name by which it can be opened here.

    Of several with the same public name, each further one has its number before the host.
    """
    _read_variable()
    public = public_name(url)
    if public == url or url in _given:
        return url
    before, scheme, behind = public.rpartition("://")
    for number in itertools.count(1):
        name = public if number == 1 else f"{before}{scheme}{number}@{behind}"
        if _given.get(name, url) == url:
            _add(name, url)
            return name
    raise AssertionError


def with_credentials(name: str) -> str:
    """The URL as it was given; of others on its host, with the name and the password for it."""
    _read_variable()
    if name in _given or not _users:
        return _given.get(name, name)
    return "::".join(map(_with_user, _LINKS.split(name)))


def _with_user(link: str) -> str:
    host = _host(link)
    return _users.get(host, host) + link[len(host) :]


def _host(link: str) -> str:
    """The beginning of a URL, up to its path."""
    begin = link.find("://") + 3
    user = _USER.match(link, begin)
    end = re.compile("[/?#]|$").search(link, user.end() if user else begin)
    return link[: end.start()] if end else link


def known() -> tuple[tuple[str, str], ...]:
    """Public names and URLs as they were given, for `learn` in another process."""
    return tuple(_given.items())


def changes() -> int:
    """How many URLs were registered so far, which tells no secret as a hash of them might."""
    return _changed[0]


def learn(urls: Iterable[tuple[str, str]]) -> None:
    """Register what `known` returned in another process."""
    for name, url in urls:
        _add(name, url)


def _read_variable() -> None:
    now = os.environ.get(URLS, "")
    if now != _variable[0]:
        _variable[0] = now
        for url in now.split():
            _add(public_name(url), url)


def _add(name: str, url: str) -> None:
    if _given.get(name) == url:
        return
    _given[name] = url
    _changed[0] += 1
    for link in _LINKS.split(url):
        public = _public(link)
        host = _host(link)
        if public == link:
            continue
        if _host(public) != host:
            _users[_host(public)] = host
            _hide_user(host.partition("://")[2].rpartition("@")[0])
        query = link[len(host) :].partition("?")[2] or link[len(host) :].partition("#")[2]
        if query:
            _hide(query)
        for parameter, value in parse_qsl(re.sub("[?#]", "&", query), keep_blank_values=True):
            if value not in public and (_SECRET.search(parameter) or len(value) >= _LONG):
                _hide(value)


def _hide_user(user: str) -> None:
    name, colon, password = user.partition(":")
    for secret in (user, password if colon else name):
        _hide(secret)


def _hide(secret: str) -> None:
    """Note a secret, as it is, escaped, and without escapes."""
    plain = unquote(secret)
    forms = {secret, plain, quote(plain), quote(plain, safe="")}
    _secrets.update(form for form in forms if len(form) >= _LEAST)


def redacted(text: str) -> str:
    """A text without secrets of the URLs that this process knows, and without tokens."""
    tokens = {os.environ.get(name, "").strip() for name in _TOKENS}
    secrets = _secrets | {token for token in tokens if len(token) >= _LEAST}
    for secret in sorted(secrets, key=len, reverse=True):
        text = text.replace(secret, _HIDDEN)
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
