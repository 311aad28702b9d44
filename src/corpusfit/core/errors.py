"""Every error that corpusfit raises on purpose, in one tree."""

from __future__ import annotations

import contextlib
import difflib
import errno
import json
import os
import pathlib
import re
from typing import TYPE_CHECKING

from corpusfit.core.credentials import public_text
from corpusfit.core.gone import gone, moved

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


_PATH = re.compile(r"`([a-z_.]+)([=`])")
"""A setting in a text, before its value if it has one."""


class CorpusfitWarning(UserWarning):
    """Warning category of the Python API; the command line prints these."""


class CorpusfitError(Exception):
    """Root of the tree; the text is for the user, and the command line exits with `exit_code`.

    Any other exception is a bug and keeps its traceback. The text names settings by their paths in
    backticks, such as `choose.fraction=0.1`; the command line adds their flags. URLs in it, which
    libraries quote in full, get their public names.

        CorpusfitError                 exit 1
        ├── UsageError                 exit 2
        │   ├── UnknownMethodError
        │   └── OutputFolderError
        ├── InputError
        │   ├── EmptyInputError
        │   └── StrictError
        ├── ChangedInputError
        ├── MissingDependencyError
        ├── ModelError
        ├── PackageError
        ├── StorageError
        ├── TrainingError
        └── WorkerError
    """

    exit_code = 1

    def __init__(self, text: str = "") -> None:
        super().__init__(public_text(text))
        self.within: list[str] = []  # parts of a file that the text is about, innermost first
        self.words: Mapping[str, str] = {}  # keywords by the settings' paths, if these can't be set

    def __str__(self) -> str:
        text = "".join(f"In {part}: " for part in reversed(self.within)) + super().__str__()
        return _PATH.sub(lambda path: f"`{self.words.get(path[1], path[1])}{path[2]}", text)


class UsageError(CorpusfitError):
    """A setting has a value that is not allowed."""

    exit_code = 2


class UnknownMethodError(UsageError):
    """No scoring method has that name."""


class OutputFolderError(UsageError):
    """The output folder holds files that this command did not write."""


class InputError(CorpusfitError):
    """The target or the corpus cannot be used as it is."""


class EmptyInputError(InputError):
    """An input has no text, or no readable text."""


class StrictError(InputError):
    """A row was rejected with `--strict`."""


class ChangedInputError(CorpusfitError):
    """An input file or a setting has changed since an unfinished run began."""


def changed_input(name: str, option: str = "") -> ChangedInputError:
    """The error for an input that changes while a command reads it."""
    again = f"again with {option}" if option else "again"
    return ChangedInputError(
        f"{name} changed while it was read. Run the command {again} when nothing writes to this "
        "file."
    )


_COMPARED = 1000
"""Most names of a folder that are compared with one that does not exist."""


def near_name(path: str | pathlib.Path) -> str:
    """The entry that a path which does not exist may mean, in brackets; empty without one."""
    if hasattr(path, "fs"):  # in a store, which may list millions
        return ""
    missing = pathlib.Path(path).expanduser().absolute()
    while not missing.parent.exists():
        missing = missing.parent
    try:
        names = sorted(entry.name for entry in missing.parent.iterdir())
    except OSError:  # no permission, or a file
        return ""
    near = difflib.get_close_matches(missing.name, names[:_COMPARED], n=1)
    return f" (did you mean {near[0]!r}?)" if near else ""


class MissingDependencyError(CorpusfitError):
    """A library that this feature needs is not installed.

    Args:
        feature: what needs the library, in the user's words.
        extra: the extra of corpusfit that installs the library; several with commas.
        otherwise: what works without it, a sentence.
    """

    def __init__(self, feature: str, extra: str, otherwise: str = "") -> None:
        cure = f"pip install 'corpusfit[{extra}]'. {otherwise}".strip()
        needs = "needs the extra" if "," not in extra else "needs the extras"
        super().__init__(f"{feature} {needs} {extra!r}: {cure}")
        self._arguments = (feature, extra, otherwise)

    def __reduce__(self) -> tuple[type[MissingDependencyError], tuple[str, str, str]]:
        """Pickle by the arguments."""
        return type(self), self._arguments


@contextlib.contextmanager
def importing(feature: str, extra: str, otherwise: str = "") -> Iterator[None]:
    """Import optional libraries; raises `MissingDependencyError` if one is not installed."""
    try:
        yield
    except ImportError as e:
        raise MissingDependencyError(feature, extra, otherwise) from e


class ModelError(CorpusfitError):
    """A model cannot be loaded, or is not the one expected."""


class PackageError(CorpusfitError):
    """A package that adds to corpusfit is broken."""


@contextlib.contextmanager
def tokenizing(*, alone: bool = True) -> Iterator[None]:
    """Call the library tokenizers; its panics become `ModelError`."""
    try:
        yield
    except BaseException as e:
        if type(e).__name__ != "PanicException" and not (alone and type(e) is Exception):
            raise
        raise ModelError(f"The model's tokenizer fails: {e}. Use another.") from None


class StorageError(CorpusfitError):
    """A file cannot be written, or the machine has another fault; finished files are kept."""


_FULL = (errno.ENOSPC, errno.EDQUOT)
_CURES = {
    **dict.fromkeys(_FULL, "Make room on the disk"),
    **dict.fromkeys((errno.EROFS, errno.EACCES, errno.EPERM), "Allow access to it"),
    **dict.fromkeys(
        (errno.EMFILE, errno.ENFILE), "Allow more open files, for instance with `ulimit -n 4096`"
    ),
    **dict.fromkeys(
        (errno.EIO, errno.ESTALE, errno.EBUSY),  # includes a busy store
        "Check the disk, the network drive or the store",
    ),
    **dict.fromkeys((errno.EISDIR, errno.ENOTDIR), "Name another file or folder"),
    errno.ENOMEM: "Use fewer `workers` or a machine with more memory",
}
"""What to do about an error of the system, by its number."""

_NETWORK = {
    *("aiohttp", "aiobotocore", "botocore", "s3fs", "gcsfs", "google", "azure", "adlfs"),
    *("requests", "urllib3", "httpx", "httpcore", "http"),
}
"""Libraries whose errors are those of a store or of the network."""
_NUMBER = re.compile(r"\(os error (\d+)\)")
"""The number in the texts of errors of libraries in Rust."""
_TORN = re.compile("parquet magic bytes|deserialize thrift", re.I)
"""Texts of Arrow's errors about Parquet files that are not whole."""
_NO_MEMORY = re.compile(
    "cannot allocate memory|not enough memory|failed to map segment|could not find/load", re.I
)
"""Texts of errors of PyTorch, the system's loader, and llvmlite, which hides those."""


def machine_fault(error: BaseException, failure: str = "") -> StorageError | None:
    """The error for a fault of the machine, its network or a store; None for any other error."""
    cure = machine_cure(error, failure)
    if not cure:
        return None
    reason = getattr(error, "strerror", None) or str(error) or "Out of memory"
    if not failure and (file := getattr(error, "filename", None)):
        failure = f"Cannot use {file}"
    return StorageError(f"{failure}: {reason}. {cure}" if failure else f"{reason}. {cure}")


def without_secrets(error: BaseException) -> BaseException | None:
    """The error as the cause of ours; None if a traceback of it would show a secret."""
    seen: BaseException | None = error
    while seen is not None:
        if public_text(text := f"{seen} {seen!r}") != text:
            return None
        seen = seen.__cause__ or seen.__context__
    return error


def raise_machine_fault(error: BaseException, failure: str = "") -> None:
    """Raise `machine_fault(error, what)`, if it is one."""
    if fault := machine_fault(error, failure):
        raise fault from without_secrets(error)


def machine_cure(error: BaseException, failure: str = "") -> str:
    """What to do about a fault of the machine, a sentence; empty for any other error.

    Args:
        error: any exception.
        failure: what failed, if that names the file that was written; a cure for a full disk
            without it names the folder.
    """
    if isinstance(error, CorpusfitError | BrokenPipeError):
        return ""
    number = getattr(error, "errno", None)
    # a SystemError comes from a library in C, which is mostly out of memory
    if isinstance(error, MemoryError | SystemError) or _NO_MEMORY.search(str(error)):
        number = errno.ENOMEM
    elif match := _NUMBER.search(str(error)):
        number = int(match[1])
    cure = _CURES.get(number or 0)
    if number in _FULL and not failure:
        cure = _on_full_disk(error)
    library = type(error).__module__.partition(".")[0]
    if library in _NETWORK or isinstance(error, ConnectionError | TimeoutError):
        cure = "Check the network and the store"
    return f"{cure}, then run the same command again; finished work is kept." if cure else ""


def _on_full_disk(error: BaseException) -> str:
    """What to do about a full disk, with the folder if the error names a file."""
    import tempfile  # not for every command

    cure = _CURES[errno.ENOSPC]
    file = getattr(error, "filename", None)
    if file:
        return f"{cure} of {pathlib.Path(str(file)).absolute().parent}"
    # a temporary file may have no name, and is gone by now; None if this process had none
    folder = tempfile.tempdir
    return f"{cure} of {folder}, or set TMPDIR to a folder that has room" if folder else cure


def raise_torn_file(error: Exception, failure: str = "") -> None:
    """Raise `StorageError` if an uncaught parse error comes from a damaged file of ours.

    Errors in the user's files are caught where they are read.
    """
    if isinstance(error, CorpusfitError):
        return
    if isinstance(error, json.JSONDecodeError) or _TORN.search(str(error)):
        text = f"{failure}: a file" if failure else "A file"
        raise StorageError(
            f"{text} that corpusfit wrote is damaged, or was read in part: {error}. Check the disk "
            "and the store, then run the same command again."
        ) from error


class TrainingError(CorpusfitError):
    """A training cannot continue; the last checkpoint is kept."""


class WorkerError(CorpusfitError):
    """A worker process ended without an answer."""


def require_one_process(command: str) -> None:
    """Raise `UsageError` for several processes, as started by `accelerate launch`."""
    if int(os.environ.get("WORLD_SIZE", "1")) > 1:
        raise UsageError(
            f"{command} measures and trains in one process. Start it without `accelerate launch`; "
            "corpusfit adapt trains with several processes."
        )


def bad_setting(setting: str, allowed: str, got: object, cure: str = "") -> UsageError:
    """The error for a wrong setting: the setting, what is allowed, what came, the cure."""
    choice = f"{setting.strip('`')}={got}"
    if sentence := gone(choice) or moved(choice):
        return UsageError(sentence)
    tail = f" {cure}" if cure else ""
    shown = str(got) if isinstance(got, pathlib.PurePath) else got
    return UsageError(f"{setting} must be {allowed}; got {shown!r}.{tail}")


def require_promise(kept: object, broken: str) -> None:
    """Raise an AssertionError that says which promise a part of a package has broken."""
    if not kept:
        raise AssertionError(broken)
