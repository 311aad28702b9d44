"""A finished run is a corpus: of the rows that it selected, with their sources, numbers and ids."""

import json
import random
import re
import shutil

import pytest
from journeys import WORDS, digests, prose, scores, write_rows

import corpusfit
from corpusfit import Machine
from corpusfit.core.errors import ChangedInputError, CorpusfitError, InputError, UsageError

CUT = ["read.shard_mb=0.01", "cut.pieces=20"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A task, and a corpus of documents of several segments; no test writes to them."""
    folder = tmp_path_factory.mktemp("runs")
    write_rows(folder / "task.jsonl", prose("task", 40))
    chance = random.Random(4)
    for topic in WORDS:
        texts = [
            " ".join(chance.choices(chance.choice(list(WORDS.values())), k=12)) + f" {i}."
            for i in range(600)
        ]
        rows = [
            {"text": " ".join(texts[i : i + 6]), "id": f"{topic}-{i}"}
            for i in range(0, len(texts), 6)
        ]
        (folder / "pile").mkdir(exist_ok=True)
        lines = "".join(json.dumps(row) + "\n" for row in rows)
        (folder / f"pile/{topic}.jsonl").write_text(lines, encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def select(folder, inline):
    """`select` in this process, by default from the whole corpus."""

    def select(out, corpus=None, **words):
        corpus = folder / "pile" if corpus is None else corpus
        given = {"method": "moore_lewis", "machine": inline, "settings": CUT, **words}
        return corpusfit.select(target=folder / "task.jsonl", corpus=corpus, out=out, **given)

    return select


@pytest.fixture(scope="module")
def first(select, folder):
    """Nearly half of the corpus, in several files."""
    settings = [*CUT, "choose.part_mb=0.02"]
    run = select(folder / "first", fraction=0.4, settings=settings)
    assert len(list((run.path / "selected").iterdir())) > 2
    return run


@pytest.fixture(scope="module")
def second(select, folder, first):
    """A quarter of what the first run selected."""
    return select(folder / "second", first, method="dsir", fraction=0.25)


def rows_of(folder):
    return {
        (file.name, number): json.loads(line)
        for file in (folder / "pile").iterdir()
        for number, line in enumerate(file.read_text("utf-8").splitlines())
    }


def test_selected_texts_are_of_the_rows_of_the_corpus(folder, first, second):
    rows = rows_of(folder)
    of_first = {(t["source"], t["row"]): [] for t in first}
    for text in first:
        of_first[text["source"], text["row"]].append(text["text"])
    assert max(map(len, of_first.values())) > 1
    assert len(second) > 10
    for text in second:
        row = rows[text["source"], text["row"]]
        assert text["text"] in row["text"]
        assert text["id"] == row["id"]
        # a text of the first run, or a part of one
        assert any(text["text"] in other for other in of_first[text["source"], text["row"]])
    keys = [(t["source"], t["row"], t["segment"]) for t in second]
    assert len(set(keys)) == len(keys)
    assert {row["source"] for row in scores(second)} <= {name for name, _ in rows}


def test_with_the_same_cut_it_scores_the_selected_segments(first, second):
    assert second.manifest["counts"]["segments"] == first.manifest["selected"]["segments"]
    assert second.manifest["counts"]["documents"] == len({(t["source"], t["row"]) for t in first})


def test_quotas_are_of_the_sources_of_the_corpus(second, tmp_path, inline):
    words = {"balance": "source", "settings": ["choose.quota=even"]}
    even = corpusfit.choose(second, out=tmp_path / "even", fraction=0.3, machine=inline, **words)
    by_source = even.manifest["selected"]["by_source"]
    assert sorted(by_source) == sorted(f"{topic}.jsonl" for topic in WORDS)
    tokens = [counts["tokens"] for counts in by_source.values()]
    assert max(tokens) < 1.5 * min(tokens)


def test_all_names_of_a_run_give_the_same(select, first, second, tmp_path):
    for number, corpus in enumerate((str(first.path), f"run:{first.path}")):
        run = select(tmp_path / str(number), corpus, method="dsir", fraction=0.25)
        assert digests(run.path) == digests(second.path)


def test_a_run_of_a_run_needs_no_earlier_one(select, folder, tmp_path):
    one = select(tmp_path / "one", fraction=0.5)
    two = select(tmp_path / "two", one, method="dsir", fraction=0.5)
    shutil.rmtree(one.path)
    three = select(tmp_path / "three", two, fraction=0.5)
    rows = rows_of(folder)
    assert len(three) > 10
    assert all(t["text"] in rows[t["source"], t["row"]]["text"] for t in three)
    with pytest.raises(CorpusfitError, match="one/selected"):
        corpusfit.choose(two, fraction=0.1)


def test_its_identity_has_that_of_the_run(select, tmp_path, inline):
    one = select(tmp_path / "one", fraction=0.5)
    words = {"method": "dsir", "fraction": 0.5}
    two = select(tmp_path / "two", one, **words)
    corpusfit.choose(one, fraction=0.3, machine=inline)
    with pytest.raises(ChangedInputError, match="corpus file"):
        select(two.path, one, **words)
    with pytest.raises(ChangedInputError, match="changed since"):
        corpusfit.choose(two, fraction=0.1, machine=inline)


def test_a_selected_text_is_explained(second, inline):
    text = second[len(second) // 2]
    explained = corpusfit.explain(second, row=text, machine=inline)
    assert explained.selected
    assert explained.text in text["text"]
    assert (explained.source, explained.row) == (text["source"], text["row"])


@pytest.mark.slow
def test_rank_takes_a_run(folder, first, inline):
    words = {"methods": ["dsir", "moore_lewis"], "machine": inline, "settings": CUT}
    ranking = corpusfit.rank(target=folder / "task.jsonl", corpus=first, **words)
    assert {"dsir", "moore_lewis"} <= {each.method for each in ranking.methods}


@pytest.mark.slow
def test_clusters_are_found_in_runs(first, second, tmp_path, inline, tiny_static):
    words = {"k": 2, "embedder": str(tiny_static), "machine": inline}
    found = corpusfit.clusters(corpus=[first, second], out=tmp_path / "out", **words)
    assert len(found.manifest["clusters"]) == 2


def unfinished(path):
    (path / "manifest.json").unlink()


def of_another_version(path):
    begun = json.loads((path / ".corpusfit/run.json").read_bytes())
    (path / ".corpusfit/run.json").write_text(json.dumps({**begun, "format": 2}))


def of_pairs(path):
    manifest = json.loads((path / "manifest.json").read_bytes())
    manifest["selected"]["aligned"] = ["selected.de", "selected.en"]
    (path / "manifest.json").write_text(json.dumps(manifest))


def without_a_part(path):
    (path / "selected/part-00001.jsonl.zst").unlink()


def moved(path):
    path.rename(path.with_name("moved"))


@pytest.mark.parametrize(
    ("spoil", "cure"),
    [
        (unfinished, "Repeat the `corpusfit select`"),
        (of_another_version, "Repeat the command that wrote it"),
        (of_pairs, "pair:.*selected.de,.*selected.en"),
        (without_a_part, "lacks part-00001"),
        (moved, "name its new place"),
    ],
)
def test_a_run_that_cannot_be_a_corpus(select, first, tmp_path, spoil, cure):
    shutil.copytree(first.path, tmp_path / "run")
    spoil(tmp_path / "run")
    with pytest.raises(CorpusfitError, match=cure):
        select(tmp_path / "out", f"run:{tmp_path / 'run'}")
    assert not (tmp_path / "out").exists()


def test_a_run_is_a_corpus_alone(select, first, folder, tmp_path):
    target = f"run:{first.path}"
    with pytest.raises(UsageError, match=re.escape(f"Name its text: {first.path}/selected")):
        corpusfit.select(target=target, corpus=folder / "pile", out=tmp_path / "out")


def test_a_field_that_the_run_read_its_text_from(select, folder, tmp_path, inline):
    """The text has its name, so that the second command is as the first."""
    pile = tmp_path / "pile.jsonl"
    lines = (folder / "pile/task.jsonl").read_text("utf-8").replace('"text"', '"body"')
    pile.write_text(lines, encoding="utf-8")
    words = {"settings": [*CUT, "fit.target_field=text"], "fraction": 0.5}
    one = select(tmp_path / "one", pile, text_field="body", **words)
    two = select(tmp_path / "two", one, text_field="body", **words)
    assert 0 < len(two) < len(one)
    with pytest.raises(InputError, match=r"`read\.text_field`"):
        select(tmp_path / "other", one, **words)


@pytest.mark.slow
def test_any_number_of_workers_gives_the_same_bytes(select, first, second, tmp_path):
    words = {"method": "dsir", "fraction": 0.25, "machine": Machine(workers=2)}
    assert digests(select(tmp_path / "out", first, **words).path) == digests(second.path)
