"""Pages: the text of Markdown and HTML files, one document each."""

import sys

import pytest

from corpusfit import text as corpus
from corpusfit.core.errors import EmptyInputError, MissingDependencyError
from corpusfit.core.plan import ReadPlan
from corpusfit.labeled.splits import form_of_name
from corpusfit.text import find
from corpusfit.text.formats.pages import Html, Markdown

PLAN = ReadPlan()
PAGE = """<!DOCTYPE html><html><head><title>Cells</title><style>p {color: red}</style></head><body>
<header><h2>The site</h2></header><nav><ul><li><a href="/">Home</a><li>About</ul></nav>
%s<footer>Copyright</footer><script>alert("x")</script></body></html>"""
STORY = """<header><h1>Kinases</h1></header><p>A kinase &amp; a receptor bind
  in the <b>cell</b>.</p><p>Two<br>lines<div role="search">Find</div><ul><li>one<li>two</ul>
<pre>def f():
    return  1</pre><table><tr><th>a</th><td>b</td></tr><tr><td>c<td>d</table>
<aside>Read more</aside><p hidden>not shown</p><!-- no text -->"""
TEXT = """Kinases

A kinase & a receptor bind in the cell.

Two
lines

one
two

def f():
    return  1

a b
c d"""


def rows(folder, **files):
    """The rows of files of a folder, by their names without the suffix."""
    for name, content in files.items():
        path = folder / name.replace("_", ".")
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    sources = find([str(folder)], PLAN, role="corpus")
    return [row for shard in corpus.shards(sources, PLAN) for row in corpus.rows(shard, PLAN)]


@pytest.mark.parametrize("content", ["<main>%s</main>", "<div><article>%s</article></div>"])
def test_the_text_of_a_page_is_its_content(content):
    pytest.importorskip("lxml", reason="the extra html is not installed")
    assert Html().text(PAGE % content % STORY) == TEXT


def test_a_page_without_marked_content_has_its_body():
    pytest.importorskip("lxml", reason="the extra html is not installed")
    assert Html().text(PAGE % STORY.replace("header", "div")) == TEXT
    assert Html().text("only words") == "only words"
    assert Html().text(PAGE % "") == Html().text("") == ""


def test_the_encoding_that_a_page_names(tmp_path):
    pytest.importorskip("lxml", reason="the extra html is not installed")
    latin = "<meta charset='iso-8859-1'><p>caf\xe9".encode("latin-1")
    found = rows(tmp_path, a_html=latin, b_html=latin[30:], c_html="<p>caf\xe9", d_html="<p> ")
    assert [getattr(row, "text", None) for row in found] == ["caf\xe9", None, "caf\xe9", None]


def test_elements_are_read_at_any_depth():
    """Where a parser searches the open elements for each new one, this takes minutes."""
    pytest.importorskip("lxml", reason="the extra html is not installed")
    assert Html().text("<div>" * 100_000 + "deep") == "deep"
    assert Html().text(f"<p {' '.join(f'x{i}=1' for i in range(100_000))}>wide") == "wide"


@pytest.mark.parametrize(
    ("written", "text"),
    [
        ("---\ntitle: x\ntags: [a]\n---\n\n# Title\n\ntext\n", "# Title\n\ntext"),
        ("---\ntitle: x\n...\ntext", "text"),
        ("---\n# nothing\n---\ntext", "text"),
        ("a\n\n```py\nx = 1\n```\n", "a\n\n```py\nx = 1\n```"),
        ("---\n\nA break above\n\n---\nand below", "---\n\nA break above\n\n---\nand below"),
        ("---\nopen: front", "---\nopen: front"),
    ],
)
def test_markdown_is_its_text_without_front_matter(written, text, tmp_path):
    (row,) = rows(tmp_path, a_md=written.replace("\n", "\r\n"))
    assert (row.text, row.row) == (text, 0)
    assert Markdown().text(written).strip("\n") == text


def test_what_is_about_a_folder_is_no_page_of_it(tmp_path):
    (row,) = rows(tmp_path, README_md="about", LICENSE_md="terms", page_md="text")
    assert row.text == "text"
    (tmp_path / "page.md").unlink()
    with pytest.raises(EmptyInputError):
        find([str(tmp_path)], PLAN, role="corpus")
    (source,) = find([str(tmp_path / "README.md")], PLAN, role="corpus")
    assert source.format == "markdown"


def test_a_page_is_no_file_of_a_task():
    assert [form_of_name(name) for name in ("dev.md", "dev.html", "dev.jsonl")] == ["", "", "rows"]


def test_a_page_without_the_extra_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "lxml", None)
    with pytest.raises(MissingDependencyError, match="html"):
        rows(tmp_path, a_html="<p>text")
