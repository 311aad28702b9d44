"""What the cache keeps for the next command on the same samples: their vectors."""

import dataclasses

from journeys import digests

import corpusfit
from corpusfit.embed.transformer import TransformerEncoder


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
