"""Databases with a write-ahead log or a journal beside them, and some that are being written."""

import contextlib
import shutil
import sqlite3

import pytest

from corpusfit.core.errors import InputError
from corpusfit.core.plan import ReadPlan
from corpusfit.text import content, current_sources, files_of, find, rows, shards

PLAN = ReadPlan()


def sources_of(path, tmp_path):
    return find([str(path)], PLAN, spool=tmp_path, role="corpus")


def texts(path, tmp_path):
    found = sources_of(path, tmp_path)
    return [row.text for shard in shards(found, PLAN) for row in rows(shard, PLAN)]


@pytest.fixture
def writer(tmp_path):
    """A connection to `live.db` with two committed rows, in a journal mode."""
    with contextlib.ExitStack() as stack:

        def writer(mode):
            path = tmp_path / "box" / "live.db"
            path.parent.mkdir()
            database = sqlite3.connect(path, isolation_level=None)
            stack.enter_context(contextlib.closing(database))
            database.execute(f"PRAGMA journal_mode={mode}")
            database.execute("CREATE TABLE posts (id INTEGER PRIMARY KEY, text)")
            database.execute("INSERT INTO posts (text) VALUES ('one'), ('two')")
            return path, database

        yield writer


def test_the_log_is_read(writer, tmp_path):
    path, database = writer("WAL")
    database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    (before,) = sources_of(path, tmp_path)
    database.execute("UPDATE posts SET text = 'new one' WHERE id = 1")
    database.execute("INSERT INTO posts (text) VALUES ('three')")
    database.execute("BEGIN")
    database.execute("INSERT INTO posts (text) VALUES ('not committed')")
    names = sorted(file.name for file in path.parent.iterdir())
    assert texts(path, tmp_path) == ["new one", "two", "three"]
    assert sorted(file.name for file in path.parent.iterdir()) == names
    (now,) = sources_of(path, tmp_path)
    assert len(files_of(now)) == 2
    assert now.fingerprint != before.fingerprint
    assert content(now) == now.fingerprint
    assert current_sources([before], PLAN)[1] == ["live.db"]


def test_a_copy_in_a_folder_that_cannot_be_written(writer, tmp_path):
    """The log alone, without the index of the program that wrote it, and through a link."""
    path, _ = writer("WAL")
    folder = tmp_path / "read-only"
    folder.mkdir()
    for suffix in ("", "-wal"):
        shutil.copy(f"{path}{suffix}", folder / f"a.db{suffix}")
        (folder / f"a.db{suffix}").chmod(0o400)
    folder.chmod(0o500)
    (tmp_path / "link.db").symlink_to(folder / "a.db")
    try:
        assert texts(folder / "a.db", tmp_path) == ["one", "two"]
        assert texts(tmp_path / "link.db", tmp_path) == ["one", "two"]
        assert sorted(file.name for file in folder.iterdir()) == ["a.db", "a.db-wal"]
    finally:
        folder.chmod(0o700)


@pytest.mark.parametrize("mode", ["DELETE", "PERSIST", "TRUNCATE"])
def test_a_hot_journal_is_rolled_back(writer, tmp_path, mode):
    """As after a crash within a transaction."""
    path, database = writer(mode)
    database.execute("PRAGMA cache_size=1")
    database.execute("BEGIN")
    database.execute("UPDATE posts SET text = 'half'")
    database.executemany("INSERT INTO posts (text) VALUES (?)", [("x" * 3000,)] * 50)
    for suffix in ("", "-journal"):
        shutil.copy(f"{path}{suffix}", tmp_path / f"crashed.db{suffix}")
    database.execute("ROLLBACK")
    size = (tmp_path / "crashed.db").stat().st_size
    assert texts(tmp_path / "crashed.db", tmp_path) == ["one", "two"]
    assert (tmp_path / "crashed.db").stat().st_size == size
    assert texts(path, tmp_path) == ["one", "two"]


@pytest.mark.parametrize("mode", ["DELETE", "WAL"])
def test_a_database_that_changes_is_refused(writer, tmp_path, mode):
    path, database = writer(mode)
    database.execute("BEGIN")  # or the disk is waited for after each row
    database.executemany("INSERT INTO posts (text) VALUES (?)", [(f"t{i}",) for i in range(2000)])
    database.execute("COMMIT")
    database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    plan = ReadPlan(shard_mb=1e-3)
    found = iter(shards(sources_of(path, tmp_path), plan))
    next(found)
    database.execute("UPDATE posts SET text = 'new'")
    database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    with pytest.raises(InputError, match=r"live\.db"):
        list(found)
