"""The vector store: what goes in comes out, in float16, whatever was rejected."""

import numpy as np
import pytest

from corpusfit.core.artifacts import read_arrays, write_arrays
from corpusfit.core.errors import ModelError
from corpusfit.core.types import Units
from corpusfit.embed.store import VectorStore


def units(n):
    places = np.arange(n, dtype=np.int64)
    return Units(places, places, places + 1, places.astype(np.int32))


def test_a_shard_comes_back(tmp_path):
    store = VectorStore(tmp_path)
    vectors = np.random.default_rng(0).normal(size=(7, 5)).astype(np.float32)
    vectors[0, 0], vectors[1, 1] = 1e9, -1e9
    tally = {"source": 0, "documents": 7, "rejects": [[3, 90, "text is empty"]]}
    assert store.finished() == set()
    store.write(4, units(7), vectors, tally)
    found, back, told = store.read(4)
    (store.folder / "part-00005.safetensors.0123456789ab.part").touch()
    assert store.finished() == {4}
    assert told == tally == store.tally(4)
    np.testing.assert_array_equal(found.end, np.arange(1, 8))
    assert np.isfinite(back).all()  # beyond float16's range the largest stands for all
    np.testing.assert_allclose(back[2:], vectors[2:], rtol=1e-3, atol=1e-4)
    places = [(4, np.array([1, 3]))]
    np.testing.assert_array_equal(store.gather(places), back[[1, 3]])


@pytest.mark.slow
def test_a_shard_of_bad_rows_is_kept_though_they_are_millions(tmp_path):
    rejects = [[i, i, "empty line"] for i in range(1_500_000)]
    store = VectorStore(tmp_path)
    store.write(0, units(0), np.empty((0, 5), np.float32), {"source": 0, "rejects": rejects})
    assert len(store.tally(0)["rejects"]) == 1_500_000


@pytest.mark.parametrize(
    "change",
    [
        lambda a: {"row": a["row"][:-1]},
        lambda a: {"vectors": a["vectors"][:-1]},
        lambda a: {"vectors": a["vectors"][0]},
        lambda a: {"vectors": a["vectors"].astype(np.float64)},
        lambda a: {"vectors": np.full_like(a["vectors"], np.nan)},
        lambda _: {"rejects": np.frombuffer(b"{", np.uint8)},
    ],
)
def test_a_file_of_other_arrays_is_named(tmp_path, change):
    store = VectorStore(tmp_path)
    store.write(0, units(3), np.ones((3, 5), np.float32), {"source": 0, "rejects": []})
    path = tmp_path / "part-00000.safetensors"
    arrays, header = read_arrays(path)
    write_arrays(path, {**arrays, **change(arrays)}, header)
    with pytest.raises(ModelError, match=r"part-00000.*Delete it"):
        store.read(0)
