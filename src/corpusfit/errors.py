"""Every error corpusfit raises on purpose.

What: one tree, so that a caller catches as much or as little as it wants.
Why: the command line turns any `CorpusfitError` into one sentence and an exit code;
anything else is a bug and keeps its traceback.
Trade-off: few classes, because people act on the sentence; a class exists only where a
program would act differently.

    CorpusfitError                 exit 1
    ├── UsageError                 exit 2: a wrong setting; says what is allowed, what came, a cure
    │   ├── UnknownMethodError     names the nearest method
    │   └── OutputFolderError      the output folder holds something else
    ├── InputError                 the target or the corpus cannot be used as it is
    │   ├── EmptyInputError        nothing to read, or nothing readable in it
    │   └── StrictError            the first rejected row under `--strict`
    ├── ChangedInputError          an input or a setting changed under an unfinished run
    ├── MissingDependencyError     an extra is not installed; says which
    ├── ModelError                 a model cannot be loaded, or is not the one expected
    ├── StorageError               the disk is full, or a file cannot be written
    ├── TrainingError              training diverged, or did not fit into memory
    └── WorkerError                a worker process died
"""

from __future__ import annotations


class CorpusfitError(Exception):
    """Root of the tree; its text is one sentence for the user."""

    exit_code = 1


class UsageError(CorpusfitError):
    """A setting is outside what is allowed."""

    exit_code = 2


class UnknownMethodError(UsageError):
    """No scoring method has that name."""


class OutputFolderError(UsageError):
    """The output folder holds something that this command did not write."""


class InputError(CorpusfitError):
    """The target or the corpus cannot be used as it is."""


class EmptyInputError(InputError):
    """There is nothing to read, or nothing readable in it."""


class StrictError(InputError):
    """A row was rejected under `--strict`."""


class ChangedInputError(CorpusfitError):
    """An input file or a setting is not what an unfinished run began with."""


class MissingDependencyError(CorpusfitError):
    """A library that this feature needs is not installed.

    Args:
        feature: what asked for it, in the user's words.
        extra: the extra of corpusfit that brings it.
    """

    def __init__(self, feature: str, extra: str) -> None:
        super().__init__(f"{feature} needs the extra {extra!r}: pip install 'corpusfit[{extra}]'.")
        self._given = (feature, extra)

    def __reduce__(self) -> tuple[type[MissingDependencyError], tuple[str, str]]:
        """Travel between processes by what it was made of."""
        return type(self), self._given


class ModelError(CorpusfitError):
    """A model cannot be loaded, or is not the one expected."""


class StorageError(CorpusfitError):
    """A file cannot be written; what was finished before is kept."""


class TrainingError(CorpusfitError):
    """A training cannot go on; its last checkpoint is kept."""


class WorkerError(CorpusfitError):
    """A worker process ended without an answer."""


def bad_setting(setting: str, allowed: str, came: object, cure: str = "") -> UsageError:
    """Word a wrong setting the one way corpusfit words it: setting, allowed, came, cure."""
    tail = f" {cure}" if cure else ""
    return UsageError(f"{setting} must be {allowed}; got {came!r}.{tail}")
