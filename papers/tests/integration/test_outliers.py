"""Texts in clusters of other domains, by hand."""

import dataclasses
import json
from collections import Counter

import pyarrow.parquet as pq
import pytest
from journeys import WORDS, prose, write_rows

import corpusfit
import corpusfit_papers
from corpusfit_papers.outliers import traits_of


def test_traits_are_counted_by_text():
    found = traits_of(["What is 5 % of it?", "the cell divides", "She left.", "Where?"])
    assert found.texts == 4
    assert found.words == (5 + 3 + 2 + 1) / 4
    assert (found.numbers, found.pronouns, found.questions) == (0.25, 0.5, 0.5)
    assert found.pronouns_or_questions == 0.75


def test_traits_of_no_text_are_zero():
    assert traits_of([]).words == 0.0


def test_a_unit_is_taken_for_the_domain_of_most_of_its_cluster(tmp_path, tiny_static, inline, cli):
    for topic in WORDS:
        write_rows(tmp_path / f"pile/{topic}.jsonl", prose(topic, 30, seed=1))
    run = corpusfit.clusters(
        corpus=tmp_path / "pile", out=tmp_path / "out", embedder=str(tiny_static), k=2,
        machine=inline,
    )  # fmt: skip
    found = corpusfit_papers.outliers(run)
    units = pq.read_table(run.path / "sample.parquet").to_pylist()
    most = {
        cluster: Counter(sorted(u["domain"] for u in units if u["cluster"] == cluster))
        for cluster in (1, 2)
    }
    taken = [(u, most[u["cluster"]].most_common(1)[0][0]) for u in units]
    outside = [(u, domain) for u, domain in taken if u["domain"] != domain]
    assert found.all.texts == len(units)
    expected = dataclasses.asdict(traits_of([u["text"] for u, _ in outside]))
    assert dataclasses.asdict(found.outliers) == pytest.approx(expected)
    pairs = Counter((u["domain"], domain) for u, domain in outside)
    assert {(p.domain, p.taken_for): p.texts for p in found.pairs} == pairs
    assert sum(traits.texts for traits in found.attracted.values()) == len(outside) > 0
    done = cli("outliers", run.path)
    assert done.code == 0, done.err
    assert json.loads(cli("outliers", run.path, "--json").out)["all"]["texts"] == len(units)
