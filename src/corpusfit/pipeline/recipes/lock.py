"""One run at a time in a recipe's folder.

What: an advisory lock on a file of the folder, for as long as a command runs.
Why: two runs would make the same step twice, and write one folder from both.
Trade-off: the system frees it when a process dies, so nothing stale is left; where it has no such
locks (Windows, some network drives) there is none.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from corpusfit.errors import OutputFolderError


@contextmanager
def exclusive(work: Path) -> Iterator[None]:
    """Keep others out of a folder.

    Args:
        work: where the file of the lock goes; made if it is not there.

    Raises:
        OutputFolderError: another process is at work there.
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
                f"Another command is at work in {work.parent} and holds {path}. Wait for it, or "
                "name another --out."
            ) from e
        except OSError:  # a drive without locks
            yield
            return
        yield
