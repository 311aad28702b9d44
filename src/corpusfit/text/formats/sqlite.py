"""SQLite databases: the rows of a table, or of a SELECT statement.

What: the rows become JSON lines with the text and the id, which are parsed as such.
Why: data sets are published as databases (One Million Posts), and a statement is the shortest way
to say which column is the text, which the label, and which rows count.
Trade-off: `byte` counts bytes of these JSON lines. The order of rows is SQLite's: that of the
table, or of the statement's ORDER BY. A statement can only read: everything else is refused.
Nothing is written beside the database, and no lock is taken. With a write-ahead log or a rollback
journal beside it, a copy of both is read in the temporary folder, where SQLite replays the log. A
database that another program writes meanwhile is refused.
Reference: https://sqlite.org/lang_select.html, https://sqlite.org/wal.html
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shlex
import sqlite3
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from corpusfit.core.errors import InputError
from corpusfit.core.plan import ReadPlan
from corpusfit.core.types import Source
from corpusfit.text import rejects
from corpusfit.text.cutting import Block, Lines, cut
from corpusfit.text.files import Stream, filesystem, is_url, open_stored, raise_unreadable
from corpusfit.text.formats.jsonl import JsonLines, as_line

_ROWS = 64
_LOGS = ("-wal", "-journal")
_HEAD = 32  # of a database with the number of its changes, of a log with a number of its own
_OF_MACHINE = {sqlite3.SQLITE_IOERR, sqlite3.SQLITE_NOMEM, sqlite3.SQLITE_FULL}
_READING = {
    sqlite3.SQLITE_SELECT,
    sqlite3.SQLITE_READ,
    sqlite3.SQLITE_FUNCTION,
    sqlite3.SQLITE_RECURSIVE,
}


class Sqlite(JsonLines):
    """Files of SQLite databases."""

    name = "sqlite"
    suffixes = (".sqlite", ".sqlite3", ".db")
    joins = False
    cut_by_text = False

    def blocks(self, source: Source, plan: ReadPlan) -> Iterator[Block]:
        return cut(_JsonLines(source, plan), Lines(), plan)

    def files(self, source: Source) -> list[str]:
        """The database, and the log beside it that holds its latest rows."""
        return [source.url, *_logs(source)]

    def fingerprint(self, source: Source, digests: Sequence[str]) -> str:
        if len(digests) == 1:
            return digests[0]
        return hashlib.blake2b("\n".join(digests).encode(), digest_size=16).hexdigest()

    def check(self, source: Source, plan: ReadPlan, setting: str) -> None:
        try:
            with _opened(source, plan) as database:
                database.execute(_statement(database, plan.query))
        except (
            sqlite3.OperationalError,
            sqlite3.ProgrammingError,
            sqlite3.Warning,
            _UnclearError,
        ) as e:
            raise InputError(
                f"{setting} {source.url}: the setting query must be one of its tables or a SELECT "
                f"statement; got {plan.query!r}: {e}."
            ) from e
        except (sqlite3.DatabaseError, UnicodeError):
            # sqlite3 may fail to decode its own error, which raises UnicodeError
            return  # bad content is a reject


class _UnclearError(Exception):
    """A database does not have exactly one table, and the plan names none."""


class _JsonLines:
    """The rows as JSON lines, one chunk per few rows."""

    def __init__(self, source: Source, plan: ReadPlan) -> None:
        self.position = 0
        self.problem = ""
        self._source, self._plan = source, plan

    def __iter__(self) -> Iterator[bytes]:
        if not self._source.size:
            return
        try:
            with _opened(self._source, self._plan) as database:
                rows = database.execute(_statement(database, self._plan.query))
                names = [column[0] for column in rows.description][::-1]
                while batch := rows.fetchmany(_ROWS):
                    yield b"".join(
                        # of columns with one name the first
                        as_line(dict(zip(names, r[::-1], strict=True)), self._plan)
                        for r in batch
                    )
        except (sqlite3.Error, sqlite3.Warning, UnicodeError, _UnclearError) as e:
            if getattr(e, "sqlite_errorcode", 0) & 0xFF in _OF_MACHINE:
                raise_unreadable(self._source.url, e)
            self.problem = rejects.unreadable("sqlite", e)
        self.position = self._source.size


@contextlib.contextmanager
def _opened(source: Source, plan: ReadPlan) -> Iterator[sqlite3.Connection]:
    """The database, for reading alone; one that is packed, remote or has a log is copied first."""
    with contextlib.ExitStack() as stack:
        path, how, logs = Path(source.url), "mode=ro&immutable=1", _logs(source)
        before = _state(source, logs)
        if logs or source.compression or is_url(source.url):
            path = Path(stack.enter_context(tempfile.TemporaryDirectory())) / "copy"
            # copy the log last: concurrent commits only append to it
            for stored in (source, *(replace(source, url=log) for log in logs)):
                suffix = "" if stored is source else stored.url[stored.url.rindex("-") :]
                with path.with_name(f"copy{suffix}").open("wb") as file:
                    file.writelines(Stream(stored, plan))
            how = "mode=rw" if logs else how
            _expect(source, logs, before)
        address = f"{path.absolute().as_uri()}?{how}"
        database = stack.enter_context(contextlib.closing(sqlite3.connect(address, uri=True)))
        database.text_factory = lambda data: data.decode("utf-8", "surrogateescape")
        database.set_authorizer(
            lambda action, *_: sqlite3.SQLITE_OK if action in _READING else sqlite3.SQLITE_DENY
        )
        try:
            yield database
        except sqlite3.DatabaseError:
            _expect(source, logs, before)
            raise
        if not logs:
            _expect(source, logs, before)


def _logs(source: Source) -> list[str]:
    """The write-ahead log or rollback journal beside a database, if it holds anything."""
    if source.compression:
        return []
    if is_url(source.url):
        fs, path = filesystem(source.url, "The input")
        return [source.url + s for s in _LOGS if fs.exists(path + s) and fs.size(path + s)]
    # SQLite looks for the log beside the real file, not beside a link
    home = Path(source.url).resolve()
    logs = [home.with_name(home.name + suffix) for suffix in _LOGS]
    return [str(log) for log in logs if log.is_file() and log.stat().st_size]


def _state(source: Source, logs: list[str]) -> list[object]:
    """What changes when another program writes to a local database, or begins its log anew."""
    if is_url(source.url):
        return []
    state: list[object] = []
    for url in (source.url, *logs):
        with open_stored(url) as file:
            stat = os.fstat(file.fileno())
            # only the beginning of a log, as it may grow
            state += [file.read(_HEAD), stat.st_ino]
            state += [] if url in logs else [stat.st_size, stat.st_mtime_ns]
    return state


def _expect(source: Source, logs: list[str], state: list[object]) -> None:
    """Raise `InputError` if another program wrote to the database since a state."""
    if _state(source, logs) != state:
        raise InputError(
            f"{source.url} changed while it was read. Run again when no process writes to it, or "
            f'copy it first: sqlite3 {shlex.quote(source.url)} ".backup copy.db"'
        )


def _statement(database: sqlite3.Connection, query: str) -> str:
    """The SELECT statement of a query: itself, or that of a whole table."""
    if query.strip().lower().startswith(("select ", "select\n", "with ")):
        return query
    listed = database.execute(
        "SELECT name FROM sqlite_master WHERE type IN ('table', 'view') "
        "AND name NOT LIKE 'sqlite_%' AND typeof(name) = 'text' ORDER BY name"
    )
    tables = [name for (name,) in listed]
    if query not in tables and (query or len(tables) != 1):
        raise _UnclearError(f"its tables are {', '.join(tables) or 'none'}")
    quoted = (query or tables[0]).replace('"', '""')
    return f'SELECT * FROM "{quoted}"'  # noqa: S608 (a table that exists)
