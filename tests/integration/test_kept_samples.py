"""What the cache keeps for the next command on the same samples: their vectors."""

import dataclasses

import pytest
from journeys import digests

import corpusfit
from corpusfit.core.artifacts import read_arrays, write_arrays
from corpusfit.core.errors import ModelError
from corpusfit.embed.transformer import TransformerEncoder


@pytest.mark.slow
def test_the_samples_of_a_cascade_are_encoded_once(
    task, pile, tmp_path, inline, tiny_static, tiny_encoder, monkeypatch
):
    on = dataclasses.replace(inline, cache=tmp_path / "cache")
    words = {"target": task, "corpus": pile, "machine": on, "method": "knn", "fraction": 0.2}
    cascade = f"{tiny_static}:0.5>{tiny_encoder}"
    one = corpusfit.select(**words, cascade=cascade, out=tmp_path / "one")
    kept = {f.name for f in (tmp_path / "cache/samples").iterdir()}
    encoded = []

    def encode(self, texts, *more):
        encoded.append(len(texts))
        return whole(self, texts, *more)

    whole = TransformerEncoder.encode
    monkeypatch.setattr(TransformerEncoder, "encode", encode)
    two = corpusfit.select(**words, cascade=cascade, out=tmp_path / "two")
    assert digests(one.path) == digests(two.path)
    assert {f.name for f in (tmp_path / "cache/samples").iterdir()} == kept
    of_stage, _examples = encoded
    assert of_stage == two.manifest["cascade"]["stages"][-1]["units"]


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
