"""A lock on a folder that names the command under way."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from corpusfit.core.artifacts import is_local
from corpusfit.core.errors import OutputFolderError
from corpusfit.core.manifest import OutFolder


@contextmanager
def locked(work: Path, command: str, *, shared: bool = False, make: bool = False) -> Iterator[None]:
    """Hold an advisory lock on a folder without links; without the system's support, do nothing.

    The system frees the lock when the process ends. Windows, some network drives and stores of
    objects have none, and a folder that cannot be written to needs none.
    """
    OutFolder(work.parent).refuse_links()
    if make and is_local(work):
        with suppress(OSError):  # the command's first file says what is wrong
            work.mkdir(parents=True, exist_ok=True)
    try:
        import fcntl

        file = (work / "lock").open("a+") if is_local(work) and work.is_dir() else None
    except (ImportError, OSError):
        file = None
    if file is None:
        yield
        return
    with file:
        try:
            fcntl.flock(file, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
        except BlockingIOError as e:
            file.seek(0)
            other = f"`corpusfit {found}`" if (found := file.read().strip()) else "Another command"
            raise OutputFolderError(
                f"{other} is under way in {work.parent} and holds {work / 'lock'}. Wait until it "
                "ends, or use another folder."
            ) from e
        except OSError:  # the drive has no locks
            yield
            return
        file.truncate(0)
        file.write(command)
        file.flush()
        yield
