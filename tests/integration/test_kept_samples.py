"""What the cache keeps for the next command on the same samples: rankings, vectors of samples."""

import dataclasses
import json

import pytest
from journeys import digests

import corpusfit
from corpusfit.core.artifacts import read_arrays, write_arrays
from corpusfit.core.errors import ModelError
from corpusfit.embed.transformer import TransformerEncoder
from corpusfit.selection import auto


class RankedAgainError(Exception):
    """The methods were ranked a second time."""


@pytest.fixture
def selected(task, pile, tmp_path, inline, tiny_static, monkeypatch):
    """`select` with `auto`, of which only the first may rank."""
    on = dataclasses.replace(inline, cache=tmp_path / "cache")

    def selected(out, **words):
        given = {"target": task, "corpus": pile, "machine": on, "embedder": str(tiny_static)}
        found = corpusfit.select(out=tmp_path / out, **{**given, **words})
        monkeypatch.setattr(auto, "rank_methods", again)
        return found

    def again(*_, **__):
        raise RankedAgainError

    return selected


@pytest.mark.parametrize("contenders", [auto.CONTENDERS, ("knn",)])
def test_the_next_command_takes_the_ranking(selected, monkeypatch, contenders):
    monkeypatch.setattr(auto, "CONTENDERS", contenders)
    one, two = selected("one"), selected("two", fraction=0.3)
    for name in ("ranking", "method", "reason", "warnings"):
        assert one.manifest[name] == two.manifest[name], name
    assert digests(one.path / "scores") == digests(two.path / "scores")


@pytest.mark.parametrize("words", [{"seed": 1}, {"settings": ["fit.background=40"]}])
def test_other_samples_are_ranked_anew(selected, words):
    selected("one")
    with pytest.raises(RankedAgainError):
        selected("two", **words)


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


def shape(mark):
    """The names in a JSON file, or its list: times differ."""
    value = json.loads(mark.read_bytes())
    return value if isinstance(value, list) else [*value, *map(len, value["ranking"])]


@pytest.mark.slow
def test_files_of_the_cache_that_are_not_right_are_made_again(
    task, pile, tmp_path, inline, tiny_static, monkeypatch
):
    monkeypatch.setattr(auto, "CONTENDERS", ("knn",))
    on = dataclasses.replace(inline, cache=tmp_path / "cache")
    given = {"target": task, "corpus": pile, "machine": on, "embedder": str(tiny_static)}
    first = corpusfit.select(**given, out=tmp_path / "first")
    marks = [*on.cache.glob("rankings/*"), *on.cache.glob("embeddings/*/complete.json")]
    right = {mark: shape(mark) for mark in marks}
    assert len(marks) == 2
    for number, wrong in enumerate(("", "[1", "[1, 2]", "3", "null", '{"warnings": 1}')):
        for mark in marks:
            mark.write_text(wrong)
        again = corpusfit.select(**given, out=tmp_path / str(number))
        assert digests(again.path / "scores") == digests(first.path / "scores")
        assert {mark: shape(mark) for mark in marks} == right
    # a part that is not right is named, and is made again once it is deleted
    part = next(on.cache.glob("embeddings/*/part-*"))
    arrays, header = read_arrays(part)
    write_arrays(part, {**arrays, "row": arrays["row"][:-1]}, header)
    with pytest.raises(ModelError, match=part.name):
        corpusfit.select(**given, out=tmp_path / "damaged")
    part.unlink()
    again = corpusfit.select(**given, out=tmp_path / "damaged")
    assert digests(again.path / "scores") == digests(first.path / "scores")
