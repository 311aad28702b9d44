"""Why a text has its score: by its words, and what can go wrong."""

import dataclasses
import json
import shutil
import uuid

import pytest
from journeys import WORDS, prose, scores, write_rows

import corpusfit
from corpusfit.core.errors import ChangedInputError, InputError, ModelError, UsageError


@pytest.fixture(scope="module")
def run(tmp_path_factory, inline):
    """Select from a corpus with a document of several segments and a row that is rejected.

    Its file's name has a colon in it and its shards are of a few rows. Each method is run once.
    """
    folder = tmp_path_factory.mktemp("explain")
    task = write_rows(folder / "task.jsonl", prose("task", 40))
    for topic in WORDS:
        write_rows(folder / f"pile/{topic}.jsonl", prose(topic, 150, seed=1))
    rows = [{"text": t} for t in prose("kitchen", 300, seed=5)]
    rows[120] = {"text": ". ".join(prose("task", 40, seed=6)[:20] + prose("market", 40, seed=6))}
    rows[121] = {"no": "text"}
    write_rows(folder / "pile/a:3.jsonl", rows)

    def select(method, **words):
        return corpusfit.select(
            target=task,
            corpus=folder / "pile",
            out=folder / method,
            method=method,
            fraction=0.3,
            settings=("cut.pieces=16", "cut.gamma=2", "read.shard_mb=0.02"),
            machine=inline,
            **words,
        )

    return select


def test_every_row_is_found_and_its_effects_are_those_of_its_units(run, inline):
    done = run("moore_lewis")
    stored = scores(done)
    by_place = {(s["source"], s["row"], s["segment"]): s for s in stored}
    for place in list(by_place)[::97] + [k for k in by_place if k[:2] == ("a:3.jsonl", 120)]:
        source, row, segment = place
        found = corpusfit.explain(
            done.path, row=f"{source}:{row}:{segment}", top=10_000, machine=inline
        )
        want = by_place[place]
        assert (found.source, found.row, found.segment) == place
        assert found.score == pytest.approx(want["score"])
        assert found.selected == want["selected"]
        assert found.threshold == done.manifest["selected"]["threshold"]
        assert len(found.text) == want["end"] - want["start"]
        total = sum(e.effect for e in [*found.raised, *found.lowered])
        assert total == pytest.approx(found.score, rel=1e-4, abs=1e-5)


def test_words_of_the_task_raise_and_others_lower(run, inline):
    done = run("moore_lewis")
    found = corpusfit.explain(
        done.path, text="The kinase binds garlic butter.", top=1, machine=inline
    )
    assert (found.source, found.row, found.selected) == (None, None, None)
    assert [e.part for e in found.raised] <= ["kinase"] or found.raised[0].part == "binds"
    assert found.lowered[0].part in ("garlic", "butter")
    assert len(found.raised) == len(found.lowered) == 1
    assert found.nearest == []


def test_of_a_row_without_a_segment_the_highest_score_is_explained(run, inline):
    done = run("moore_lewis")
    found = corpusfit.explain(done.path, row="a:3.jsonl:120", machine=inline)
    rows = [row for row in scores(done) if row["source"] == "a:3.jsonl" and row["row"] == 120]
    assert found.segments == len(rows) > 1
    assert found.segment == max(rows, key=lambda row: row["score"])["segment"]
    one = corpusfit.explain(done.path, row=f"a:3.jsonl:120:{found.segment}", machine=inline)
    assert found == dataclasses.replace(one, segments=len(rows))


def test_a_row_of_a_selection(run, inline):
    done = run("moore_lewis")
    row = next(row for row in reversed(list(done)) if row["segments"] == 1)
    found = corpusfit.explain(done, row=row, machine=inline)
    assert {name: row[name] for name in ("source", "row", "segment", "text")} == {
        "source": found.source,
        "row": found.row,
        "segment": found.segment,
        "text": found.text,
    }


def test_a_text_cannot_steer_the_terminal_of_who_prints_an_explanation(run, inline):
    hostile = "The enzyme \x1b]0;binds\x07."
    why = corpusfit.explain(run("moore_lewis"), text=hostile, machine=inline)
    assert "\x1b" in why.text
    assert why.headline in str(why)
    assert "\x1b" not in str(why)


def test_a_score_is_described_as_by_its_method(run, inline):
    for method, higher in {
        "cynical": "selected earlier",
        "moore_lewis": "more like the target",
    }.items():
        done = run(method)
        why = corpusfit.explain(done, row=done[0], machine=inline)
        assert f"(higher: {higher};" in why.headline
        assert f"(higher: {higher})" in corpusfit.report(done.path).read_text("utf-8")


def test_a_method_on_embeddings_shows_the_nearest_target_texts(run, inline, tiny_static):
    done = run("domain_cosine", embedder=str(tiny_static))
    found = corpusfit.explain(done.path, row="task.jsonl:4", top=3, machine=inline)
    assert (found.raised, found.lowered) == ([], [])
    cosines = [n.cosine for n in found.nearest]
    assert len(cosines) == 3
    assert cosines == sorted(cosines, reverse=True)
    own = corpusfit.explain(done.path, text=found.nearest[0].text, machine=inline)
    assert own.nearest[0].cosine == pytest.approx(1.0, abs=1e-5)
    assert own.nearest[0].text == found.nearest[0].text


def test_a_method_that_says_nothing_shows_the_score_and_the_threshold(run, cli):
    done = run("random")
    said = cli("explain", done.path, "--row", "task.jsonl:4")
    assert said.code == 0
    assert f"{done.manifest['selected']['threshold']:.4g}" in said.out


def test_through_the_command_line(run, cli):
    done = run("moore_lewis")
    said = cli("explain", done.path, "--row", "kitchen.jsonl:5", "--top", "2")
    assert said.code == 0, said.err
    assert said.out.startswith("kitchen.jsonl, row 5, segment 0: moore_lewis score ")
    assert "selected" in said.out
    found = json.loads(cli("explain", done.path, "--row", "kitchen.jsonl:5", "--json").out)
    assert found["source"] == "kitchen.jsonl"
    assert found["lowered"][0].keys() == {"part", "effect"}
    assert found["nearest"] == []
    odd = cli("explain", done.path, "--text", "?!")
    assert odd.code == 0, odd.err


def test_a_text_cannot_steer_the_terminal(run, cli):
    said = cli("explain", run("moore_lewis").path, "--text", "kinase \x1b[2J\x07 receptor")
    assert said.code == 0
    assert "receptor" in said.out
    assert "\x1b" not in said.out


def test_a_run_in_a_store(cli, task, pile, inline):
    out = f"memory://bucket/{uuid.uuid4().hex}"
    corpusfit.select(target=task, corpus=pile, out=out, method="moore_lewis", machine=inline)
    found = json.loads(cli("explain", out, "--row", "task.jsonl:1", "--json").out)
    assert found["score"] > 0
    assert found["raised"]


def test_rows_of_plain_text_are_lines_with_gaps(task, tmp_path, inline):
    corpus = tmp_path / "corpus.txt"
    corpus.write_text("\n\n\n".join(f"The kinase number {i} binds." for i in range(40)))
    out, small = tmp_path / "out", ["read.shard_mb=1e-4"]
    corpusfit.select(
        target=task, corpus=corpus, out=out, method="dsir", machine=inline, settings=small
    )
    found = corpusfit.explain(out, row="corpus.txt:90", machine=inline)
    assert found.text.startswith("The kinase number 30 binds.")


def test_before_anything_is_chosen(task, pile, tmp_path, inline):
    out = tmp_path / "out"
    corpusfit.select(target=task, corpus=pile, out=out, method="moore_lewis", machine=inline)
    (out / "manifest.json").unlink()  # as of a run that was killed once all was scored
    found = corpusfit.explain(out, row="task.jsonl:1", machine=inline)
    assert (found.selected, found.threshold) == (None, None)


@pytest.mark.parametrize(
    ("words", "error", "says"),
    [
        ({}, UsageError, "`row.*`text"),
        ({"row": "task.jsonl:1", "text": "x"}, UsageError, "`row.*`text"),
        ({"text": " \n"}, UsageError, "`text"),
        ({"text": "x", "top": 0}, UsageError, "`top.*0"),
        ({"row": "tsk.jsonl:1"}, UsageError, r"tsk\.jsonl:1.*task\.jsonl"),
        ({"row": "task.jsonl"}, UsageError, "SOURCE:ROW or SOURCE:ROW:SEGMENT"),
        ({"row": "task.jsonl:-1"}, UsageError, "SOURCE:ROW or SOURCE:ROW:SEGMENT"),
        (
            {"row": "task.jsonl:150"},
            UsageError,
            r"task\.jsonl.*149.*150",
        ),
        ({"row": "task.jsonl:1:99"}, UsageError, "segment.*99"),
        ({"row": "a:3.jsonl:121"}, InputError, r"121.*a:3\.jsonl"),
    ],
)
def test_what_cannot_be_explained_is_worded(run, inline, words, error, says):
    done = run("moore_lewis")
    with pytest.raises(error, match=says):
        corpusfit.explain(done.path, **words, machine=inline)


def test_a_changed_source_is_noticed_and_another_is_no_matter(task, pile, tmp_path, inline):
    out = tmp_path / "out"
    words = {"target": task, "corpus": pile, "method": "moore_lewis", "machine": inline}
    done = corpusfit.select(out=out, fraction=0.3, **words)
    (pile / "market.jsonl").write_text('{"text": "other"}\n')
    assert corpusfit.explain(done.path, row="task.jsonl:1", machine=inline).score
    with pytest.raises(ChangedInputError, match=r"market\.jsonl"):
        corpusfit.explain(done.path, row="market.jsonl:1", machine=inline)


def test_a_folder_without_scores_is_refused(cli, tmp_path):
    done = cli("explain", tmp_path, "--text", "x")
    assert done.code == 1
    assert done.err.startswith("Error: ")


def test_another_model_under_the_name_is_noticed(run, inline, monkeypatch, tiny_static):
    done = run("domain_cosine", embedder=str(tiny_static))
    monkeypatch.setattr("corpusfit.selection.fit.prepare", lambda plan: "another")
    with pytest.raises(ModelError, match="model"):
        corpusfit.explain(done.path, text="x", machine=inline)


def test_a_manifest_that_lacks_its_threshold_is_named(run, inline, tmp_path):
    folder = shutil.copytree(run("moore_lewis").path, tmp_path / "run")
    manifest = json.loads((folder / "manifest.json").read_bytes())
    manifest["selected"] = {"a": 1}
    (folder / "manifest.json").write_text(json.dumps(manifest), "utf-8")
    with pytest.raises(InputError, match="threshold"):
        corpusfit.explain(folder, text="a pan on the stove", machine=inline)
