"""The document: data cannot act, and the content-security policy allows its two scripts only."""

import base64
import csv
import hashlib
import html
import json
import re
import sys

import pytest

from corpusfit.core.errors import MissingDependencyError
from corpusfit.reporting import page as of_page
from corpusfit.reporting.page import page
from corpusfit.reporting.part import Part, Sheet
from corpusfit.reporting.writing import write_figures

HOSTILE = "</script><script>bad()</script><!--<script><img src=x onerror=bad()>\u2028\u202egnp.exe"


class FakeLibrary:
    """In the place of vl-convert, whose bundling takes a second."""

    __version__ = "1.2"

    @staticmethod
    def javascript_bundle(_):
        return "vega"


def section(sheet, text="x"):
    """A section with a text in each place that shows one."""
    manifest = {"repeat": ["corpusfit", text], "plan": {text: text}}
    charts, data = {"loss": {"title": text}}, {"examples": [{"text": text}]}
    sheets, steps = {"models": sheet}, [(text, ["corpusfit", text])]
    return Part("training", "one", text, [text], charts, sheets, manifest, data, steps)


def document(text):
    sheet = Sheet(text, [text, "n"], [(text, 1), (text, 2.5)], [text])
    return page(text, [section(sheet, text)])


def test_hostile_text_stays_text():
    shown = document(HOSTILE)
    outside = re.sub(r"<(script|style)\b.*?</\1>", "", shown, flags=re.S)
    assert "<img" not in outside
    assert "bad()</script>" not in shown
    assert outside.count("&lt;img") == 16  # each place of `section` and `document`
    assert "\u202e" not in outside
    assert shown.count("<script") == shown.count("</script>") == 3
    block = re.search(r'<script type="application/json" id="data">(.*?)</script>', shown, re.S)[1]
    assert json.loads(block)["runs"]["one"]["examples"][0]["text"] == HOSTILE
    assert "<" not in block


def test_the_cache_that_is_named_keeps_the_library(monkeypatch, tmp_path):
    monkeypatch.setenv("CORPUSFIT_CACHE", str(tmp_path))
    monkeypatch.setattr(of_page, "_library", lambda: FakeLibrary)
    bundle = of_page.script.__wrapped__
    assert bundle() == bundle() == "vega"
    assert [path.name for path in tmp_path.iterdir()] == ["vega-1.2.js"]


def test_policy_allows_both_scripts_by_digest():
    shown = document("x")
    policy = html.unescape(re.search(r'Content-Security-Policy" content="(.*?)"', shown)[1])
    scripts = re.findall(r'<script type="module">(.*?)</script>', shown, re.S)
    digests = [base64.b64encode(hashlib.sha256(s.encode()).digest()).decode() for s in scripts]
    allowed = dict(rule.split(" ", 1) for rule in policy.split("; "))
    assert allowed["script-src"].split() == [f"'sha256-{d}'" for d in digests]
    assert allowed["default-src"] == "'none'"
    assert "unsafe-eval" not in policy


def test_lone_surrogate_can_be_written():
    assert document("a\ud800b").encode("utf-8", "replace")


def test_without_jinja_the_message_names_the_extra(monkeypatch):
    of_page._templates.cache_clear()
    monkeypatch.setitem(sys.modules, "jinja2", None)
    with pytest.raises(MissingDependencyError, match=r"corpusfit\[report\]"):
        document("x")


def test_numbers_are_right_aligned_and_words_left_aligned():
    rows = [("a", 1234567), ("b", None), ("c", 0.123456), (True, 0)]
    shown = page("t", [section(Sheet("c", ["name", "n"], rows))])
    assert '<td>a</td><td class="n">1,234,567</td>' in shown
    assert '<td class="n">–</td>' in shown
    assert '<td class="n">0.1235</td>' in shown
    assert "<td>yes</td>" in shown


def test_bidirectional_controls_are_shown():
    assert "<h1>a⟨U+202E⟩b&lt;</h1>" in page("a\u202eb<", [])


def test_csv_cells_are_no_formulas(tmp_path):
    sheet = Sheet("c", ["=1+1", "n"], [("@sum", -1.5), ("-2+3", 2), ("plain", None)])
    left = tmp_path / "one-t.csv.0123456789ab.part"  # by a killed process
    left.write_bytes(b"")
    write_figures([Part("training", "one", "t", [], {}, {"t": sheet})], tmp_path)
    assert not left.exists()
    with (tmp_path / "one-t.csv").open() as f:
        assert list(csv.reader(f)) == [
            ["'=1+1", "n"],
            ["'@sum", "-1.5"],
            ["'-2+3", "2"],
            ["plain", ""],
        ]
