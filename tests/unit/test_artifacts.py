"""Stored scorers and files that appear whole."""

from dataclasses import dataclass

import numpy as np
import pytest

from corpusfit.artifacts import read_header, restore, store, write_arrays, writing
from corpusfit.errors import ModelError, StorageError


@dataclass(frozen=True)
class Thing:
    weights: np.ndarray
    names: tuple[str, ...]
    count: int
    share: float
    label: str


def test_a_dataclass_comes_back_as_it_was(tmp_path):
    thing = Thing(np.arange(6, dtype=np.float32).reshape(2, 3)[:, ::-1], ("a", "ü"), 3, 0.1, "x")
    store(tmp_path / "t.safetensors", "thing", thing)
    back = restore(tmp_path / "t.safetensors", {"thing": Thing}.__getitem__)
    np.testing.assert_array_equal(back.weights, thing.weights)
    assert (back.names, back.count, back.share, back.label) == (("a", "ü"), 3, 0.1, "x")


def test_a_header_is_read_without_the_arrays_and_a_cut_file_is_refused(tmp_path):
    path = tmp_path / "a.safetensors"
    write_arrays(path, {"x": np.zeros(1000)}, {"rows": [1, 2]})
    assert read_header(path) == {"rows": [1, 2]}
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(ModelError, match=r"a\.safetensors"):
        read_header(path)


def test_a_file_that_cannot_be_finished_never_appears(tmp_path):
    def fill():
        with writing(tmp_path / "x") as f:
            f.write(b"half")
            raise OSError(28, "No space left on device")

    with pytest.raises(StorageError, match="same command again"):
        fill()
    assert list(tmp_path.iterdir()) == []
