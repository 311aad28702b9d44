"""The document: data cannot act, and the content-security policy allows no script."""

import csv
import html
import re
import sys
from html.parser import HTMLParser

import pytest

from corpusfit.core.errors import MissingDependencyError
from corpusfit.reporting import writing
from corpusfit.reporting.charts import gains_chart
from corpusfit.reporting.part import Example, Part, Sheet
from corpusfit.reporting.writing import page, write_figures

HOSTILE = "</script><script>bad()</script><!--<script><img src=x onerror=bad()>\u2028\u202egnp.exe"


def section(sheet, text="x"):
    """A section with a text in each place that shows one."""
    manifest = {"repeat": ["corpusfit", text], "plan": {text: text}}
    charts = {"scores": (gains_chart({text: (1.0, 0.0, 2.0)}, text, text), text)}
    texts = {(text, text): [Example(text, 1.0, text)]}
    sheets, steps = {"read": sheet}, [(text, ["corpusfit", text])]
    return Part("selection", text, [text, text], manifest, charts, sheets, texts, steps)


def document(text):
    sheet = Sheet(text, [text, "n"], [(text, 1), (text, 2.5)], [text])
    return page(text, [section(sheet, text)])


class Elements(HTMLParser):
    """The elements of a page; fails where one is closed that is not the last opened."""

    def __init__(self, page):
        super().__init__()
        self.open, self.seen, self.attributes = [], [], []
        self.feed(page)
        assert self.open == []

    def handle_starttag(self, name, attributes):
        self.seen.append(name)
        self.attributes += [key for key, _ in attributes]
        if name not in ("meta", "br"):
            self.open.append(name)

    def handle_startendtag(self, name, attributes):
        self.seen.append(name)

    def handle_endtag(self, name):
        assert self.open.pop() == name


def test_hostile_text_stays_text():
    shown = document(HOSTILE)
    elements = Elements(shown)
    assert not {"script", "img", "iframe", "link"} & {*elements.seen}
    assert not [name for name in elements.attributes if name.startswith("on")]
    assert shown.count("&lt;img") == 29  # each place of `section` and `document`
    assert "\u202e" not in shown


def test_code_in_a_sentence_is_shown_as_code():
    shown = document(f"take another `out`, not `{HOSTILE}`")
    assert "another <code>out</code>, not <code>&lt;/script&gt;" in shown
    assert "script" not in Elements(shown).seen


def test_the_policy_allows_the_style_alone():
    policy = html.unescape(re.search(r'Content-Security-Policy" content="(.*?)"', document("x"))[1])
    allowed = dict(rule.split(" ", 1) for rule in policy.split("; "))
    assert allowed["default-src"] == "'none'"
    assert {name for name, of in allowed.items() if of != "'none'"} == {"style-src"}


def test_lone_surrogate_can_be_written():
    assert document("a\ud800b").encode("utf-8", "replace")


def test_without_jinja_the_message_names_the_extra(monkeypatch):
    writing._templates.cache_clear()
    monkeypatch.setitem(sys.modules, "jinja2", None)
    with pytest.raises(MissingDependencyError, match=r"corpusfit\[report\]"):
        document("x")


def test_numbers_are_right_aligned_and_words_left_aligned():
    rows = [("a", 1234567), ("b", None), ("c", 0.123456), (True, 0)]
    shown = page("t", [section(Sheet("c", ["name", "n"], rows))])
    assert '<td data-column="name">a</td><td data-column="n" class="n">1,234,567</td>' in shown
    assert 'class="n">–</td>' in shown
    assert 'class="n">0.1235</td>' in shown
    assert '<td data-column="name">yes</td>' in shown


def test_bidirectional_controls_are_shown():
    assert "<h1>a⟨U+202E⟩b&lt;</h1>" in page("a\u202eb<", [])


def test_csv_cells_are_no_formulas(tmp_path):
    sheet = Sheet("c", ["=1+1", "n"], [("@sum", -1.5), ("-2+3", 2), ("plain", None)])
    left = tmp_path / "one-t.csv.0123456789ab.part"  # by a killed process
    left.write_bytes(b"")
    write_figures([Part("one", "t", [], {}, {}, {"t": sheet})], tmp_path)
    assert not left.exists()
    with (tmp_path / "one-t.csv").open() as f:
        assert list(csv.reader(f)) == [
            ["'=1+1", "n"],
            ["'@sum", "-1.5"],
            ["'-2+3", "2"],
            ["plain", ""],
        ]
