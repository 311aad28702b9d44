"""How long a unit is by default: as the target's texts for methods on words, else 256."""

import json

import pytest
from journeys import prose, write_rows

import corpusfit
from corpusfit.core.errors import UsageError
from corpusfit.selection import resolving

LONG = " ".join(prose("task", 400))


@pytest.fixture
def select(pile, tmp_path, inline):
    def select(texts, out="out", **words):
        target = write_rows(tmp_path / "target.jsonl", texts)
        words = {"method": "dsir", "machine": inline, "corpus": pile, **words}
        return corpusfit.select(target=target, out=tmp_path / out, **words)

    return select


def cut_of(run):
    return run.manifest["plan"]["cut"]


@pytest.mark.parametrize(
    ("words", "pieces"),
    # a short word is a word piece: halfway between two lengths the longer one is taken
    [(1, 64), (79, 64), (80, 96), (112, 128), (224, 256), (319, 256), (640, 768), (9000, 1024)],
)
def test_a_unit_is_as_long_as_the_median_text(select, words, pieces):
    run = select(["so " * 3, "it " * words, "it " * words, "so " * 9000])
    assert cut_of(run) == {"unit": "window", "pieces": pieces, "gamma": 1}
    assert str(pieces) in run.manifest["cut_reason"]


@pytest.mark.parametrize(
    ("words", "pieces"),
    [
        ({"settings": ["cut.pieces=70"]}, 70),
        ({"unit": "document"}, None),
        ({"unit": "sentence"}, None),
        ({"method": "oracle", "settings": ["method.domain=task*"]}, 256),
        ({"method": "random"}, 64),
    ],
    ids=str,
)
def test_it_does_not_follow_where_it_is_named_or_of_no_use(select, words, pieces):
    run = select(prose("task", 30), **words)
    assert cut_of(run)["pieces"] == pieces
    assert bool(run.manifest["cut_reason"]) == (pieces == 64)


def test_embeddings_have_long_units(select, tiny_static):
    run = select(prose("task", 30), method="knn", embedder=str(tiny_static))
    assert cut_of(run)["pieces"] == 256


@pytest.mark.parametrize(("size", "pieces"), [(10**9, 64), (2 * 10**11, 128), (2 * 10**12, 256)])
def test_a_large_corpus_has_longer_units(select, monkeypatch, size, pieces):
    monkeypatch.setattr(resolving, "_text_bytes", lambda _: size)
    run = select(prose("task", 30))
    assert cut_of(run)["pieces"] == pieces


def test_an_empty_file_changes_nothing(select, pile):
    before = select(prose("task", 30))
    (pile / "empty.jsonl").touch()
    assert cut_of(select(prose("task", 30), out="other")) == cut_of(before)


def test_choose_keeps_it(select, inline):
    run = select(prose("task", 30))
    again = corpusfit.choose(run.path, fraction=0.5, machine=inline)
    assert cut_of(again) == cut_of(run)
    assert again.manifest["cut_reason"] == run.manifest["cut_reason"]


def test_a_document_is_cut_into_such_units(select, tmp_path):
    run = select(prose("task", 30), fraction=1.0, dedup="none")
    segments = [s for s in run if s["source"] == "task.jsonl"]
    assert max(len(s["text"].split()) for s in segments) <= 64
    rows = [json.loads(r) for r in (tmp_path / "pile/task.jsonl").read_text("utf-8").splitlines()]
    joined = {}
    for segment in segments:
        joined[segment["row"]] = joined.get(segment["row"], "") + segment["text"]
    assert [joined[i] for i in range(len(rows))] == [row["text"] for row in rows]


@pytest.mark.parametrize(("asker", "said"), [("role", "content"), ("from", "value")])
def test_conversations_are_whole(task, jsonl, tmp_path, inline, asker, said):
    turns = [{asker: "user", said: LONG}, {asker: "assistant", said: "It binds. " * 200}]
    corpus = tmp_path / "chats.jsonl"
    corpus.write_text(f"{json.dumps({'messages': turns})}\n" * 2, "utf-8")
    words = {"target": task, "corpus": corpus, "text_field": "messages", "machine": inline}
    words |= {"settings": ["fit.target_field=text", "cut.pieces=64"], "dedup": "none"}
    run = corpusfit.select(**words, out=tmp_path / "out", fraction=1.0)
    assert cut_of(run)["unit"] == "document"
    assert [s["text"] for s in run] == ["\n".join(turn[said] for turn in turns)] * 2
    with pytest.raises(UsageError, match=r"`cut\.unit` must be document.*conversations"):
        corpusfit.select(**words, out=tmp_path / "parts", unit="sentence")


SCRAPS = ["ok", "No.", "+1", "N/A", "[deleted]", "Page 2", "404", "null", "Log in", "Menu", "Cell"]


@pytest.mark.parametrize("method", ["dsir", "moore_lewis", "cynical", "knn", "domain_cosine"])
def test_a_text_of_a_word_or_two_comes_after_all_documents(select, tmp_path, tiny_static, method):
    documents = [*prose("task", 20, 1), *prose("market", 40), *prose("kitchen", 40)]
    rows = [*SCRAPS[:5], *documents, *SCRAPS[5:]]
    corpus = write_rows(tmp_path / "corpus.jsonl", rows)
    words = {"corpus": corpus, "method": method, "unit": "document"}
    if method in ("knn", "domain_cosine"):
        words["embedder"] = str(tiny_static)
    run = select(prose("task", 30), segments=len(documents), **words)
    assert {text["text"] for text in run} == {*documents}
    selected = run.manifest["selected"]
    assert selected["short"] == len(SCRAPS)
    assert selected["threshold"] == pytest.approx(min(text["score"] for text in run))
    scrap = corpusfit.explain(run, row="corpus.jsonl:0")
    assert (scrap.selected, scrap.short) == (False, True)
    assert len(select(prose("task", 30), "all", fraction=1.0, **words)) == len(rows)


def test_the_end_of_a_document_is_no_scrap(select, tmp_path):
    """A document of one unit and four words more, and one of those words alone."""
    end = " cell assay ligand enzyme"
    rows = [("kinase " * 63).strip() + "." + end, *prose("market", 30), end.strip()]
    run = select(
        prose("task", 30), corpus=write_rows(tmp_path / "corpus.jsonl", rows), fraction=0.5
    )
    assert run.manifest["selected"]["short"] == 1
    first = [text for text in run if text["row"] == 0]
    assert sum(text["segments"] for text in first) == 2


def test_short_pairs_are_as_others(select, tmp_path):
    near = [text.split()[0] for text in prose("task", 20, 1)]
    lines = "\n".join([*prose("market", 60), *near]) + "\n"
    pair = [tmp_path / name for name in ("corpus.en", "corpus.de")]
    for side in pair:
        side.write_text(lines, "utf-8")
    run = select(prose("task", 30), corpus=f"pair:{pair[0]},{pair[1]}", segments=20, dedup="none")
    assert sorted(text["text"] for text in run) == sorted(near)


@pytest.mark.parametrize(
    ("target", "words"),
    [
        (SCRAPS, {"method": "dsir"}),  # such texts are wanted
        (prose("task", 30), {"method": "random"}),  # nothing of the score is likeness
        (prose("task", 30), {"method": "dsir", "policy": "continuous"}),
    ],
)
def test_short_texts_are_as_others_where_they_may_be_wanted(select, tmp_path, target, words):
    corpus = write_rows(tmp_path / "corpus.jsonl", [*prose("market", 30), *SCRAPS])
    run = select(target, corpus=corpus, segments=30, **words)
    assert {text["text"] for text in run} & {*SCRAPS}
