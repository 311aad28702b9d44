"""SQLite databases: the rows of a table, or of a SELECT statement.

What: the rows become JSON lines with the text and the id, which are parsed as such.
Why: data sets are published as databases (One Million Posts), and a statement is the shortest way
to say which column is the text, which the label, and which rows count.
Trade-off: `byte` counts bytes of these JSON lines. The order of rows is SQLite's: that of the
table, or of the statement's ORDER BY. A statement can only read: everything else is refused.
Reference: https://sqlite.org/lang_select.html
"""

from __future__ import annotations

import contextlib
import sqlite3
import tempfile
from collections.abc import Iterator
from pathlib import Path

from corpusfit.corpus import rejects
from corpusfit.corpus.cutting import Block, Lines, cut
from corpusfit.corpus.files import is_url, unreadable
from corpusfit.corpus.formats.jsonl import JsonLines, as_line
from corpusfit.corpus.unpack import Stream
from corpusfit.errors import InputError
from corpusfit.plan import ReadPlan
from corpusfit.types import Source

_ROWS = 64
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
    all_fields = False

    def blocks(self, source: Source, plan: ReadPlan) -> Iterator[Block]:
        """Blocks of whole rows."""
        return cut(_JsonLines(source, plan), Lines(), plan)

    def check(self, source: Source, plan: ReadPlan, setting: str) -> None:
        """Raise `InputError` for a query that the database cannot answer."""
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
        except (sqlite3.DatabaseError, UnicodeError):  # sqlite3 may fail to decode its own error
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
                names = [column[0] for column in rows.description]
                while some := rows.fetchmany(_ROWS):
                    yield b"".join(
                        as_line(dict(zip(names, r, strict=True)), self._plan) for r in some
                    )
        except (sqlite3.Error, sqlite3.Warning, UnicodeError, _UnclearError) as e:
            if getattr(e, "sqlite_errorcode", 0) & 0xFF in _OF_MACHINE:
                raise unreadable(self._source.url, e) from e
            self.problem = rejects.unreadable("sqlite", e)
        self.position = self._source.size


@contextlib.contextmanager
def _opened(source: Source, plan: ReadPlan) -> Iterator[sqlite3.Connection]:
    """The database, for reading alone; one that is packed or remote is copied first."""
    with contextlib.ExitStack() as stack:
        path = Path(source.url)
        if source.compression or is_url(source.url):
            path = Path(stack.enter_context(tempfile.TemporaryDirectory())) / "copy"
            with path.open("wb") as file:
                file.writelines(Stream(source, plan))
        address = f"{path.absolute().as_uri()}?mode=ro&immutable=1"
        database = stack.enter_context(contextlib.closing(sqlite3.connect(address, uri=True)))
        database.text_factory = lambda data: data.decode("utf-8", "surrogateescape")
        database.set_authorizer(
            lambda action, *_: sqlite3.SQLITE_OK if action in _READING else sqlite3.SQLITE_DENY
        )
        yield database


def _statement(database: sqlite3.Connection, query: str) -> str:
    """The SELECT statement of a query: itself, or that of a whole table."""
    if query.strip().lower().startswith(("select ", "select\n", "with ")):
        return query
    found = database.execute(
        "SELECT name FROM sqlite_master WHERE type IN ('table', 'view') "
        "AND name NOT LIKE 'sqlite_%' AND typeof(name) = 'text' ORDER BY name"
    )
    tables = [name for (name,) in found]
    if query not in tables and (query or len(tables) != 1):
        raise _UnclearError(f"its tables are {', '.join(tables) or 'none'}")
    quoted = (query or tables[0]).replace('"', '""')
    return f'SELECT * FROM "{quoted}"'  # noqa: S608 (a table that exists)
