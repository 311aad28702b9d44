"""Clusters beside random assignment, LDA and word vectors."""

import json

import numpy as np
import pyarrow.parquet as pq
import pytest
from journeys import WORDS, prose, write_rows
from sklearn.metrics.cluster import contingency_matrix

import corpusfit
import corpusfit_papers
from corpusfit.core.errors import UsageError
from corpusfit_papers.baselines import by_topic, purity


@pytest.fixture(scope="module")
def domains(tmp_path_factory, inline, tiny_static):
    """Clusters of texts of several topics, a file each."""
    folder = tmp_path_factory.mktemp("baselines")
    for topic in WORDS:
        write_rows(folder / f"pile/{topic}.jsonl", prose(topic, 60, seed=1))
    return corpusfit.clusters(
        corpus=folder / "pile",
        out=folder / "domains",
        embedder=str(tiny_static),
        k="2,3",
        seed=4,
        settings=("mixture.fits=2",),
        machine=inline,
    )


def test_each_has_the_numbers_of_clusters_and_seeds_of_the_run(domains):
    found = corpusfit_papers.baselines(domains)
    assert [(row.of, row.k, row.fits) for row in found.rows] == [
        (of, k, 2) for of in ("mixture", "random", "lda", "word2vec") for k in (2, 3)
    ]
    assert [(row.purity, row.bic) for row in found.rows[:2]] == [
        (row["purity"], row["bic"]) for row in domains.manifest["tried"]
    ]
    by = {(row.of, row.k): row for row in found.rows}
    sample = pq.read_table(domains.path / "sample.parquet").to_pylist()
    assert found.units == len(sample) == domains.manifest["units"]
    names = [unit["domain"] for unit in sample]
    topics = [by_topic([unit["text"] for unit in sample], 3, seed) for seed in (4, 5)]
    tables = [contingency_matrix(names, each) for each in topics]
    pure = [table.max(axis=0).sum() / len(names) for table in tables]
    assert by["lda", 3].purity == pytest.approx(np.mean(pure))
    assert by["lda", 3].deviation == pytest.approx(np.std(pure))
    assert by["word2vec", 3].purity > by["random", 3].purity
    assert by["random", 3].bic is None
    assert by["word2vec", 3].bic < 0


def test_on_the_command_line(domains, cli):
    done = cli("baselines", domains.path)
    assert done.code == 0, done.err
    assert all(of in done.out for of in ("mixture", "random", "lda", "word2vec"))
    facts = json.loads(cli("baselines", domains.path, "--json").out)
    assert facts["units"] == domains.manifest["units"]


def test_one_domain_has_no_purity(tmp_path, inline, tiny_static, cli, jsonl):
    out = tmp_path / "out"
    corpus = jsonl("one.jsonl", prose("task", 30))
    corpusfit.clusters(corpus=corpus, out=out, embedder=str(tiny_static), k=1, machine=inline)
    with pytest.raises(UsageError, match=r"draw\.truth"):
        corpusfit_papers.baselines(out)
    assert "--truth" in cli("clusters", "--help").out


def test_another_run_is_refused(tmp_path, inline):
    run = corpusfit.select(
        target=["a cell"], corpus=["a cell", "a bank"], out=tmp_path, method="random",
        machine=inline,
    )  # fmt: skip
    with pytest.raises(UsageError, match="clusters"):
        corpusfit_papers.baselines(run)


def test_the_textbooks_example():
    """Figure 16.4: 17 points in three clusters, purity (5 + 4 + 3) / 17."""
    clusters = [0] * 6 + [1] * 6 + [2] * 5
    classes = [0] * 5 + [1] + [0, 1, 1, 1, 1, 2] + [0, 0, 2, 2, 2]
    assert purity(np.array(clusters), np.array(classes)) == pytest.approx(12 / 17)


def test_topics_of_words_that_never_meet():
    texts = ["cell kinase assay protein"] * 30 + ["market bank bond share"] * 30
    of = by_topic(texts, 2, 0)
    assert set(of[:30]).isdisjoint(of[30:])


def test_texts_without_a_word_in_common_have_one_topic():
    assert by_topic(["蛋白質 結合", "市場 株式"], 2, 2**40).tolist() == [0, 0]
