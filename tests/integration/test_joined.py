"""Neighboring selected segments of a row are one text of `selected/`, as the row has it."""

import numpy as np
import pytest
from journeys import chats, prose, scores, write_rows

import corpusfit

CUT = ("cut.pieces=12", "cut.gamma=1", "read.shard_mb=0.004")


@pytest.fixture
def rows():
    """Rows of several segments, of which some are like the task and their neighbors are not."""
    of_task, other = prose("task", 120, most=12), prose("market", 120, most=12)
    mixed = [text for pair in zip(of_task, other, strict=True) for text in pair]
    return [" \n\n".join(mixed[i : i + 8]) for i in range(0, 240, 8)] + prose("task", 20)


@pytest.fixture
def select(tmp_path, rows, inline):
    target = write_rows(tmp_path / "task.jsonl", prose("task", 40, seed=9))
    corpus = write_rows(tmp_path / "corpus.jsonl", rows)

    def select(out="out", settings=(), **words):
        words = {"method": "moore_lewis", "machine": inline, **words}
        settings = (*CUT, *settings)
        return corpusfit.select(
            target=target, corpus=corpus, out=tmp_path / out, settings=settings, **words
        )

    return select


def runs_of(run):
    """The runs of neighboring selected segments, from the stored scores."""
    runs = []
    for row in scores(run):
        if not row["selected"]:
            continue
        last = runs[-1][-1] if runs else None
        if last and (last["row"], last["segment"] + 1) == (row["row"], row["segment"]):
            runs[-1].append(row)
        else:
            runs.append([row])
    return runs


def mean(run, name):
    pieces = [max(1, row["tokens"]) for row in run]
    return sum(row[name] * n for row, n in zip(run, pieces, strict=True)) / sum(pieces)


@pytest.mark.parametrize("words", [{}, {"policy": "resample"}], ids=str)
def test_neighbors_are_joined_as_the_row_has_them(select, rows, words):
    run = select(fraction=0.5, **words)
    runs = runs_of(run)
    counted = run.manifest["selected"]
    assert 20 < len(runs) == counted["rows"] == len(run) < counted["segments"]
    assert counted["segments"] == sum(map(len, runs))
    assert any(1 < len(each) < 7 for each in runs)
    for text, joined in zip(run, runs, strict=True):
        first, last = joined[0], joined[-1]
        assert text["text"] == rows[first["row"]][first["start"] : last["end"]]
        assert (text["row"], text["segment"]) == (first["row"], first["segment"])
        assert text["segments"] == len(joined)
        assert text["score"] == pytest.approx(mean(joined, "score"), rel=1e-6)
        assert text["weight"] == pytest.approx(mean(joined, "weight"), rel=1e-6)
        if len(joined) == 1:
            assert np.float32(text["score"]) == first["score"]
    assert [*run.to_arrow().column("segments").to_pylist()] == list(map(len, runs))


def test_a_whole_row_comes_back_and_with_it_its_text(select, rows):
    run = select(fraction=1.0)
    assert [text["text"] for text in run] == rows


def test_segments_with_weights_of_their_own_are_not_joined(select):
    run = select(policy="continuous")
    stored = [row for row in scores(run) if row["selected"]]
    assert [(t["row"], t["segment"], np.float32(t["weight"])) for t in run] == [
        (row["row"], row["segment"], row["weight"]) for row in stored
    ]
    assert len(run) == run.manifest["selected"]["rows"] == len(stored)


def test_conversations_are_never_cut(tmp_path, inline):
    rows = chats("task", 20) + chats("market", 40)
    target = write_rows(tmp_path / "task.jsonl", prose("task", 40, seed=9))
    corpus = write_rows(tmp_path / "chats.jsonl", rows)
    words = {"text_field": "messages", "target_field": "text", "settings": CUT}
    run = corpusfit.select(
        target=target, corpus=corpus, out=tmp_path / "out", machine=inline, fraction=0.3, **words
    )
    assert run.manifest["plan"]["cut"]["unit"] == "document"
    assert run.manifest["counts"]["segments"] == len(rows)
    assert all(text["messages"] == rows[text["row"]]["messages"] for text in run)
    assert len(run) == run.manifest["selected"]["segments"] > 5


@pytest.mark.parametrize("cut", [("cut.pieces=8", "cut.gamma=1"), ("cut.gamma=2",)], ids=str)
def test_aligned_pairs_are_never_cut(tmp_path, inline, cut):
    sides = {
        "de": [f"Satz {i}. Mehr. Schluss." for i in range(30)],
        "en": [f"Text {i}. More. End." for i in range(30)],
    }
    for name, lines in sides.items():
        (tmp_path / f"all.{name}").write_text("".join(f"{line}\n" for line in lines))
    target = write_rows(tmp_path / "task.jsonl", prose("task", 40, seed=9))
    run = corpusfit.select(
        target=target,
        corpus=f"pair:{tmp_path}/all.de,{tmp_path}/all.en",
        out=tmp_path / "out",
        machine=inline,
        fraction=1.0,
        settings=cut,
    )
    assert run.manifest["plan"]["cut"]["unit"] == "document"
    found = {"de": [t["text"] for t in run], "en": [t["translation"] for t in run]}
    assert found == sides
