"""A journey with a method that scores the corpus as a whole."""

import json

import numpy as np
import pytest
from journeys import digests, scores

import corpusfit
from corpusfit.core.errors import UsageError
from corpusfit.scoring import table

METHOD = "ngram_coverage_unseen"
SETTINGS = ["method.order=2", "read.shard_mb=0.003", "cut.pieces=256"]


def select(task, pile, out, machine, **words):
    return corpusfit.select(
        target=task,
        corpus=pile,
        out=out,
        method=METHOD,
        settings=[*SETTINGS, *words.pop("settings", ())],
        machine=machine,
        **words,
    )


def test_the_top_covers_the_target(task, pile, tmp_path, inline):
    run = select(task, pile, tmp_path / "out", inline, segments=20)
    assert run.manifest["counts"]["segments"] == len(scores(run)) == 450
    taken = run.manifest["selected"]["by_source"]
    assert taken["task.jsonl"]["selected"] == 20
    found = [s["score"] for s in scores(run)]
    assert len(set(found)) == 450
    assert np.isfinite(found).all()
    again = select(task, pile, tmp_path / "again", inline, segments=20)
    assert digests(again.path) == digests(run.path)


@pytest.mark.slow
def test_a_stopped_run_ends_the_same(task, pile, tmp_path, inline, monkeypatch):
    whole = select(task, pile, tmp_path / "whole", inline)
    calls = []

    def stop(*args):
        calls.append(args)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return write(*args)

    write = table.write
    with monkeypatch.context() as patch:
        patch.setattr(table, "write", stop)
        with pytest.raises(KeyboardInterrupt):
            select(task, pile, tmp_path / "cut", inline)
    assert digests(select(task, pile, tmp_path / "cut", inline).path) == digests(whole.path)


def test_it_is_listed_estimated_and_explained(cli, task, pile, tmp_path):
    listed = json.loads(cli("methods", METHOD, "--json").out)["methods"][0]
    assert listed["reads"] == "corpus"
    arguments = ("--target", task, "--corpus", pile, "--out", tmp_path / "out", "--method", METHOD)
    assert json.loads(cli("select", *arguments, "--dry-run", "--json").out)["memory_mb"] > 0
    assert cli("select", *arguments).code == 0
    said = cli("explain", tmp_path / "out", "--row", "task.jsonl:3", "--json")
    found = json.loads(said.out)
    assert (found["raised"], found["lowered"]) == ([], [])
    assert 0 < found["score"] <= 1
    refused = cli("explain", tmp_path / "out", "--text", "kinase")
    assert refused.code == 2
    assert METHOD in refused.err


def test_it_is_ranked_by_held_out_bits(task, pile, inline):
    found = corpusfit.rank(target=task, corpus=pile, methods=[METHOD], machine=inline)
    assert [v.method for v in found] == [METHOD, "random"]
    assert found[0].bits < found[1].bits
    with pytest.raises(UsageError, match="got 'oracle'"):
        corpusfit.rank(target=task, corpus=pile, methods=["oracle"], machine=inline)


def test_methods_on_words_are_ranked_without_encoder(task, pile, inline, monkeypatch):
    """A core install has none."""
    from corpusfit.selection import resolving

    monkeypatch.setattr(resolving, "default_embedder", lambda: "static")
    found = corpusfit.rank(target=task, corpus=pile, methods=["dsir", "tfidf"], machine=inline)
    assert {v.method for v in found} == {"dsir", "tfidf", "random"}
