"""Aligned pairs through `select` and `choose`: chosen by one side, written with the other."""

import gzip

import pytest
from journeys import digests, kill_at, prose, rejects

import corpusfit
from corpusfit import Machine
from corpusfit.core.errors import ChangedInputError, InputError, UsageError
from corpusfit.selection import writing

pytestmark = pytest.mark.slow

FILES = ("scores", "selected", "selected.de", "selected.en", "rejects.jsonl")


GREEK = str.maketrans(
    dict(zip("abcdefghijklmnopqrstuvwxyz", "αβκδεφγηιικλμνοπκρστυβωξυζ", strict=True))
)


def backwards(text):
    """What passes for a translation into a language with other letters."""
    return " ".join(reversed(text.split())).translate(GREEK)


@pytest.fixture
def pairs(tmp_path):
    """Two line-aligned files of three topics, with two rows that cannot be used."""
    texts = [t for topic in ("task", "market", "kitchen") for t in prose(topic, 60, seed=3)]
    others = list(map(backwards, texts))
    others[7], texts[100] = "", " "
    (tmp_path / "all.de").write_text("".join(f"{t}\n" for t in texts))
    (tmp_path / "all.en").write_text("".join(f"{t}\n" for t in others))
    return f"pair:{tmp_path}/all.de,{tmp_path}/all.en"


@pytest.fixture
def run(task, pairs, tmp_path, inline):
    """`select` by words over the pairs, in this process."""

    def run(out="out", shard_mb=0.01, **words):
        given = {"target": task, "corpus": pairs, "method": "moore_lewis", "fraction": 0.2, **words}
        settings = [f"read.shard_mb={shard_mb}"]
        return corpusfit.select(
            out=tmp_path / out, **{"machine": inline, "settings": settings} | given
        )

    return run


def aligned(folder):
    return [(folder / f"selected.{side}").read_text().splitlines() for side in ("de", "en")]


def test_what_is_selected_comes_with_its_translation(run, tmp_path):
    selection = run(fraction_of="segments")
    rows = list(selection)
    counts = selection.manifest["counts"]
    assert (counts["rows"], counts["documents"], counts["segments"]) == (180, 178, 178)
    assert [(r["row"], r["reason"]) for r in rejects(tmp_path / "out")] == [
        (7, "translation is empty"),
        (100, "text is empty"),
    ]
    assert len(rows) == 36
    assert sum(row["row"] < 60 for row in rows) >= 34  # the task's topic
    everything = (tmp_path / "all.de").read_text().split("\n")
    for row in rows:
        assert row["text"] == everything[row["row"]]
        assert row["translation"] == backwards(row["text"])
    assert selection.manifest["selected"]["aligned"] == ["selected.de", "selected.en"]
    assert aligned(tmp_path / "out") == [
        [r["text"] for r in rows],
        [r["translation"] for r in rows],
    ]


def test_another_choice_replaces_the_pairs(run, tmp_path, inline):
    first = run()
    chosen = corpusfit.choose(first.path, segments=5, machine=inline)
    texts, translations = aligned(first.path)
    assert texts == [row["text"] for row in chosen]
    assert translations == list(map(backwards, texts))
    assert len(texts) == 5
    corpusfit.choose(first.path, fraction=0.2, machine=inline)
    assert digests(first.path, *FILES) == digests(run("again").path, *FILES)


def test_a_line_is_one_segment_however_long(run, tmp_path):
    (tmp_path / "all.de").write_text("a kinase binds. " * 4000 + "\n")
    (tmp_path / "all.en").write_text("binds kinase a\n")
    (row,) = run(fraction=1.0)
    assert (row["segment"], len(row["text"])) == (0, 64_000)
    with pytest.raises(UsageError, match=r"`cut\.unit.*document.*'sentence'"):
        run("other", unit="sentence")


@pytest.mark.parametrize("form", ["gz", "tsv"])
def test_the_form_of_the_files_does_not_matter(run, tmp_path, form):
    whole = run()
    sides = [(tmp_path / f"all.{side}").read_text() for side in ("de", "en")]
    if form == "gz":
        for side, text in zip(("de", "en"), sides, strict=True):
            (tmp_path / f"z.{side}.gz").write_bytes(gzip.compress(text.encode()))
        given = f"pair:{tmp_path}/z.de.gz,{tmp_path}/z.en.gz"
    else:
        rows = zip(*(text.split("\n")[:-1] for text in sides), strict=True)
        (tmp_path / "z.tsv").write_text("de\ten\n" + "".join(f"{a}\t{b}\n" for a, b in rows))
        given = f"pair:{tmp_path}/z.tsv:de,en"
    again = run("again", corpus=given)
    assert aligned(again.path) == aligned(whole.path)
    keys = ("text", "translation", "row", "segment", "score")
    assert [[r[k] for k in keys] for r in again] == [[r[k] for k in keys] for r in whole]


def test_the_target_may_be_a_side_of_pairs(run, task, tmp_path):
    texts = prose("task", 40)
    (tmp_path / "t.de").write_text("".join(f"{t}\n" for t in texts))
    (tmp_path / "t.en").write_text("x\n" * 40)
    as_pairs = run("as-pairs", target=f"pair:{tmp_path}/t.de,{tmp_path}/t.en")
    assert digests(as_pairs.path, *FILES) == digests(run().path, *FILES)


def test_unequal_files_are_found_out_before_anything_is_written(run, tmp_path):
    with (tmp_path / "all.en").open("a") as file:
        file.write("one more\n")
    with pytest.raises(InputError, match=r"all\.de.*180.*181"):
        run()
    assert not (tmp_path / "out").exists()


def test_a_changed_translation_is_noticed(run, tmp_path, inline):
    out = run().path
    text = (tmp_path / "all.en").read_text()
    (tmp_path / "all.en").write_text(text.replace("kinase".translate(GREEK), "KINASE"))
    with pytest.raises(ChangedInputError, match=r"all\.de"):
        corpusfit.choose(out, segments=3, machine=inline)
    with pytest.raises(ChangedInputError, match=r"all\.de"):
        run()


def test_pairs_of_several_parts_are_joined_in_order_and_again_after_a_stop(run, monkeypatch):
    whole = digests(run().path, "selected.de", "selected.en")
    settings = ["read.shard_mb=0.002", "choose.part_mb=0.001"]
    monkeypatch.setattr(writing.shutil, "copyfileobj", None)
    with pytest.raises(TypeError):
        run("parts", settings=settings)
    monkeypatch.undo()
    parts = run("parts", settings=settings).path
    assert len(list((parts / "selected").iterdir())) > 3
    assert digests(parts, "selected.de", "selected.en") == whole
    assert not (parts / ".corpusfit/pieces").exists()


def test_the_command_that_makes_it_again(run, pairs, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    repeat = run(corpus="pair:all.de,all.en").manifest["repeat"]
    assert pairs in repeat
    assert any(word.startswith("cut.unit=") and "document" in word for word in repeat)


@pytest.mark.slow
def test_any_number_of_workers_and_a_kill_give_the_same_bytes(run, task, pairs, tmp_path, start):
    whole = digests(run(shard_mb=0.002).path, *FILES)
    assert whole.keys() >= {"selected.de", "selected.en"}
    two = run("with 2", shard_mb=0.002, machine=Machine(workers=2))
    assert digests(two.path, *FILES) == whole
    out = tmp_path / "killed"
    words = (
        "--method",
        "moore_lewis",
        "--fraction",
        0.2,
        "--set",
        "read.shard_mb=0.002",
        "--no-report",
    )
    process = start(
        "select", "--target", task, "--corpus", pairs, "--out", out, "--workers", 1, *words
    )
    assert kill_at(process, out, "scores/part-*.parquet", 1)
    assert digests(run("killed", shard_mb=0.002).path, *FILES) == whole
