"""Reports: what a run leaves at its end, several side by side, figures, and a run made again."""

import csv
import html
import itertools
import json
import re
import shlex
import shutil

import numpy as np
import pytest
from journeys import digests

import corpusfit
from corpusfit.core.artifacts import folder_path
from corpusfit.reporting.distribution import spread_of
from corpusfit.selection.folder import SelectionFolder
from corpusfit.selection.spread import read_spread


def data_of(page):
    """What the page's script reads."""
    return json.loads(re.search(r'id="data">(.*?)</script>', page.read_text("utf-8"), re.S)[1])


@pytest.fixture
def chosen(task, pile, tmp_path, inline):
    """Selections by some methods, each in its folder below one."""

    def select(*methods):
        for method in methods:
            corpusfit.select(
                target=task, corpus=pile, out=tmp_path / "runs" / method, method=method,
                fraction=0.3, settings=("cut.pieces=16", "read.shard_mb=0.01"), machine=inline,
            )  # fmt: skip
        return tmp_path / "runs"

    return select


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
    assert (out / "report.html").stat().st_size < 6_000_000


def test_without_the_library_a_run_still_ends_well(cli, task, pile, tmp_path, monkeypatch):
    from corpusfit.reporting import page

    page.script.cache_clear()
    monkeypatch.setitem(__import__("sys").modules, "vl_convert", None)
    words = ("--target", task, "--corpus", pile, "--method", "moore_lewis")
    done = cli("select", *words, "--out", tmp_path / "out")
    assert done.code == 0
    assert "corpusfit[report]" in done.err
    assert cli("report", tmp_path / "out").code != 0


def test_what_it_shows_is_what_the_run_counted(chosen, inline):
    folder = chosen("moore_lewis") / "moore_lewis"
    manifest = json.loads((folder / "manifest.json").read_text())
    run = data_of(corpusfit.report(folder))["runs"]["selection-1"]
    own, taken = run["cuts"]["own"], manifest["selected"]
    assert run["cuts"]["segments"][own] == taken["segments"]
    assert run["cuts"]["tokens"][own] == taken["tokens"]
    assert run["cuts"]["threshold"][own] == pytest.approx(taken["threshold"])
    names = [source["name"] for source in run["sources"]]
    of_source = dict(zip(names, run["cuts"]["by_source"][own], strict=True))
    assert of_source == {name: n["selected"] for name, n in taken["by_source"].items()}
    words = dict(zip(names, run["cuts"]["words_by_source"][own], strict=True))
    assert words == {name: n["tokens"] for name, n in taken["by_source"].items()}
    of_corpus = {source["name"]: source["tokens"] for source in run["sources"]}
    assert of_corpus == {name: n["of_tokens"] for name, n in taken["by_source"].items()}
    assert sum(map(sum, run["scores"]["sources"])) == manifest["counts"]["segments"]
    chosen_scores = [e["score"] for e in run["examples"] if e["selected"]]
    assert min(chosen_scores) >= taken["threshold"]
    assert all(e["score"] < taken["threshold"] for e in run["examples"] if not e["selected"])
    assert any(e["effects"] for e in run["examples"])


@pytest.mark.parametrize("words", [{}, {"weights": "resample"}, {"threshold": 1e9}], ids=str)
def test_workers_count_what_the_scores_say(task, pile, tmp_path, inline, words):
    """A run of version 0.1 has no counts; of one the page is made from its scores."""
    run = corpusfit.select(
        target=task, corpus=pile, out=tmp_path / "out", method="moore_lewis", machine=inline,
        settings=("read.shard_mb=0.01",), **words,
    )  # fmt: skip
    spread = SelectionFolder(run.path).spread
    assert spread.exists()
    names = [source["name"] for source in run.manifest["corpus"]]
    threshold = run.manifest["selected"]["threshold"]
    stored = read_spread(spread)
    counted = spread_of(SelectionFolder(run.path).scores, names, seed=0, threshold=threshold)
    assert stored.sources == counted.sources
    for name, values in vars(counted).items():
        np.testing.assert_array_equal(getattr(stored, name), values, name)
    before = data_of(corpusfit.report(run.path))["runs"]
    spread.unlink()
    if threshold is not None and "weights" not in words:
        assert data_of(corpusfit.report(run.path))["runs"] == before


def test_the_first_texts_are_a_sample_of_the_selection(jsonl, tmp_path, inline):
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
    page = corpusfit.report(run.path)
    shown = data_of(page)["runs"]["selection-1"]
    sample = [shown["examples"][i] for i in shown["sample"]]
    assert len(sample) == 9
    assert all(example["selected"] for example in sample)
    assert 2 <= sum(example["source"] == "long.jsonl" for example in sample) <= 7
    excerpts = re.findall(r'<p class="text" dir="auto">(.*?)</p>', page.read_text("utf-8"))
    places = [*shown["head"], *shown["last"], *shown["below"], *shown["sample"]]
    assert [shown["examples"][i]["text"][:100] for i in places] == [t[:100] for t in excerpts[:18]]
    # before it the very best by score, the lowest selected examples, and the next ones below
    segments = sorted((row for part in run.scores() for row in part.to_pylist()), key=by_score)
    best = [(row["source"], row["row"]) for row in segments[:3]]
    head, last, below = (
        [shown["examples"][i] for i in shown[name]] for name in ("head", "last", "below")
    )
    assert [(e["source"], e["row"]) for e in head] == best
    threshold = run.manifest["selected"]["threshold"]
    assert all(a["score"] >= b["score"] >= threshold for a, b in itertools.pairwise(head + last))
    assert all(e["score"] < threshold and not e["selected"] for e in below)
    assert max(e["score"] for e in shown["examples"] if not e["selected"]) == below[0]["score"]


def by_score(row):
    return -row["score"]


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
    folder = chosen("moore_lewis", "dsir")
    first = corpusfit.report(folder).read_bytes()
    assert corpusfit.report(folder).read_bytes() == first


@pytest.mark.slow
def test_side_by_side_with_figures(cli, chosen, tmp_path):
    folder = chosen("moore_lewis", "random")
    figures, page = tmp_path / "figures", tmp_path / "both.html"
    runs = (folder / "moore_lewis", folder / "random")
    done = cli("report", *runs, "--out", page, "--figures", figures, "--json")
    assert json.loads(done.out) == {"report": str(page), "figures": str(figures)}
    shown = data_of(page)
    assert set(shown["runs"]) == {"selection-1", "selection-2"}
    for chart in shown["charts"]:
        assert (figures / f"{chart}.svg").read_text().startswith("<svg")
        assert (figures / f"{chart}.png").read_bytes().startswith(b"\x89PNG")
    with (figures / "selection-1-scores.csv").open() as f:
        counted = sum(int(row["segments"]) for row in csv.DictReader(f))
    assert counted == sum(source["segments"] for source in shown["runs"]["selection-1"]["sources"])
    assert {f"{chart}.csv" for chart in shown["charts"]} <= {p.name for p in figures.iterdir()}
    with (figures / "beside-overlap.csv").open() as f:
        rows = list(csv.DictReader(f))
    assert rows[0]["share of its segments in the other"] == "1.0"
    with (figures / "selection-1-examples.csv").open() as f:
        stored = {(r["source"], r["row"], r["segment"]): r for r in csv.DictReader(f)}
    for example in shown["runs"]["selection-1"]["examples"]:
        place = (example["source"], str(example["row"]), str(example["segment"]))
        assert float(stored[place]["score"]) == example["score"]


def test_the_command_on_the_page_makes_the_run_again(chosen, cli, tmp_path):
    folder = chosen("moore_lewis") / "moore_lewis"
    page = corpusfit.report(folder).read_text("utf-8")
    line = re.search(r'<pre id="command-selection-1">(.*?)</pre>', page, re.S)[1]
    words = shlex.split(html.unescape(line).replace("AGAIN", str(tmp_path / "again")))
    assert words[0] == "corpusfit"
    assert cli(*words[1:]).code == 0
    assert digests(tmp_path / "again") == digests(folder)


@pytest.mark.slow
def test_a_page_stays_under_its_size(jsonl, tmp_path, inline):
    """Of long texts whose characters take three bytes each, under the longest of names."""
    name = "語" * 80
    texts = ["\u8a9e\u6587" * 1_500 + f" {i}" for i in range(1_000)]
    jsonl(f"pile/{name}.jsonl", texts)
    corpusfit.select(
        target=jsonl("task.jsonl", texts[:300]), corpus=tmp_path / "pile",
        out=tmp_path / "runs" / name, method="dsir", fraction=0.3, machine=inline,
    )  # fmt: skip
    for copies, shown in ((1, 1), (45, 40)):
        for i in range(1, copies):
            shutil.copytree(tmp_path / "runs" / name, tmp_path / "runs" / f"{name}{i}")
        page = corpusfit.report(tmp_path / "runs")
        assert page.stat().st_size < 6_000_000
        runs = data_of(page)["runs"]
        assert len(runs) == shown
        assert all(run["examples"] for run in runs.values())


def test_without_a_cut_there_is_none_of_its_own(task, pile, tmp_path, inline):
    for policy, words in (("resample", {"fraction": 0.2}), ("top", {"threshold": 1e9})):
        run = corpusfit.select(
            target=task, corpus=pile, out=tmp_path / policy, method="moore_lewis",
            weights=policy, machine=inline, **words,
        )  # fmt: skip
        shown = data_of(corpusfit.report(run.path))["runs"]["selection-1"]
        assert shown["cuts"]["own"] is None
        taken = {n: of["selected"] for n, of in run.manifest["selected"]["by_source"].items()}
        assert {s["name"]: s["selected"] for s in shown["sources"]} == taken


def test_what_a_cascade_dropped_has_no_effects_of_its_last_stage(task, pile, tmp_path, inline):
    run = corpusfit.select(
        target=task, corpus=pile, out=tmp_path / "out", cascade="random:0.5>moore_lewis",
        fraction=0.1, machine=inline,
    )  # fmt: skip
    examples = data_of(corpusfit.report(run.path))["runs"]["selection-1"]["examples"]
    assert {e["stage"] for e in examples} == {1, 2}
    assert not any(e["effects"] for e in examples if e["stage"] == 1)
    assert any(e["effects"] for e in examples if e["stage"] == 2)


def test_choosing_again_needs_no_encoder(task, pile, tmp_path, inline, tiny_static):
    """Where it has gone, examples go by their words, with a warning."""
    encoder = tmp_path / "encoder"
    shutil.copytree(tiny_static, encoder)
    run = corpusfit.select(
        target=task, corpus=pile, out=tmp_path / "out", method="knn", embedder=encoder,
        fraction=0.2, machine=inline,
    )  # fmt: skip
    assert data_of(corpusfit.report(run.path))["runs"]["selection-1"]["by"] == "embedding"
    shutil.rmtree(encoder)
    again = corpusfit.choose(run.path, fraction=0.5, machine=inline)
    assert again.manifest["selected"]["segments"] > run.manifest["selected"]["segments"]
    assert "TF-IDF" in again.manifest["warnings"][-1]
    assert data_of(corpusfit.report(run.path))["runs"]["selection-1"]["by"] == "words"


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
