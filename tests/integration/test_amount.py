"""`--fraction auto`: held-out bits by amount, on the samples that a run stores."""

import json
import re
from types import SimpleNamespace

import numpy as np
import pytest
from journeys import digests, prose

import corpusfit
from corpusfit.core.artifacts import read_arrays as restored
from corpusfit.core.errors import UsageError
from corpusfit.core.plan import DEFAULT_FRACTION, EmbedPlan
from corpusfit.embed import load as load_encoder
from corpusfit.selection import auto, scoring
from corpusfit.selection.auto import GRID
from corpusfit.selection.ranking import Evaluation


@pytest.fixture
def scored(task, pile, tmp_path, inline):
    def scored(method, out="out", **words):
        given = {"target": task, "corpus": pile, "machine": inline, "method": method, **words}
        return corpusfit.select(out=tmp_path / out, **given)

    return scored


def chosen_of(curve):
    """The smallest share that is not distinguishable from the fewest bits, the plain way."""
    return min(p["fraction"] for p in curve if p["low"] <= 0)


def test_choose_decides_the_amount_without_scoring_again(scored, inline, monkeypatch):
    run = scored("moore_lewis", fraction=0.3)
    before = digests(run.path / "scores")
    monkeypatch.setattr(scoring, "score_corpus", lambda *_: pytest.fail("scored again"))
    again = corpusfit.choose(run.path, fraction="auto", machine=inline)
    found = again.manifest["amount"]
    assert [p["fraction"] for p in found["curve"]] == list(GRID)
    assert found["fraction"] == chosen_of(found["curve"])
    assert min(p["behind"] for p in found["curve"]) == 0
    taken = again.manifest["selected"]
    assert taken["tokens"] >= found["fraction"] * taken["of_tokens"]
    assert again.manifest["plan"]["choose"]["fraction"] == "auto"
    assert f"{100 * found['fraction']:g} %" in found["reason"]
    assert digests(run.path / "scores").keys() == before.keys()
    monkeypatch.setattr(auto, "evaluate", lambda *_: pytest.fail("evaluated again"))
    assert corpusfit.choose(run.path, fraction="auto", machine=inline).manifest["amount"] == found
    plain = corpusfit.choose(run.path, fraction=0.3, machine=inline)
    assert plain.manifest["amount"] is None


def test_a_method_that_a_part_of_the_target_does_not_fit_has_the_default(
    scored, inline, monkeypatch
):
    run = scored("bm25", fraction=0.3)
    unfit = Evaluation(SimpleNamespace(), {}, {"bm25": "needs a word in the target."})
    monkeypatch.setattr(auto, "evaluate", lambda *_: unfit)
    amount = corpusfit.choose(run.path, fraction="auto", machine=inline).manifest["amount"]
    assert (amount["fraction"], amount["curve"]) == (DEFAULT_FRACTION, [])
    assert "bm25 needs a word" in amount["reason"]


def test_a_tenth_has_the_bits_by_which_auto_decided(scored, tiny_static):
    run = scored("auto", embedder=str(tiny_static), fraction="auto")
    used = run.manifest["method"]["name"]
    (ranked,) = (v for v in run.manifest["ranking"] if v["method"] == used)
    (tenth,) = (p for p in run.manifest["amount"]["curve"] if p["fraction"] == 0.1)
    assert tenth["bits"] == ranked["bits"]


def test_the_texts_of_a_sample_of_embeddings_are_read_for_it(scored, tiny_static, inline):
    run = scored("knn", embedder=str(tiny_static))
    sample = run.path / ".corpusfit/fit/background.json"
    before = sample.read_bytes()
    sample.unlink()  # as in scores of an earlier version
    found = corpusfit.choose(run.path, fraction="auto", machine=inline).manifest["amount"]
    assert found["fraction"] == chosen_of(found["curve"])
    assert sample.read_bytes() == before
    read = json.loads(before)["texts"]
    assert len(read) == run.manifest["counts"]["units"]  # the whole corpus is the sample
    vectors = restored(sample.with_suffix(".safetensors"))[0]["vectors"]
    again = load_encoder(EmbedPlan(str(tiny_static)), run.path).encode(read)
    np.testing.assert_allclose(vectors, again, atol=2e-3)


def test_a_target_too_small_gets_the_default(scored, jsonl):
    run = scored("tfidf", target=jsonl("one.jsonl", prose("task", 1)), fraction="auto")
    assert run.manifest["amount"]["fraction"] == DEFAULT_FRACTION
    assert run.manifest["amount"]["curve"] == []
    assert "too few" in run.manifest["amount"]["reason"]


@pytest.mark.parametrize(
    "words",
    [
        {"method": "oracle", "settings": ["method.domain=task*"]},
        {"method": "tfidf", "weights": "continuous"},
        {"method": "auto", "cascade": "dsir>tfidf"},
    ],
)
def test_where_it_does_not_apply_it_is_an_error(scored, words):
    with pytest.raises(UsageError, match=r"`choose\.fraction"):
        scored(**words, fraction="auto")


def test_select_shows_the_curve_and_the_report_draws_it(cli, task, pile, tmp_path):
    inputs = ("--target", task, "--corpus", pile)
    arguments = ("--method", "tfidf", "--fraction", "auto", "--out", tmp_path / "out")
    done = cli("select", *inputs, *arguments)
    assert done.code == 0
    assert "auto selects " in done.err
    assert done.out.count(" to ") >= len(GRID) - 1  # the fewest bits have no interval
    page = (tmp_path / "out/report.html").read_text("utf-8")
    assert re.search(r'data-chart="[\w-]*-amount"', page)
    refused = cli(
        "select", *inputs, "--method", "tfidf", "--fraction", "most", "--out", tmp_path / "no"
    )
    assert refused.code == 2
    assert "--fraction" in refused.err
