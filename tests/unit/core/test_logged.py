"""A call in Python warns by `warnings` and logs by `logging`; it prints nothing."""

import dataclasses
import logging
import sys
import types

import pytest

import corpusfit
from corpusfit.core.engine.logged import Bars
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


def test_a_notebook_shows_a_bar_for_each_stage(select, monkeypatch, capsys):
    kernel = types.SimpleNamespace(config={"IPKernelApp": {}})
    fake = types.SimpleNamespace(get_ipython=lambda: kernel, version_info=(9,))
    monkeypatch.setitem(sys.modules, "IPython", fake)
    with pytest.warns(corpusfit.CorpusfitWarning):
        select()
    shown = capsys.readouterr()
    assert shown.out == ""
    full = [line for line in shown.err.splitlines() if ": 100 %|" in line]
    assert {line.split(":")[0] for line in full} >= {"Scoring the corpus", "Writing the text"}


def test_a_bar_of_unknown_length_claims_no_share(capsys):
    bars = Bars()
    with bars.showing("read", 0):
        bars.advance(0, 10)
    with bars.showing("score", 4):
        bars.advance(2)
    err = capsys.readouterr().err
    lines = {
        name: [x for x in err.replace("\r", "\n").splitlines() if name in x]
        for name in ("Reading", "Scoring")
    }
    assert lines["Reading"]
    assert not any("%" in line for line in lines["Reading"])
    assert any(" 100 %" in line for line in lines["Scoring"])
