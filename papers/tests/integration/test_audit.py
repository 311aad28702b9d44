"""A run held against known domains, and the oracle that knows them."""

import csv
import json
import uuid
import warnings

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from journeys import WORDS, digests, prose, scores
from sklearn.metrics import average_precision_score, precision_recall_fscore_support

import corpusfit
from corpusfit.core.errors import ChangedInputError, InputError, UsageError
from corpusfit.scoring import table

pytestmark = pytest.mark.slow

SMALL = ("cut.pieces=16", "cut.gamma=2", "read.shard_mb=0.01")


def _rows():
    """Documents of several segments, of all topics in turn; some have no domain, some no text."""
    texts = {topic: prose(topic, 120, seed=3) for topic in WORDS}
    rows = [
        {"kind": topic, "text": texts[topic][i], "number": i % 3}
        for i in range(120)
        for topic in WORDS
    ]
    rows[7]["kind"] = rows[8]["kind"] = ""
    rows[11]["text"] = rows[200]["text"] = ""
    return rows


def write_jsonl(path, rows):
    rows = [dict(r) for r in rows]
    del rows[7]["kind"]
    rows[8]["kind"] = [0.5]  # neither is a label
    path.write_text("".join(json.dumps(r) + "\n" for r in rows))


def write_csv(path, rows):
    with path.open("w", newline="") as f:
        writer = csv.DictWriter(f, rows[0])
        writer.writeheader()
        writer.writerows(rows)


def write_parquet(path, rows):
    pq.write_table(pa.Table.from_pylist(rows), path, row_group_size=100)


FORMATS = {"jsonl": write_jsonl, "csv": write_csv, "parquet": write_parquet}


@pytest.fixture
def mixed(request, tmp_path):
    """A file with all topics, their name in a field; returns its path and its rows."""
    rows, suffix = _rows(), getattr(request, "param", "jsonl")
    path = tmp_path / f"mixed.{suffix}"
    FORMATS[suffix](path, rows)
    return path, rows


in_every_format = pytest.mark.parametrize("mixed", FORMATS, indirect=True)


@pytest.fixture
def select(task, tmp_path, inline):
    def select(corpus, *settings, out="out", **words):
        return corpusfit.select(
            target=task,
            corpus=corpus,
            out=tmp_path / out,
            settings=(*SMALL, *settings),
            machine=inline,
            **{"method": "moore_lewis", **words},
        )

    return select


def expected(run, domain_of, sought):
    """Counts by domain, and figures by scikit-learn, from the stored scores."""
    segments = scores(run)
    names = [domain_of(s) for s in segments]
    counts = {}
    for name, s in zip(names, segments, strict=True):
        n = counts.setdefault(name, [0, 0, 0, 0])
        n[0] += 1
        n[1] += s["tokens"]
        n[2] += s["selected"]
        n[3] += s["selected"] * s["tokens"]
    truth = [name in sought for name in names]
    taken = [s["selected"] for s in segments]
    three = precision_recall_fscore_support(truth, taken, average="binary", zero_division=0.0)[:3]
    return counts, three, average_precision_score(truth, [s["score"] for s in segments])


def check(found, run, domain_of, sought):
    counts, three, average = expected(run, domain_of, sought)
    assert {
        name: [n.segments, n.tokens, n.selected, n.selected_tokens]
        for name, n in found.domains.items()
    } == counts
    total, taken = (sum(c[i] for c in counts.values()) for i in (0, 2))
    assert found.segments == total
    for name, n in found.domains.items():
        assert n.taken == n.selected / n.segments
        assert n.of_selection == n.selected / taken
        assert n.sought == (name in sought)
    f = found.finding
    assert (f.precision, f.recall, f.f1) == pytest.approx(three)
    assert (f.selected, f.segments) == (taken, sum(counts[s][0] for s in sought))
    assert f.chance == f.segments / total
    assert f.scores.average_precision == pytest.approx(average, abs=1e-12)
    assert sum(f.scores.histogram.inside) == f.segments
    assert sum(f.scores.histogram.outside) == total - f.segments


@in_every_format
def test_by_field_in_every_format(mixed, select, inline):
    path, rows = mixed
    run = select(path, fraction=0.2)
    assert run.manifest["counts"]["rejected"] == 2
    assert len(list(run.scores())) > 2
    found = corpusfit.audit(run.path, truth="kind", domain="ta*", machine=inline)
    check(found, run, lambda s: rows[s["row"]]["kind"] or "(none)", {"task"})
    assert found.domains["(none)"].segments >= 2
    assert found.finding.precision > 0.9
    again = corpusfit.choose(run.path, segments=50, machine=inline)
    found = corpusfit.audit(run.path, truth="kind", domain=["task", "(none)"], machine=inline)
    check(found, again, lambda s: rows[s["row"]]["kind"] or "(none)", {"task", "(none)"})
    assert found.finding.selected == 50


@in_every_format
def test_a_whole_number_is_a_domain_too(mixed, select, inline):
    path, rows = mixed
    run = select(path)
    found = corpusfit.audit(run.path, truth="number", domain=["[12]"], machine=inline)
    check(found, run, lambda s: str(rows[s["row"]]["number"]), {"1", "2"})


def test_by_source(pile, select, inline):
    run = select(pile, fraction=0.3)
    found = corpusfit.audit(run.path, domain=["task*", "kit*"], machine=inline)
    check(found, run, lambda s: s["source"], {"task.jsonl", "kitchen.jsonl"})
    (pile / "task.jsonl").unlink()  # names are enough
    assert corpusfit.audit(run.path, domain=["task*", "kit*"], machine=inline) == found


def test_without_a_domain_there_are_counts_only(pile, select, inline):
    run = select(pile)
    found = corpusfit.audit(run.path, machine=inline)
    assert (found.truth, found.method, found.finding) == ("source", "moore_lewis", None)
    assert {n.sought for n in found.domains.values()} == {None}
    assert next(iter(found.domains)) == "task.jsonl"


def test_before_anything_is_chosen(mixed, select, inline):
    run = select(mixed[0])
    (run.path / "manifest.json").unlink()  # as of a run that was killed once all was scored
    found = corpusfit.audit(run.path, truth="kind", domain="task", machine=inline)
    f, n = found.finding, found.domains["task"]
    assert (f.selected, f.precision, f.recall, f.f1) == (None,) * 4
    assert (n.selected, n.selected_tokens, n.taken, n.of_selection) == (None,) * 4
    corpusfit.choose(run.path, fraction=0.2, machine=inline)
    later = corpusfit.audit(run.path, truth="kind", domain="task", machine=inline)
    assert later.finding.scores == f.scores
    assert later.finding.recall > 0


def test_a_selection_of_nothing(pile, select, inline):
    run = select(pile, threshold=1e9)
    found = corpusfit.audit(run.path, domain="task*", machine=inline)
    f = found.finding
    assert (f.selected, f.precision, f.recall, f.f1) == (0, None, 0.0, 0.0)
    assert {n.of_selection for n in found.domains.values()} == {None}


@pytest.mark.slow
def test_the_workers_do_not_matter(mixed, select, inline):
    run = select(mixed[0])
    found = corpusfit.audit(run.path, truth="kind", domain="task", machine=inline)
    two = corpusfit.Machine(workers=2)
    assert corpusfit.audit(run.path, truth="kind", domain="task", machine=two) == found


def test_through_the_command_line(pile, select, cli):
    run = select(pile, fraction=0.3)
    done = cli("audit", run.path, "--truth", "source", "--domain", "task*")
    assert done.code == 0, done.err
    assert "task.jsonl *" in done.out
    assert "precision" in done.out
    assert "moore_lewis" in done.out
    done = cli("audit", run.path, "--domain", "task*", "--json")
    assert done.out.count("\n") == 1
    found = json.loads(done.out, parse_constant=pytest.fail)
    assert found["finding"]["domain"] == ["task*"]
    assert [p["share"] for p in found["finding"]["scores"]["curve"]] == [0.01, 0.05, 0.1, 0.2, 0.5]
    assert len(found["finding"]["scores"]["histogram"]["inside"]) == 42


def test_what_is_not_chosen_yet_is_said(pile, select, cli):
    run = select(pile)
    (run.path / "manifest.json").unlink()
    done = cli("audit", run.path, "--domain", "task*")
    assert done.code == 0, done.err
    assert done.err
    assert "selected" not in done.out


def test_a_domain_cannot_steer_the_terminal(jsonl, select, cli):
    rows = [{"text": t, "kind": "\x1b[2Jred" + "x" * 500} for t in prose("task", 30)]
    run = select(jsonl("odd/a.jsonl", rows))
    done = cli("audit", run.path, "--truth", "kind")
    assert done.code == 0, done.err
    assert "\x1b" not in done.out
    assert "[2Jredxx" in done.out


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ({"truth": "topic"}, r"got 'topic'"),
        ({"truth": "topic"}, r"kind.*number"),
        ({"truth": "kind", "domain": "tusk"}, r"got 'tusk'.*'task'"),
        ({"truth": "source", "domain": ["mix*", "no*"]}, r"got 'no\*'.*'mixed\."),
    ],
)
def test_what_cannot_be_audited_is_worded(mixed, select, inline, words, says):
    run = select(mixed[0])
    with pytest.raises(UsageError, match=says):
        corpusfit.audit(run.path, **words, machine=inline)


def test_plain_text_has_no_fields(task, tmp_path, select, inline):
    corpus = tmp_path / "plain.txt"
    corpus.write_text("\n\n\n".join(prose("task", 40)))
    run = select(corpus, fraction_of="segments")
    with pytest.raises(UsageError, match=r"got 'kind'"):
        corpusfit.audit(run.path, truth="kind", machine=inline)
    assert corpusfit.audit(run.path, machine=inline).domains["plain.txt"].taken == 0.2


def test_a_run_in_a_store(mixed, task, cli, inline):
    out = f"memory://bucket/{uuid.uuid4().hex}"
    words = {"method": "oracle", "settings": ["method.truth=kind", "method.domain=task"]}
    corpusfit.select(target=task, corpus=mixed[0], out=out, threshold=0.5, machine=inline, **words)
    done = cli("audit", out, "--truth", "kind", "--domain", "task", "--json")
    assert json.loads(done.out)["finding"]["f1"] == 1.0


def test_a_folder_without_scores_is_refused(cli, tmp_path):
    done = cli("audit", tmp_path)
    assert (done.code, done.out) == (1, "")
    assert done.err.startswith("Error: ")


def test_a_changed_corpus_is_noticed(mixed, select, inline):
    path, _ = mixed
    run = select(path)
    path.write_bytes(path.read_bytes() + b"\n")
    with pytest.raises(ChangedInputError, match=path.name):
        corpusfit.audit(run.path, truth="kind", machine=inline)


def test_a_dataset_whose_pieces_go_by_the_field_is_refused_unless_read_with_it(
    tmp_path, select, inline
):
    datasets = pytest.importorskip("datasets")
    rows = [r for r in _rows() if r["text"]]
    for r in rows:
        r["kind"] *= 40
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        datasets.disable_progress_bars()
        (tmp_path / "set").mkdir()
        write_parquet(tmp_path / "set" / "train.parquet", rows)
        run = select(f"hub:{tmp_path / 'set'}")
        with pytest.raises(InputError, match=r"read\.id_field=kind"):
            corpusfit.audit(run.path, truth="kind", machine=inline)
        run = select(f"hub:{tmp_path / 'set'}", "read.id_field=kind", out="again")
        found = corpusfit.audit(run.path, truth="kind", domain="task*", machine=inline)
    check(found, run, lambda s: rows[s["row"]]["kind"] or "(none)", {"task" * 40})


ORACLE = {"method": "oracle"}


@in_every_format
def test_the_oracle_finds_a_field_exactly(mixed, select, inline):
    path, rows = mixed
    settings = ("method.truth=kind", "method.domain=task")
    run = select(path, *settings, threshold=0.5, **ORACLE)
    assert {rows[s["row"]]["kind"] for s in run} == {"task"}
    assert {s["id"] for s in run} == {"task"}
    assert all(s["text"] in rows[s["row"]]["text"] for s in run)
    found = corpusfit.audit(run.path, truth="kind", domain="task", machine=inline)
    check(found, run, lambda s: rows[s["row"]]["kind"] or "(none)", {"task"})
    f = found.finding
    assert (f.precision, f.recall, f.f1, f.scores.average_precision) == (1.0, 1.0, 1.0, 1.0)


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
    found = corpusfit.audit(run.path, domain=["[tk]*"], machine=inline)
    assert found.finding.scores.average_precision == 1.0
    assert found.finding.precision == found.finding.chance


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
    assert found["nearest"]
    refused = cli("explain", run.path, "--text", "kinase")
    assert refused.code == 2
    assert "oracle" in refused.err
    arguments = ("--target", task, "--corpus", pile, "--out", tmp_path / "dry", "--dry-run")
    done = cli("select", *arguments, "--method", "oracle", "--set", "method.domain=task*", "--json")
    assert json.loads(done.out)["units"] > 0
