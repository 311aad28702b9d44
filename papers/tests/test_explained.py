"""What `explain` says of a method that reads words and embeddings."""

import corpusfit

KINASE = [f"the kinase {i} binds the receptor with high affinity" for i in range(80)]
MARKET = [f"investors sold {i} shares before the results of the market" for i in range(160)]


def test_it_shows_words_and_the_nearest_target_texts(tmp_path, tiny_static, inline):
    run = corpusfit.select(
        target=KINASE[:20],
        corpus=[*KINASE[20:], *MARKET],
        out=tmp_path / "out",
        method="domain_moore_lewis",
        embedder=str(tiny_static),
        fraction=0.25,
        machine=inline,
    )
    found = corpusfit.explain(run, text=KINASE[3], top=3, machine=inline)
    assert found.raised
    assert len(found.nearest) == 3
    assert all("kinase" in neighbor.text for neighbor in found.nearest)
    assert run.manifest["remark"]
