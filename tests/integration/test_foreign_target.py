"""What a selection says of a target that its corpus has little of."""

import pytest

import corpusfit

CASCADE = {"cascade": "dsir:0.5>moore_lewis"}


@pytest.fixture
def foreign(jsonl):
    """A target with few of the corpus's words."""
    texts = [f"rare{i % 7} odd{i % 5} strange{i % 3} protein number {i}" for i in range(90)]
    return jsonl("foreign.jsonl", texts)


@pytest.mark.parametrize("settings", [{}, {"method": "domain_cosine"}, CASCADE])
def test_a_selection_warns_of_a_foreign_target(
    settings, foreign, task, pile, inline, tiny_static, tmp_path
):
    common = {"corpus": pile, "machine": inline, "embedder": tiny_static, **settings}
    found = corpusfit.select(target=foreign, out=tmp_path / "foreign", **common).manifest
    assert found["likeness"]["foreign"]
    (said,) = [w for w in found["warnings"] if w.startswith("The corpus has little")]
    assert f"{found['likeness']['drawn']:.1f} bits" in said
    own = corpusfit.select(target=task, out=tmp_path / "own", **common).manifest
    assert own["likeness"]["closed"] > 0.5
    assert not any("little like" in w for w in own["warnings"])


def test_a_tiny_target_is_not_judged(jsonl, pile, inline, tmp_path):
    target = jsonl("tiny.jsonl", [f"rare{i} odd{i} strange{i}" for i in range(10)])
    found = corpusfit.select(target=target, corpus=pile, machine=inline, out=tmp_path / "out")
    assert found.manifest["likeness"] is None
    assert not any("little like" in w for w in found.manifest["warnings"])


def test_a_ranking_begins_with_a_foreign_target(cli, foreign, pile):
    done = cli("rank", "--target", foreign, "--corpus", pile, "--method", "cynical")
    assert done.out.startswith("The corpus has little like your target.")
