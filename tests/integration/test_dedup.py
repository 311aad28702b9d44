"""`--dedup`: of rows with the same text one can be selected, and the amount is met without them."""

import random
import shutil

import pytest
from journeys import WORDS, digests, kill_at, prose, scores, write_rows

import corpusfit
from corpusfit import Machine
from corpusfit.core.errors import UsageError
from corpusfit.selection import copies, folder
from corpusfit.text.same_text import FORM, folded, normal_form

PLANTED = " ".join(WORDS["task"] * 2)
SHARDS = "read.shard_mb=0.02"
MANY_SHARDS = "read.shard_mb=0.004"
LONG_UNITS = "cut.pieces=256"  # short rows are one unit each


@pytest.fixture(scope="module")
def rows():
    """Different rows with 60 copies of one of them among them, and two of a text of many units."""
    different = [*prose("task", 60), *prose("market", 240), PLANTED]
    different.append(" ".join(prose("task", 400)))
    copied = [*different, *[PLANTED] * 59, different[-1]]
    random.Random(3).shuffle(copied)
    return copied


@pytest.fixture(scope="module")
def task(tmp_path_factory):
    return write_rows(tmp_path_factory.mktemp("task") / "task.jsonl", prose("task", 40, seed=9))


@pytest.fixture
def select(task, rows, tmp_path, inline):
    def select(out="out", corpus=None, **words):
        path = tmp_path / "corpus.jsonl"
        if corpus is not None or not path.exists():
            write_rows(path, corpus or rows)
        words = {"method": "moore_lewis", "settings": [SHARDS, LONG_UNITS], **words}
        words = {"machine": inline, **words}
        return corpusfit.select(target=task, corpus=str(path), out=tmp_path / out, **words)

    return select


def texts(run):
    return [segment["text"] for segment in run]


def test_what_is_counted_of_a_shard_is_read_once(select, monkeypatch):
    read = []
    read_many = folder.read_many

    def noted(paths):
        read.extend(paths)
        return read_many(paths)

    monkeypatch.setattr(folder, "read_many", noted)
    run = select(fraction=0.5)
    marks = [path.name for path in read if path.parent.name == "scored"]
    assert len(marks) == len(set(marks)) == len(list((run.path / "scores").iterdir())) > 1


def test_of_sixty_copies_one_is_selected_and_the_others_are_counted(select, inline):
    run = select(fraction=0.5, fraction_of="segments")
    assert texts(run).count(PLANTED) == 1
    marked = [row for row in scores(run) if row["copy"]]
    long = len(marked) - 59
    assert long > 1
    counts = {"exact": 60, "repeats": 0, "segments": 59 + long}
    assert run.manifest["selected"]["copies"] == counts
    assert not any(row["selected"] or row["weight"] for row in marked)
    different = run.manifest["counts"]["segments"] - len(marked)
    assert run.manifest["selected"]["segments"] == round(0.5 * different)
    assert sum(text["segments"] for text in run) == round(0.5 * different)
    place = next(f"{r['source']}:{r['row']}" for r in marked)
    assert corpusfit.explain(run.path, row=place, machine=inline).copy


def test_without_dedup_every_copy_is_selected(select):
    run = select(dedup="none", fraction=0.5, fraction_of="segments")
    assert texts(run).count(PLANTED) == 60
    assert run.manifest["selected"]["copies"] is None
    assert not any(row["copy"] for row in scores(run))


AMOUNTS = [
    {"fraction": 0.2},
    {"segments": 28},
    {"threshold": -1.0},
    {"policy": "continuous", "fraction": 0.3},
]


@pytest.mark.parametrize("amount", AMOUNTS, ids=str)
def test_the_selection_is_that_of_the_corpus_without_copies(select, rows, amount):
    """For a method that learns from the target alone: the background of others holds copies."""
    words = {"settings": [SHARDS, LONG_UNITS, "fit.background=100000"], **amount}
    with_copies = select("with", method="knn", embedder="static", **words)
    without = select(
        "without", [*dict.fromkeys(rows)], method="knn", embedder="static", dedup="none", **words
    )
    same = [[(s["text"], s["score"], s["weight"]) for s in run] for run in (with_copies, without)]
    assert same[0] == same[1]
    assert same[0]


def test_choose_leaves_copies_out_too(select, inline, tmp_path):
    first = select(fraction=0.1)
    fresh = select("fresh", fraction=0.5)
    before = digests(fresh.path)
    assert digests(corpusfit.choose(first.path, fraction=0.5, machine=inline).path) == before
    half = {"fraction": 0.5, "fraction_of": "segments"}
    every = corpusfit.choose(first.path, **half, dedup="none", machine=inline)
    assert texts(every).count(PLANTED) == 60
    words = {"fraction": 0.5, "fraction_of": "words", "dedup": "exact", "machine": inline}
    other = corpusfit.choose(first.path, out=tmp_path / "o", **words)
    assert digests(other.path) == before
    shutil.rmtree(other.path / f".corpusfit/keys-{FORM}")  # as in a folder of an older version
    assert digests(corpusfit.choose(other.path, fraction=0.5, machine=inline).path) == before


def with_boilerplate(rows):
    """Each row before or after a notice, in one of several spellings."""
    notices = [NOTICE, NOTICE.upper() + "!", NOTICE.replace(" ", "  "), f"“{NOTICE}”"]
    paired = ((row, notices[i % len(notices)]) for i, row in enumerate(rows))
    return [f"{row}\n\n{n}" if i % 3 else f"{n}\n\n{row}" for i, (row, n) in enumerate(paired)]


NOTICE = "To read on, subscribe to our newsletter"
LINES = ["cut.unit=paragraph", "cut.gamma=1"]


@pytest.mark.parametrize("method", ["moore_lewis", "cynical", "isolation_forest", "knn"])
def test_of_segments_with_the_same_words_three_are_selected(select, rows, method, tiny_static):
    texts = [*with_boilerplate(rows[:40]), NOTICE, "Copied.\n\nTwice.", "Copied.\n\nTwice."]
    words = {"method": method, "embedder": str(tiny_static), "settings": [SHARDS, *LINES]}
    run = select(corpus=texts, fraction=1.0, **words)
    stored = list(scores(run))
    said = [texts[row["row"]][row["start"] : row["end"]] for row in stored]
    # a plain search: the segments of documents cut into several that are no copies, the best first
    first_of = {text: row for row, text in reversed([*enumerate(texts)])}
    groups = {}
    for place, (row, text) in enumerate(zip(stored, said, strict=True)):
        document = texts[row["row"]]
        if "\n" in document and first_of[document] == row["row"]:
            groups.setdefault(normal_form(folded(text)), []).append(place)
    beyond = [sorted(g, key=lambda i: (-stored[i]["score"], i))[3:] for g in groups.values()]
    repeats = {place for places in beyond for place in places}
    assert len(repeats) > 30
    of_copies = {i for i, row in enumerate(stored) if first_of[texts[row["row"]]] != row["row"]}
    assert {i for i, row in enumerate(stored) if row["copy"]} == repeats | of_copies
    assert {i for i, row in enumerate(stored) if not row["selected"]} == repeats | of_copies
    exact, left_out = len(texts) - len(first_of), len(repeats | of_copies)
    counts = {"exact": exact, "repeats": len(repeats), "segments": left_out}
    assert run.manifest["selected"]["copies"] == counts


def test_repeats_do_not_depend_on_the_amount_and_are_explained(
    select, inline, tmp_path, monkeypatch
):
    read_again, key_shard = [], copies.key_shard
    monkeypatch.setattr(copies, "key_shard", lambda *a: read_again.append(a) or key_shard(*a))
    run = select(corpus=with_boilerplate(prose("task", 40)), fraction=0.2, settings=LINES)
    half = corpusfit.choose(run.path, fraction=0.5, out=tmp_path / "half", machine=inline)
    found = [[row["copy"] for row in scores(each)] for each in (run, half)]
    assert found[0] == found[1]
    assert sum(found[0]) == run.manifest["selected"]["copies"]["repeats"] == 37
    counted = run.manifest["selected"]
    left = [row for row in scores(run) if not row["copy"]]
    assert counted["of_tokens"] == sum(row["tokens"] for row in left)
    assert 0.2 <= counted["tokens"] / counted["of_tokens"] < 0.25
    row = next(row for row in scores(run) if row["copy"])
    why = corpusfit.explain(
        half.path, row=f"corpus.jsonl:{row['row']}:{row['segment']}", machine=inline
    )
    assert why.repeat
    assert not read_again  # the texts were hashed when they were scored
    near = corpusfit.choose(half.path, fraction=0.5, dedup="near", machine=inline)
    assert near.manifest["selected"]["copies"]["repeats"] == 37
    every = corpusfit.choose(half.path, fraction=1.0, dedup="none", machine=inline)
    assert every.manifest["selected"]["segments"] == every.manifest["counts"]["segments"]


def test_whole_documents_are_no_repeats(select):
    corpus = [*prose("task", 20), *[NOTICE, NOTICE + "!", NOTICE + ".", NOTICE + "?"] * 2]
    run = select(corpus=corpus, fraction=1.0, settings=["cut.unit=document"])
    assert run.manifest["selected"]["copies"] == {"exact": 4, "segments": 4}
    assert len(run) == 24


@pytest.mark.parametrize("method", ["cynical", "isolation_forest", "random", "knn"])
def test_every_kind_of_method(select, rows, method, tiny_static):
    run = select(method=method, embedder=str(tiny_static), fraction=0.5)
    assert run.manifest["selected"]["copies"]["exact"] == 60
    assert texts(run).count(PLANTED) <= 1
    planted = [row for row in scores(run) if rows[row["row"]] == PLANTED]
    (kept,) = [row for row in planted if not row["copy"]]
    assert kept["score"] == max(row["score"] for row in planted)


def test_of_copies_with_several_labels_the_wanted_one_is_kept(select):
    labeled = [{"text": f"text number {i}", "topic": "other"} for i in range(40)]
    labeled += [{"text": "text number 7", "topic": "wanted"}]
    run = select(
        corpus=labeled,
        method="oracle",
        threshold=0.5,
        settings=["method.truth=topic", "method.domain=wanted"],
    )
    assert texts(run) == ["text number 7"]
    assert run.manifest["selected"]["copies"]["exact"] == 1


def test_pairs_are_copies_if_both_sides_are(task, tmp_path, inline):
    sides = [["eins", "one"], ["eins", "one"], ["eins", "a"], ["zwei", "two"], ["eins", "a"]]
    for name, side in zip(("de", "en"), zip(*sides, strict=True), strict=True):
        (tmp_path / f"p.{name}").write_text("\n".join(side) + "\n", "utf-8")
    run = corpusfit.select(
        target=task,
        corpus=f"pair:{tmp_path}/p.de,{tmp_path}/p.en",
        out=tmp_path / "out",
        method="random",
        fraction=1.0,
        machine=inline,
    )
    assert [[s["text"], s["translation"]] for s in run] == [sides[0], sides[2], sides[3]]
    with pytest.raises(UsageError, match="dedup"):
        corpusfit.choose(run.path, dedup="near", machine=inline)


def test_near_copies_are_left_out_and_counted_apart(select, rows, inline):
    edited = ["Draft: " + " ".join(rows[0].split()[:-1]) + " end", PLANTED.upper() + "!"]
    long = max(rows, key=len)
    edited.append(long[:-80] + "and another end.")
    longer = f"{rows[0]} {' '.join(prose('kitchen', 30))}"  # holds a row, and is no copy of it
    run = select(corpus=[*rows, *edited, longer], dedup="near", fraction=0.9)
    counted = run.manifest["selected"]["copies"]
    assert counted["exact"] == 60
    marked = {row["row"] for row in scores(run) if row["copy"]}
    assert len(marked) == 60 + counted["near"]
    same = [[i for i, row in enumerate(rows) if row == text] for text in (PLANTED, long)]
    planted, copied = ({*places, len(rows) + 1 + n} for n, places in enumerate(same))
    assert len(planted - marked) == len(copied - marked) == 1
    assert len(rows) + len(edited) not in marked
    exact = corpusfit.choose(run.path, fraction=0.9, dedup="exact", machine=inline)
    assert exact.manifest["selected"]["copies"]["exact"] == 60
    assert "near" not in exact.manifest["selected"]["copies"]


@pytest.mark.slow
def test_any_number_of_workers_and_a_kill_give_the_same_bytes(select, start, task, rows, tmp_path):
    cut = [MANY_SHARDS, *LINES]
    words = {"method": "cynical", "fraction": 0.3, "dedup": "near", "settings": cut}
    first = select("whole", corpus=[*rows, *with_boilerplate(prose("task", 40, seed=1))], **words)
    assert first.manifest["selected"]["copies"]["repeats"] > 30
    whole = digests(first.path)
    two = select("two", machine=Machine(workers=2), **words)
    assert digests(two.path) == whole
    assert sum(name.startswith("scores/") for name in whole) > 9
    out, corpus = tmp_path / "killed", tmp_path / "corpus.jsonl"
    line = ("select", "--target", task, "--corpus", corpus, "--out", out, "--method", "cynical")
    settings = [word for setting in cut for word in ("--set", setting)]
    process = start(*line, "--fraction", 0.3, "--dedup", "near", *settings, "--workers", 1)
    assert kill_at(process, out, ".corpusfit/near-*/part-*", 3)
    assert not (out / "manifest.json").exists()
    assert digests(select("killed", **words).path) == whole
