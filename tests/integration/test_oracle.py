"""The oracle, which knows the label of each row, and the labels of scored segments."""

import json
import warnings

import pytest
from journeys import WORDS, digests, scores
from labeled import in_every_format, rows_of_topics, write_parquet

import corpusfit
from corpusfit.core.errors import ChangedInputError, InputError, UsageError
from corpusfit.scoring import table

pytestmark = pytest.mark.slow

ORACLE = {"method": "oracle"}


@in_every_format
def test_the_oracle_finds_a_field_exactly(mixed, select, inline):
    """All segments of the label are selected and no others, as the labels of all segments say."""
    path, rows = mixed
    settings = ("method.truth=kind", "method.domain=task")
    run = select(path, *settings, threshold=0.5, **ORACLE)
    assert {rows[s["row"]]["kind"] for s in run} == {"task"}
    assert {s["id"] for s in run} == {"task"}
    assert all(s["text"] in rows[s["row"]]["text"] for s in run)
    every = [s for table in run.labeled_scores("kind", machine=inline) for s in table.to_pylist()]
    assert [s["label"] for s in every] == [rows[s["row"]]["kind"] or "(none)" for s in every]
    assert all((s["label"] == "task") == s["selected"] == (s["score"] == 1) for s in every)


def test_the_oracle_finds_sources(pile, select, inline):
    run = select(pile, "method.domain=[tk]*", segments=40, **ORACLE)
    taken = {name: n["selected"] for name, n in run.manifest["selected"]["by_source"].items()}
    assert taken["market.jsonl"] == 0
    assert sum(taken.values()) == 40
    assert min(taken["kitchen.jsonl"], taken["task.jsonl"]) > 0  # drawn from equals
    corpusfit.choose(run.path, fraction=1.0, machine=inline)
    every = sorted(scores(run), key=lambda s: -s["score"])
    assert {s["source"] for s in every if s["score"] == 1} == {"kitchen.jsonl", "task.jsonl"}
    assert {s["source"] for s in every if s["score"] == 0} == {"market.jsonl"}


def test_a_stopped_oracle_ends_the_same(mixed, select, monkeypatch):
    settings = ("method.truth=kind", "method.domain=task")
    whole = select(mixed[0], *settings, **ORACLE)
    write, calls = table.write, []

    def stop(*args):
        calls.append(args)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return write(*args)

    with monkeypatch.context() as patch:
        patch.setattr(table, "write", stop)
        with pytest.raises(KeyboardInterrupt):
            select(mixed[0], *settings, out="cut", **ORACLE)
    assert digests(select(mixed[0], *settings, out="cut", **ORACLE).path) == digests(whole.path)


def test_an_oracle_that_knows_nothing_is_refused_and_can_be_mended(mixed, select):
    path, _ = mixed
    with pytest.raises(UsageError, match=r"got \{'domain': 'tusk', 'truth': 'kind'\}"):
        select(path, "method.domain=tusk", "method.truth=kind", **ORACLE)
    with pytest.raises(UsageError, match=r"'\(none\)'"):
        select(path, "method.truth=topic", "method.domain=task", **ORACLE)
    with pytest.raises(UsageError, match=r"method\.domain"):
        select(path, **ORACLE)
    assert select(path, "method.truth=kind", "method.domain=task", **ORACLE).manifest["selected"]


@pytest.mark.parametrize("rows", [[], [{"no": "text"}]])
def test_an_oracle_without_a_row(jsonl, select, rows):
    with pytest.raises(InputError, match="`corpus"):
        select(jsonl("none/a.jsonl", rows), "method.domain=*", **ORACLE)


def test_the_oracle_is_listed_explained_and_estimated(cli, pile, task, select, tmp_path):
    listed = json.loads(cli("methods", "oracle", "--json").out)["methods"][0]
    assert (listed["reads"], listed["family"]) == ("label", "baseline")
    run = select(pile, "method.domain=task*", **ORACLE)
    found = json.loads(cli("explain", run.path, "--row", "task.jsonl:3", "--json").out)
    assert (found["score"], found["raised"]) == (1.0, [])
    refused = cli("explain", run.path, "--text", "kinase")
    assert refused.code == 2
    assert "oracle" in refused.err
    arguments = ("--target", task, "--corpus", pile, "--out", tmp_path / "dry", "--dry-run")
    done = cli("select", *arguments, "--method", "oracle", "--set", "method.domain=task*", "--json")
    assert json.loads(done.out)["units"] > 0


def test_labels_of_scored_segments_need_the_field_and_the_corpus(mixed, select, inline):
    path, _ = mixed
    run = select(path)
    with pytest.raises(UsageError, match=r"got 'topic'.*kind.*number"):
        list(run.labeled_scores("topic", machine=inline))
    path.write_bytes(path.read_bytes() + b"\n")
    with pytest.raises(ChangedInputError, match=path.name):
        list(run.labeled_scores("kind", machine=inline))


def test_labels_are_those_for_any_number_of_workers(mixed, select, inline):
    """In the order of the scores."""
    run = select(mixed[0])
    given = [inline, corpusfit.Machine(workers=2)]
    one, two = ([t.to_pylist() for t in run.labeled_scores("kind", machine=m)] for m in given)
    assert one == two
    of_scores = [t.to_pylist() for t in run.scores()]
    assert [[s["start"] for s in part] for part in two] == [
        [s["start"] for s in p] for p in of_scores
    ]


def test_a_dataset_whose_pieces_go_by_the_field_is_refused_unless_read_with_it(
    tmp_path, select, inline
):
    datasets = pytest.importorskip("datasets")
    rows = [r for r in rows_of_topics() if r["text"]]
    for r in rows:
        r["kind"] *= 40
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        datasets.disable_progress_bars()
        (tmp_path / "set").mkdir()
        write_parquet(tmp_path / "set" / "train.parquet", rows)
        run = select(f"hub:{tmp_path / 'set'}")
        with pytest.raises(InputError, match=r"read\.id_field=kind"):
            list(run.labeled_scores("kind", machine=inline))
        run = select(f"hub:{tmp_path / 'set'}", "read.id_field=kind", out="again")
        labeled = [s for t in run.labeled_scores("kind", machine=inline) for s in t.to_pylist()]
    assert {s["label"] for s in labeled} == {"(none)", *(40 * topic for topic in WORDS)}
