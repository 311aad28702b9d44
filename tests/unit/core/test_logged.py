"""A call in Python warns by `warnings` and logs by `logging`; it prints nothing."""

import dataclasses
import logging
import sys
import types

import pytest

import corpusfit
from corpusfit.core.engine import logged
from listening import Listening


@pytest.fixture
def select(jsonl, tmp_path, inline):
    """A selection with a warning: the target's texts stand in the corpus."""
    texts = [f"the kinase number {i} binds a receptor of the cell" for i in range(40)]
    target = jsonl("target.jsonl", [*texts[:20], ""])
    corpus = jsonl("corpus.jsonl", [*texts, *(f"shares fell by {i} per cent" for i in range(40))])

    def select(**words):
        given = {"method": "dsir", "fraction": 0.2, "machine": inline, **words}
        return corpusfit.select(target=target, corpus=corpus, out=tmp_path / "out", **given)

    return select


def test_warnings_name_the_callers_line_and_notes_are_logged(select, caplog, capsys):
    with caplog.at_level(logging.INFO, logger="corpusfit"), pytest.warns() as caught:
        select()
    assert {w.category for w in caught} == {corpusfit.CorpusfitWarning}
    assert {w.filename for w in caught} == {__file__}
    lines = [record.getMessage() for record in caplog.records]
    assert {record.name for record in caplog.records} == {"corpusfit"}
    assert sum("done after" in line for line in lines) >= 2
    assert capsys.readouterr() == ("", "")


def test_quiet_by_default_and_a_progress_of_ones_own_gets_everything(select, inline, capsys):
    kept = Listening()
    select(machine=dataclasses.replace(inline, progress=kept))
    assert kept.warnings
    assert kept.stages
    assert capsys.readouterr() == ("", "")


@pytest.fixture
def notebook(monkeypatch):
    """What a notebook shows in each of its places, in their order: the last form of each."""
    places = []

    class Handle:
        def __init__(self, shown):
            self.number = len(places)
            places.append([shown])

        def update(self, shown, *, raw):
            assert raw
            places[self.number].append(shown)

    def display(shown, *, raw, display_id):
        assert raw
        assert display_id
        return Handle(shown)

    kernel = types.SimpleNamespace(config={"IPKernelApp": {}})
    fake = types.SimpleNamespace(get_ipython=lambda: kernel, version_info=(9,))
    monkeypatch.setitem(sys.modules, "IPython", fake)
    monkeypatch.setitem(sys.modules, "IPython.display", types.SimpleNamespace(display=display))
    monkeypatch.setattr(logged, "_EVERY", 0)
    return places


def test_a_notebook_shows_a_bar_for_each_stage(select, notebook, capsys):
    with pytest.warns(corpusfit.CorpusfitWarning):
        select()
    assert capsys.readouterr() == ("", "")
    lasts = [forms[-1] for forms in notebook]
    full = [last["text/plain"].split(":")[0] for last in lasts if "100%" in last["text/plain"]]
    assert {"Scoring the corpus", "Writing the text"} <= set(full)
    assert all('<progress value="1.0">' in x["text/html"] for x in lasts if "100%" in str(x))


def test_a_notebook_shows_notes(notebook):
    logged.Bars().note("a < b\n  c")
    assert notebook == [[{"text/plain": "a < b\n  c", "text/html": "<pre>a &lt; b\n  c</pre>"}]]


def test_a_bar_of_unknown_length_claims_no_share(notebook):
    bars = logged.Bars()
    with bars.showing("read", 0):
        bars.advance(0, 10)
    with bars.showing("score", 4):
        bars.advance(2)
    unknown, known = ([form["text/plain"] for form in forms] for forms in notebook)
    assert not any("%" in line for line in unknown)
    assert ["50%" in line for line in known] == [False, True, False]
    assert "100%" in known[-1]
