"""Examples: their size limit, nearest target texts and map coordinates."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from corpusfit.reporting.examples import read_examples
from corpusfit.selection.examples import SCHEMA


@pytest.fixture
def stored(tmp_path):
    """Forty segments and ten target units, with vectors or without."""

    def write(vectors):
        generator = np.random.default_rng(0)
        rows = []
        for i in range(50):
            kind = "corpus" if i < 40 else "target"
            vector = generator.normal(size=8).tolist() if vectors else None
            text = " ".join(generator.choice(["red", "green", "blue", "grey", "pink"], 300))
            score = float(np.float32(generator.normal()))
            rows.append(
                {"kind": kind, "source": "a", "row": i, "segment": 0, "score": score, "stage": 1,
                 "selected": i % 2 == 0, "text": text, "characters": len(text), "effects": [],
                 "vector": vector}
            )  # fmt: skip
        pq.write_table(pa.Table.from_pylist(rows, schema=SCHEMA), tmp_path / "e.parquet")
        return tmp_path / "e.parquet", rows

    return write


@pytest.mark.parametrize("vectors", [True, False])
def test_nearest_texts_have_the_highest_cosines(stored, vectors):
    path, rows = stored(vectors)
    found = read_examples(path, 10**9)
    assert found.by == ("embedding" if vectors else "words")
    scores = [row["score"] for row in found.corpus]
    assert scores == sorted(scores, reverse=True)
    assert found.of_corpus.shape == (40, 2)
    assert found.of_target.shape == (10, 2)
    if vectors:
        by_row = {row["row"]: np.array(row["vector"]) for row in rows}
        units = np.array([by_row[i] for i in range(40, 50)])
        for row, nearest in zip(found.corpus, found.nearest, strict=True):
            own = by_row[row["row"]]
            cosines = units @ own / np.linalg.norm(units, axis=1) / np.linalg.norm(own)
            best = [i for i in np.argsort(-cosines)[:3] if cosines[i] > 0]
            assert [place for place, _ in nearest] == best


def test_map_equals_scikit_learn_pca(stored):
    from sklearn.decomposition import PCA

    path, rows = stored(True)
    found = read_examples(path, 10**9)
    order = [row["row"] for row in found.corpus] + list(range(40, 50))
    vectors = np.array([rows[i]["vector"] for i in order])
    want = PCA(2).fit_transform(vectors / np.linalg.norm(vectors, axis=1, keepdims=True))
    ours = np.concatenate([found.of_corpus, found.of_target])
    np.testing.assert_allclose(np.abs(ours), np.abs(want), atol=1e-6)


@pytest.mark.parametrize("room", [100_000, 40_000, 10_000, 3_000, 10])
def test_examples_fit_the_room(stored, room):
    path, _ = stored(True)
    found = read_examples(path, room)
    rows = [*found.corpus, *found.target]
    assert sum(len(json.dumps(row)) for row in rows) <= room
    assert len(found.of_corpus) == len(found.nearest) == len(found.corpus)
    assert rows or room == 10


def test_missing_file_gives_no_examples(tmp_path):
    assert read_examples(tmp_path / "none.parquet", 10**6).corpus == []
