"""Files that are one document each: Markdown as it is written, and the text of a web page.

What: of HTML, what lies in `main` or `article` if the page has them, else in its body, without
menus, headers and footers, forms and scripts. Paragraphs are lines apart, items and rows lines.
Why: by elements, as their authors marked them; heuristics for older pages differ by release.
Trade-off: events of elements, no tree, so that no page takes more time than its size, but nothing
is known of what comes later.
"""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Iterator
from typing import ClassVar

import numpy as np

from corpusfit.core.errors import importing
from corpusfit.core.plan import ReadPlan
from corpusfit.core.types import Reject, Shard, Source
from corpusfit.text import rejects
from corpusfit.text.contract import Format
from corpusfit.text.cutting import BOM, Block, Text, cut
from corpusfit.text.fields import Row, from_value
from corpusfit.text.files import Stream

_NO_ENDS = np.empty(0, np.int64), np.empty(0, np.int64)


class Page(Format):
    """A file that is one document."""

    plain = True
    single = True
    named_fields = False

    def blocks(self, source: Source, plan: ReadPlan) -> Iterator[Block]:
        # no row ends before the file does
        return cut(Text(Stream(source, plan), plan), lambda _: _NO_ENDS, plan)

    def parse(self, shard: Shard, plan: ReadPlan) -> Iterator[Row]:
        if not shard.data:
            return
        written = self.decoded(shard.data.removeprefix(BOM))
        if written is None:
            yield Reject(shard.first_row, shard.first_byte, rejects.INVALID_UTF8)
            return
        text = written if "\0" in written else self.text(written.replace("\r\n", "\n"))
        yield from_value(shard.first_row, shard.first_byte, text.strip("\n"))

    def decoded(self, data: bytes) -> str | None:
        """The file's characters; None if it is not in UTF-8."""
        try:
            return data.decode()
        except UnicodeDecodeError:
            return None

    @abstractmethod
    def text(self, written: str) -> str:
        """The text of a file's characters."""


_FRONT = re.compile(r"---[ \t]*\n(?=[\w.-]+[ \t]*:|#)(?:.*\n)*?(?:---|\.\.\.)[ \t]*(?:\n|\Z)")


class Markdown(Page):
    """Markdown, without the settings (front matter) above it; code stays."""

    name = "markdown"
    suffixes: ClassVar[tuple[str, ...]] = (".md", ".markdown")

    def text(self, written: str) -> str:
        front = _FRONT.match(written)
        return written[front.end() :] if front else written


_CHARSET = re.compile(rb"<meta[^>]{0,200}?charset\s*=\s*[\"']?([\w:.-]{1,40})", re.IGNORECASE)
_HEAD = 4096  # bytes that may name the encoding
_LEFT_OUT = re.compile(
    "aside|button|dialog|footer|form|head|iframe|nav|noscript|object|script|select|style|svg"
    "|template|textarea"
)
_ROLES = ("banner", "complementary", "contentinfo", "navigation", "search")
_CONTENT = ("article", "main")
_BLOCK = re.compile(
    "address|article|blockquote|center|details|div|dl|fieldset|figcaption|figure|h[1-6r]|header"
    "|main|ol|p|pre|section|summary|table|ul"
)
_LINES = ("br", "dd", "dt", "li", "tr")
_CELLS = ("td", "th")
_SPACES = re.compile(r"[ \t\n\r\f]+")
_BORDER = "\0"  # which no text has


class Html(Page):
    """A web page; needs the extra html."""

    name = "html"
    suffixes: ClassVar[tuple[str, ...]] = (".html", ".htm")

    def check(self, source: Source, plan: ReadPlan, setting: str) -> None:
        otherwise = "Or name the other files alone."
        with importing(f"{setting} {source.name}", "html", otherwise):
            import lxml.etree  # noqa: F401

    def decoded(self, data: bytes) -> str | None:
        named = _CHARSET.search(data[:_HEAD])
        written = super().decoded(data)
        if written is not None or not named:
            return written
        try:
            return data.decode(named[1].decode())
        except (LookupError, UnicodeError):
            return None

    def text(self, written: str) -> str:
        from lxml import etree

        found = _Found()
        # the encoding of bytes that are given counts, whatever the page says of its own
        parser = etree.HTMLParser(target=found, encoding="utf-8")
        try:
            parser.feed(written.encode())
            parser.close()
        except etree.LxmlError:  # such as of a page without an element
            return found.close()
        return found.close()


class _Found:
    """What lxml finds in a page, element by element, and the text that it adds up to."""

    def __init__(self) -> None:
        self._open: list[tuple[bool, bool, bool]] = [(False, False, False)]
        self._parts: dict[bool, list[str]] = {True: [], False: []}  # in the content, and all

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        """An element begins."""
        left_out, content, pre = self._open[-1]
        content = content or tag in _CONTENT
        left_out = left_out or bool(_LEFT_OUT.fullmatch(tag)) or "hidden" in attributes
        left_out = left_out or attributes.get("role") in _ROLES or (tag == "header" and not content)
        self._open.append((left_out, content, pre or tag == "pre"))
        self._divide(tag)
        if tag in _LINES:
            self._add(_BORDER)
        elif tag in _CELLS:
            self._add(" ")

    def end(self, tag: str) -> None:
        """An element ends."""
        self._divide(tag)
        if len(self._open) > 1:
            self._open.pop()

    def data(self, text: str) -> None:
        """A piece of text."""
        self._add(text if self._open[-1][2] else _SPACES.sub(" ", text))

    def comment(self, text: str) -> None:
        """Comments are no text."""

    def _divide(self, tag: str) -> None:
        if _BLOCK.fullmatch(tag):
            self._add(_BORDER * 2)

    def _add(self, text: str) -> None:
        left_out, content, pre = self._open[-1]
        if left_out:
            return
        for parts in (self._parts[False], self._parts[True])[: 1 + content]:
            after_space = parts and parts[-1][-1:] == " "
            parts.append(text.removeprefix(" ") if after_space and not pre else text)

    def close(self) -> str:
        """The text that was found."""
        return self._joined(True) or self._joined(False)

    def _joined(self, content: bool) -> str:
        pieces = list[str]()
        border = ""
        for piece in "".join(self._parts[content]).split(_BORDER):
            text = piece.strip(" ")
            if text.strip():
                pieces += [border, text] if pieces else [text]
                border = ""
            border = "\n" if not border else "\n\n"
        return "".join(pieces)
