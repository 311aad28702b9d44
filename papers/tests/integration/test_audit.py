"""A run held against known domains."""

import json
import uuid

import pytest
from journeys import prose, scores
from labeled import in_every_format
from sklearn.metrics import average_precision_score, precision_recall_fscore_support

import corpusfit
import corpusfit_papers
from corpusfit.core.errors import UsageError

pytestmark = pytest.mark.slow


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
    found = corpusfit_papers.audit(run.path, truth="kind", domain="ta*", machine=inline)
    check(found, run, lambda s: rows[s["row"]]["kind"] or "(none)", {"task"})
    assert found.domains["(none)"].segments >= 2
    assert found.finding.precision > 0.9
    again = corpusfit.choose(run.path, segments=50, machine=inline)
    found = corpusfit_papers.audit(
        run.path, truth="kind", domain=["task", "(none)"], machine=inline
    )
    check(found, again, lambda s: rows[s["row"]]["kind"] or "(none)", {"task", "(none)"})
    assert found.finding.selected == 50


@in_every_format
def test_a_whole_number_is_a_domain_too(mixed, select, inline):
    path, rows = mixed
    run = select(path)
    found = corpusfit_papers.audit(run.path, truth="number", domain=["[12]"], machine=inline)
    check(found, run, lambda s: str(rows[s["row"]]["number"]), {"1", "2"})


def test_by_source(pile, select, inline):
    run = select(pile, fraction=0.3)
    found = corpusfit_papers.audit(run.path, domain=["task*", "kit*"], machine=inline)
    check(found, run, lambda s: s["source"], {"task.jsonl", "kitchen.jsonl"})
    (pile / "task.jsonl").unlink()  # names are enough
    assert corpusfit_papers.audit(run.path, domain=["task*", "kit*"], machine=inline) == found


def test_without_a_domain_there_are_counts_only(pile, select, inline):
    run = select(pile)
    found = corpusfit_papers.audit(run.path, machine=inline)
    assert (found.truth, found.method, found.finding) == ("source", "moore_lewis", None)
    assert {n.sought for n in found.domains.values()} == {None}
    assert next(iter(found.domains)) == "task.jsonl"


def test_a_selection_of_nothing(pile, select, inline):
    run = select(pile, threshold=1e9)
    found = corpusfit_papers.audit(run.path, domain="task*", machine=inline)
    f = found.finding
    assert (f.selected, f.precision, f.recall, f.f1) == (0, None, 0.0, 0.0)
    assert {n.of_selection for n in found.domains.values()} == {None}


@pytest.mark.slow
def test_the_workers_do_not_matter(mixed, select, inline):
    run = select(mixed[0])
    found = corpusfit_papers.audit(run.path, truth="kind", domain="task", machine=inline)
    two = corpusfit.Machine(workers=2)
    assert corpusfit_papers.audit(run.path, truth="kind", domain="task", machine=two) == found


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
        corpusfit_papers.audit(run.path, **words, machine=inline)


def test_plain_text_has_no_fields(task, tmp_path, select, inline):
    corpus = tmp_path / "plain.txt"
    corpus.write_text("\n\n\n".join(prose("task", 40)))
    run = select(corpus, fraction_of="segments")
    with pytest.raises(UsageError, match=r"got 'kind'"):
        corpusfit_papers.audit(run.path, truth="kind", machine=inline)
    assert corpusfit_papers.audit(run.path, machine=inline).domains["plain.txt"].taken == 0.2


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
