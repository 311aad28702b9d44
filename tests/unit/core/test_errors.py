"""The tree of errors, their exit codes, and the form of their messages."""

import errno
import http.client
import inspect
import pickle
from pathlib import Path

import pytest

from corpusfit.core import errors

PARENTS = {
    "CorpusfitError": "Exception",
    "UsageError": "CorpusfitError",
    "UnknownMethodError": "UsageError",
    "OutputFolderError": "UsageError",
    "InputError": "CorpusfitError",
    "EmptyInputError": "InputError",
    "StrictError": "InputError",
    "ChangedInputError": "CorpusfitError",
    "MissingDependencyError": "CorpusfitError",
    "ModelError": "CorpusfitError",
    "PackageError": "CorpusfitError",
    "StorageError": "CorpusfitError",
    "TrainingError": "CorpusfitError",
    "WorkerError": "CorpusfitError",
}


def test_the_tree():
    classes = inspect.getmembers(errors, inspect.isclass)
    tree = {name: cls.__base__.__name__ for name, cls in classes if issubclass(cls, Exception)}
    assert tree.pop("CorpusfitWarning") == "UserWarning"
    assert tree == PARENTS


@pytest.mark.parametrize("name", PARENTS)
def test_wrong_usage_exits_with_2_and_all_else_with_1(name):
    cls = getattr(errors, name)
    assert cls.exit_code == (2 if issubclass(cls, errors.UsageError) else 1)


def test_a_wrong_setting_names_the_setting_what_is_allowed_what_came_and_a_cure():
    error = errors.bad_setting("--fraction", "in (0, 1]", 2.0, "For example --fraction 0.1.")
    words = ["--fraction", "in (0, 1]", "2.0", "For example --fraction 0.1."]
    places = [str(error).index(part) for part in words]
    assert isinstance(error, errors.UsageError)
    assert places == sorted(places)
    assert "'z'" in str(errors.bad_setting("--x", "y", "z"))
    assert "got 'a/z'." in str(errors.bad_setting("--x", "y", Path("a/z")))


def test_a_missing_library_names_the_extra_also_in_another_process():
    error = errors.MissingDependencyError("--embedder static", "models")
    assert str(pickle.loads(pickle.dumps(error))) == str(error)
    assert "--embedder static" in str(error)
    assert "pip install 'corpusfit[models]'" in str(error)


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (OSError(errno.ENOSPC, "No space left", "/a/b"), ("/a/b", "Make room")),
        (OSError(errno.EMFILE, "Too many open files"), ("ulimit -n",)),
        (OSError(errno.EIO, "Input/output error"), ("disk",)),
        (OSError(errno.EBUSY, "Service Unavailable"), ("store",)),
        (MemoryError(), ("workers",)),
        (ValueError("I/O error: No space left on device (os error 28)"), ("Make room",)),
        (RuntimeError("9 bytes. Error code 12 (Cannot allocate memory)"), ("workers",)),
        (ImportError("a.so: failed to map segment from shared object"), ("workers",)),
        (RuntimeError("cannot compress: Allocation error : not enough memory"), ("workers",)),
        (OSError("Could not find/load shared object file 'libllvmlite.so'"), ("workers",)),
    ],
)
def test_a_fault_of_the_machine_has_its_own_cure(error, told):
    fault = str(errors.machine_fault(error))
    assert all(words in fault for words in (*told, "run the same command again"))
    assert "Cannot write x" in str(errors.machine_fault(error, "Cannot write x"))


def test_a_full_disk_is_named_by_its_folder(monkeypatch, tmp_path):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    unnamed = OSError(errno.ENOSPC, "No space left on device")
    named = OSError(errno.ENOSPC, "No space left on device", "/full/file")
    assert f"disk of {tmp_path}" in errors.machine_cure(unnamed)
    assert "TMPDIR" in errors.machine_cure(unnamed)
    assert "disk of /full," in errors.machine_cure(named)
    written = str(errors.machine_fault(unnamed, "Cannot write /out/x"))
    assert str(tmp_path) not in written  # the file that is named lacks the room


def test_an_error_of_the_network_has_a_cure_and_a_closed_pipe_none():
    assert "network" in errors.machine_cure(TimeoutError())
    assert "network" in errors.machine_cure(http.client.IncompleteRead(b""))
    assert not errors.machine_cure(BrokenPipeError(errno.EPIPE, "Broken pipe"))
    fault = errors.machine_fault(ValueError("(os error 28)"), "Cannot write x")
    assert not errors.machine_cure(fault)


@pytest.mark.parametrize("bug", [FileNotFoundError(errno.ENOENT, "x"), OSError("x"), KeyError(1)])
def test_a_bug_is_no_fault_of_the_machine(bug):
    assert errors.machine_fault(bug) is None


def test_an_error_of_ours_is_not_taken_for_a_damaged_file():
    torn = "Parquet magic bytes not found in footer."
    errors.raise_torn_file(errors.EmptyInputError(torn))
    with pytest.raises(errors.StorageError, match="damaged"):
        errors.raise_torn_file(ValueError(torn))


@pytest.mark.parametrize("number", [errno.EISDIR, errno.ENOTDIR])
def test_a_folder_in_the_place_of_a_file_is_a_fault_to_mend_by_name(number):
    assert "another" in str(errors.machine_fault(OSError(number, "x", "a")))
