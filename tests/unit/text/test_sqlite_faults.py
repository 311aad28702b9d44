"""A SQLite file on a disk that fails is an error; its rows are not rejected."""

import contextlib
import sqlite3

import pytest

from corpusfit.core.errors import InputError
from corpusfit.text.formats import sqlite


class FailingDisk:
    """A connection whose reads fail as those of SQLite do."""

    def execute(self, statement):
        error = sqlite3.OperationalError("disk I/O error")
        error.sqlite_errorcode = sqlite3.SQLITE_IOERR_READ
        raise error


def test_a_disk_that_fails_is_no_damaged_file(read, tmp_path, monkeypatch):
    path = tmp_path / "rows.sqlite"
    with contextlib.closing(sqlite3.connect(path)) as database:
        database.execute("CREATE TABLE rows (text TEXT)")
        database.execute("INSERT INTO rows VALUES ('one')")
        database.commit()
    assert [row.text for row in read(path)] == ["one"]
    monkeypatch.setattr(sqlite, "_opened", lambda *_: contextlib.nullcontext(FailingDisk()))
    with pytest.raises(InputError, match=r"rows\.sqlite.*disk I/O error"):
        read(path)
