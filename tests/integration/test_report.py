"""Reports: what a run leaves at its end, what it shows, figures, and a run made again."""

import csv
import html
import itertools
import json
import re
import shlex
import shutil

import pytest
from journeys import digests

import corpusfit
from corpusfit.core.artifacts import folder_path
from corpusfit.reporting import selected
from corpusfit.reporting.selected import selected_part


@pytest.fixture
def chosen(task, pile, tmp_path, inline):
    """A selection."""
    return corpusfit.select(
        target=task, corpus=pile, out=tmp_path / "out", method="moore_lewis", fraction=0.3,
        settings=("cut.pieces=16", "read.shard_mb=0.01"), machine=inline,
    )  # fmt: skip


def texts_of(page):
    """The examples of a page by their headings: place, score and text."""
    shown = {}
    for heading, words in re.findall(r"<h4>(.*?)</h4>(.*?)(?=<h[34]>)", page, re.S):
        found = r'<bdi>(.*?)</bdi>, score (.*?)</p>\s*<p class="text" dir="auto">(.*?)</p>'
        shown[heading] = [
            (html.unescape(place), float(score.replace(",", "")), html.unescape(text))
            for place, score, text in re.findall(found, words, re.S)
        ]
    return shown


def test_select_and_choose_end_with_a_report_unless_told_not_to(cli, task, pile, tmp_path):
    out = tmp_path / "out"
    words = ("--target", task, "--corpus", pile, "--out", out, "--method", "moore_lewis")
    assert cli("select", *words, "--no-report").code == 0
    assert not (out / "report.html").exists()
    done = cli("select", *words)
    assert f"Report: {out / 'report.html'}" in done.err
    first = (out / "report.html").read_bytes()
    done = cli("choose", out, "--fraction", "50%", "--no-report")
    assert not (out / "report.html").exists()  # it told of another choice
    assert "report showed another result and is removed" in done.err
    cli("choose", out, "--fraction", "0.5")
    assert (out / "report.html").read_bytes() != first
    cli("choose", out, "--fraction", "0.1")
    assert (out / "report.html").stat().st_size < 100_000


def test_without_the_library_a_run_still_ends_well(cli, task, pile, tmp_path, monkeypatch):
    from corpusfit.reporting import writing

    writing._templates.cache_clear()
    monkeypatch.setitem(__import__("sys").modules, "jinja2", None)
    words = ("--target", task, "--corpus", pile, "--method", "moore_lewis")
    done = cli("select", *words, "--out", tmp_path / "out")
    assert done.code == 0
    assert "corpusfit[report]" in done.err
    assert cli("report", tmp_path / "out").code != 0


def test_its_files_have_what_the_run_counted(chosen, cli, tmp_path):
    figures = tmp_path / "figures"
    done = cli("report", chosen.path, "--figures", figures, "--json")
    page = chosen.path / "report.html"
    assert json.loads(done.out) == {"report": str(page), "figures": str(figures)}
    taken = chosen.manifest["selected"]
    sheets = {
        p.stem: list(csv.DictReader(p.read_text("utf-8").splitlines()))
        for p in figures.glob("*.csv")
    }
    of_source = {row["source"]: int(row["selected"]) for row in sheets["selection-sources"]}
    assert of_source == {name: n["selected"] for name, n in taken["by_source"].items()}
    svgs = {p.stem: p.read_text("utf-8") for p in figures.glob("*.svg")}
    assert set(svgs) == {"selection-scores", "selection-shares"}
    assert all(svg in page.read_text("utf-8") for svg in svgs.values())
    bars = re.findall(r": ([\d,]+) segments</title>", svgs["selection-scores"])
    counted = sum(int(bar.replace(",", "")) for bar in bars)
    assert counted == chosen.manifest["counts"]["segments"]


def place_of(row):
    """As the report shows it, and `explain --row` takes it."""
    return f"{row['source']}:{row['row']}:{row['segment']}"


def test_the_texts_are_the_head_a_sample_and_both_sides_of_the_threshold(jsonl, tmp_path, inline):
    """By words: half of them are in few long texts, which are seldom drawn by the text."""
    topic = "kinase receptor binds the protein of a cell"
    short = [f"{topic} {i}" for i in range(900)]
    long = [" ".join([topic, str(i)] * 100) for i in range(9)]
    jsonl("pile/short.jsonl", short)
    jsonl("pile/long.jsonl", long)
    run = corpusfit.select(
        target=jsonl("task.jsonl", short[:100]), corpus=tmp_path / "pile", out=tmp_path / "out",
        method="random", fraction=0.9, settings=("cut.unit=document",), machine=inline,
    )  # fmt: skip
    head, sample, last, below = texts_of(corpusfit.report(run.path).read_text("utf-8")).values()
    assert len(sample) == 9
    assert 2 <= sum(place.startswith("long.jsonl") for place, *_ in sample) <= 7
    segments = [row for part in run.scores() for row in part.to_pylist()]
    segments.sort(key=lambda row: -row["score"])
    assert [place for place, *_ in head] == [place_of(r) for r in segments[:3]]
    threshold = run.manifest["selected"]["threshold"]
    assert all(a[1] >= b[1] for a, b in itertools.pairwise(head + last + below))
    assert last[-1][1] == pytest.approx(threshold, rel=0.01)
    selected = {place_of(r) for r in segments if r["selected"]}
    assert {place for place, *_ in head + sample + last} <= selected
    assert not {place for place, *_ in below} & selected


def test_sources_are_told_in_words(task, pile, tmp_path, inline):
    run = corpusfit.select(
        target=task, corpus=pile, out=tmp_path / "out", method="moore_lewis", machine=inline,
        fraction=0.1,
    )  # fmt: skip
    counted = run.manifest["selected"]["by_source"]
    words = html.unescape(corpusfit.report(run.path).read_text("utf-8"))
    whole = [sum(n[which] for n in counted.values()) for which in ("tokens", "of_tokens")]
    name, largest = max(counted.items(), key=lambda item: item[1]["tokens"])
    of_it, of_corpus = (
        f"{100 * largest[which] / n:.0f} %"
        for which, n in zip(("tokens", "of_tokens"), whole, strict=True)
    )
    assert re.search(f"{of_it}.{{,40}}{re.escape(name)}.{{,40}}{of_corpus}", words)


def test_the_same_page_twice(chosen):
    first = corpusfit.report(chosen.path).read_bytes()
    assert corpusfit.report(chosen.path).read_bytes() == first


def test_the_command_on_the_page_makes_the_run_again(chosen, cli, tmp_path):
    folder = chosen.path
    page = corpusfit.report(folder).read_text("utf-8")
    line = re.search(r'<pre id="command-selection">(.*?)</pre>', page, re.S)[1]
    words = shlex.split(html.unescape(line).replace("AGAIN", str(tmp_path / "again")))
    assert words[0] == "corpusfit"
    assert cli(*words[1:]).code == 0
    assert digests(tmp_path / "again") == digests(folder)


@pytest.mark.parametrize(
    "words", [{"policy": "resample", "fraction": 0.2}, {"threshold": 1e9}], ids=str
)
def test_without_a_cut_nothing_is_just_below_it(task, pile, tmp_path, inline, words):
    run = corpusfit.select(
        target=task, corpus=pile, out=tmp_path / "out", method="moore_lewis", machine=inline,
        **words,
    )  # fmt: skip
    page = corpusfit.report(run.path).read_text("utf-8")
    assert not [heading for heading in texts_of(page) if "Not selected" in heading]
    assert page.count("<svg") == 2


def test_of_a_selection_by_embeddings_no_text_is_encoded_again(task, pile, tmp_path, inline, tiny_static):  # fmt: skip  # noqa: E501
    """A choice and its page need no encoder, so it may have gone."""
    encoder = tmp_path / "encoder"
    shutil.copytree(tiny_static, encoder)
    run = corpusfit.select(
        target=task, corpus=pile, out=tmp_path / "out", method="knn", embedder=encoder,
        fraction=0.2, machine=inline,
    )  # fmt: skip
    shutil.rmtree(encoder)
    again = corpusfit.choose(run.path, fraction=0.5, machine=inline)
    assert again.manifest["warnings"] == run.manifest["warnings"]
    assert corpusfit.report(run.path).exists()


def test_a_run_in_a_store_has_its_report_there(cli, task, pile):
    words = ("--target", task, "--corpus", pile, "--method", "moore_lewis")
    done = cli("select", *words, "--out", "memory://told/out")
    assert done.code == 0, done.err
    page = folder_path("memory://told/out/report.html", "the page")
    assert f"Report: {page}" in done.err
    assert page.read_bytes()


def test_inputs_are_named_so_that_they_mean_the_same_elsewhere(task, pile, inline, monkeypatch):
    monkeypatch.chdir(pile.parent)
    words = {"method": "moore_lewis", "fraction": 0.2, "machine": inline}
    run = corpusfit.select(target="task.jsonl", corpus="pile/*.jsonl", out="out", **words)
    out, elsewhere = run.path.absolute(), pile.parent / "elsewhere"
    (elsewhere / "pile").mkdir(parents=True)
    monkeypatch.chdir(elsewhere)
    again = corpusfit.choose(out, fraction=0.1, machine=inline)
    named = [word for word in again.manifest["repeat"] if "jsonl" in word]
    assert named == [str(task), str(pile / "*.jsonl")]


def test_nothing_to_show(cli, tmp_path):
    done = cli("report", tmp_path)
    assert done.code != 0
    assert done.err.startswith("Error: ")
    assert "Traceback" not in done.err


def test_the_selection_is_counted_by_the_columns_that_it_keeps(tmp_path, inline, monkeypatch):
    """A URL counts by its host; a column with more values than can be read is no table."""
    rows = [
        {
            "text": f"the train number {i} is late",
            "url": f"https://{'ab'[i % 2]}.org/{i}",
            "number": i,
        }
        for i in range(1_200)
    ]
    run = corpusfit.select(
        ["a late train"], rows, out=tmp_path / "out", method="random", fraction=1.0,
        keep=["url", "number"], machine=inline,
    )  # fmt: skip
    sheets = selected_part(run.path, run.manifest).sheets
    assert [name for name in sheets if name.startswith("column")] == ["column url"]
    counted = {value: texts for value, texts, *_ in sheets["column url"].rows}
    assert counted == {"a.org": 600, "b.org": 600}
    monkeypatch.setattr(selected, "_MOST_TEXTS", 1_199)  # more are not read once more
    assert "column url" not in selected_part(run.path, run.manifest).sheets
