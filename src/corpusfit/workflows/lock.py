"""A lock for one command at a time in a recipe's folder."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from corpusfit.errors import OutputFolderError


@contextmanager
def exclusive(work: Path) -> Iterator[None]:
    """Hold an advisory lock on a folder; without lock support of the system, do nothing.

    The system frees the lock when the process ends. Windows and some network drives have none.

    Args:
        work: folder of the lock file; created if missing.

    Raises:
        OutputFolderError: another process holds the lock.
    """
    try:
        import fcntl
    except ImportError:
        yield
        return
    work.mkdir(parents=True, exist_ok=True)
    path = work / "lock"
    with path.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as e:
            raise OutputFolderError(
                f"Another command runs in {work.parent} and holds {path}. Wait until it ends, or "
                "choose another <.out>."
            ) from e
        except OSError:  # the drive has no locks
            yield
            return
        yield
