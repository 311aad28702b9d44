"""What the cache keeps for the next command on the same samples: their vectors."""

import dataclasses

import pytest
from journeys import digests

import corpusfit
from corpusfit.core.artifacts import read_arrays, write_arrays
from corpusfit.core.errors import ModelError


@pytest.mark.slow
def test_files_of_the_cache_that_are_not_right_are_made_again(
    task, pile, tmp_path, inline, tiny_static
):
    on = dataclasses.replace(inline, cache=tmp_path / "cache")
    embedder = str(tiny_static)
    given = {"target": task, "corpus": pile, "machine": on, "method": "knn", "embedder": embedder}
    first = corpusfit.select(**given, out=tmp_path / "first")
    (mark,) = on.cache.glob("embeddings/*/complete.json")
    right = mark.read_bytes()
    for number, wrong in enumerate(("", "[1", "[1, 2]", "3", "null", '{"warnings": 1}')):
        mark.write_text(wrong)
        again = corpusfit.select(**given, out=tmp_path / str(number))
        assert digests(again.path / "scores") == digests(first.path / "scores")
        assert mark.read_bytes() == right
    # a part that is not right is named, and is made again once it is deleted
    part = next(on.cache.glob("embeddings/*/part-*"))
    arrays, header = read_arrays(part)
    write_arrays(part, {**arrays, "row": arrays["row"][:-1]}, header)
    with pytest.raises(ModelError, match=part.name):
        corpusfit.select(**given, out=tmp_path / "damaged")
    part.unlink()
    again = corpusfit.select(**given, out=tmp_path / "damaged")
    assert digests(again.path / "scores") == digests(first.path / "scores")
