"""The document: nothing of the data can act, and the policy allows its two scripts and no more."""

import base64
import csv
import hashlib
import html
import json
import re

from corpusfit.report.page import escaped, page, plain_table
from corpusfit.report.part import Part, Sheet
from corpusfit.report.writing import write_figures

HOSTILE = "</script><script>bad()</script><!--<script><img src=x onerror=bad()>\u2028\u202egnp.exe"


def document(text):
    data = {"examples": [{"text": text}]}
    sheet = Sheet("t", text, [text, "n"], [(text, 1), (text, 2.5)])
    part = Part("one", text, [text], plain_table(sheet), {}, [sheet], data)
    return page(text, [part])


def test_hostile_text_stays_text():
    shown = document(HOSTILE)
    outside = re.sub(r"<(script|style)\b.*?</\1>", "", shown, flags=re.S)
    assert "<img" not in outside
    assert "bad()</script>" not in shown
    assert "\u202e" not in outside
    assert shown.count("<script") == shown.count("</script>") == 3
    block = re.search(r'<script type="application/json" id="data">(.*?)</script>', shown, re.S)[1]
    assert json.loads(block)["runs"]["one"]["examples"][0]["text"] == HOSTILE
    assert "<" not in block


def test_the_policy_names_both_scripts_by_what_they_are():
    shown = document("x")
    policy = html.unescape(re.search(r'Content-Security-Policy" content="(.*?)"', shown)[1])
    scripts = re.findall(r'<script type="module">(.*?)</script>', shown, re.S)
    digests = [base64.b64encode(hashlib.sha256(s.encode()).digest()).decode() for s in scripts]
    allowed = dict(rule.split(" ", 1) for rule in policy.split("; "))
    assert allowed["script-src"].split() == [f"'sha256-{d}'" for d in digests]
    assert allowed["default-src"] == "'none'"
    assert "unsafe-eval" not in policy


def test_a_lone_surrogate_can_be_written():
    assert document("a\ud800b").encode("utf-8", "replace")


def test_numbers_stand_to_the_right_and_words_to_the_left():
    shown = plain_table(Sheet("t", "c", ["name", "n"], [("a", 1234567), ("b", None)]))
    assert '<td>a</td><td class="n">1,234,567</td>' in shown
    assert '<td class="n">–</td>' in shown


def test_marks_that_turn_the_order_of_writing_are_shown():
    assert escaped("a\u202eb<") == "a⟨U+202E⟩b&lt;"


def test_no_cell_of_a_csv_file_acts(tmp_path):
    sheet = Sheet("t", "c", ["=1+1", "n"], [("@sum", -1.5), ("-2+3", 2), ("plain", None)])
    write_figures([Part("one", "t", [], "", {}, [sheet])], tmp_path)
    with (tmp_path / "t.csv").open() as f:
        assert list(csv.reader(f)) == [
            ["'=1+1", "n"],
            ["'@sum", "-1.5"],
            ["'-2+3", "2"],
            ["plain", ""],
        ]
