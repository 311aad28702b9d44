"""What must hold whatever an input says: checks of a folder and of what a command printed."""

from __future__ import annotations

import base64
import csv
import hashlib
import json
import re
import unicodedata
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from functools import cache
from html.parser import HTMLParser
from pathlib import Path

import yaml
import zstandard
from markdown_it import MarkdownIt

SECRET = "only-the-owner-reads-this"
"""Text of files that no input names."""
_BIDI = {*map(chr, range(0x202A, 0x202F)), *map(chr, range(0x2066, 0x206A))}
_ACTS = ("=", "+", "-", "@", "\t", "\r")
_FIGURES = re.compile(r"[-+\d.eEinfa ]*")
_HEADER = {
    *("tags", "configs", "base_model", "library_name", "pipeline_tag", "license", "datasets"),
}


def listing(folder: Path, without: tuple[Path, ...]) -> dict[str, str]:
    """Kind and digest of everything in a folder, by path, but for what lies in some folders."""
    found = {}
    for path in sorted(folder.rglob("*")):
        if any(path == own or own in path.parents for own in without):
            continue
        name = str(path.relative_to(folder))
        if path.is_symlink():
            found[name] = f"link {path.readlink()}"
        elif path.is_file():
            found[name] = hashlib.sha256(path.read_bytes()).hexdigest()
        else:
            found[name] = "folder or device"
    return found


def broken_on_terminal(said: bytes) -> Iterator[str]:
    """Control characters in what was printed, but for the ends of lines and tabs."""
    text = said.decode("utf-8", "replace")
    found = {c for c in text if c not in "\n\t" and (unicodedata.category(c) == "Cc" or c in _BIDI)}
    if found:
        at = min(map(text.index, found))
        around = text[max(at - 40, 0) : at + 20]
        yield f"the terminal gets {', '.join(sorted(map(ascii, found)))} in {around!a}"
    if "Traceback (most recent" in text:
        yield f"a traceback: {text[-300:]!a}"
    if SECRET in text:
        yield "it prints a file that nobody named"


def broken_in(folder: Path) -> Iterator[str]:
    """What is wrong with the pages, tables and cards that commands wrote."""
    checks = {".html": _page, ".svg": _drawing, ".csv": _sheet, ".md": _markdown, ".tex": _latex}
    for path in sorted(p for p in folder.rglob("*") if p.is_file() and not p.is_symlink()):
        data = path.read_bytes()
        if path.suffix == ".zst":
            data = zstandard.ZstdDecompressor().decompressobj().decompress(data)
        if SECRET.encode() in data:
            yield f"{path.name} has a file that nobody named"
        if path.suffix in checks:
            for fault in checks[path.suffix](data.decode("utf-8")):
                yield f"{path.name}: {fault}"


class _Tags(HTMLParser):
    """The elements of a page, and the text of its scripts."""

    def __init__(self) -> None:
        super().__init__()
        self.faults: list[str] = []
        self.scripts: list[str] = []
        self.policy = self.data = ""
        self._within = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        if tag == "script":
            self._within = "data" if given.get("type") == "application/json" else "script"
            self.data += "\n" * (self._within == "data")
        if given.get("http-equiv") == "Content-Security-Policy":
            self.policy = given["content"]
        if tag in ("img", "iframe", "object", "embed", "base", "form", "link"):
            self.faults.append(f"an element <{tag}>")
        for name, value in given.items():
            acts = name.startswith("on") or value.strip().startswith("javascript:")
            if acts or name in ("src", "srcdoc"):
                self.faults.append(f"<{tag} {name}={value[:40]!a}>")

    def handle_endtag(self, tag: str) -> None:
        self._within = "" if tag == "script" else self._within

    def handle_data(self, data: str) -> None:
        if self._within == "script":
            self.scripts.append(data)
        elif self._within == "data":
            self.data += data
        elif any(c in _BIDI for c in data):
            self.faults.append("a bidirectional control")


def _page(text: str) -> Iterator[str]:
    tags = _Tags()
    tags.feed(text)
    tags.close()
    yield from tags.faults
    for script in tags.scripts:
        digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
        if digest not in tags.policy:
            yield f"a script that is not ours: {script[:60]!a}"
    for block in tags.data.split("\n"):
        if block:
            json.loads(block)


def _drawing(text: str) -> Iterator[str]:
    for element in ET.fromstring(text).iter():
        name = element.tag.rpartition("}")[2]
        acts = [a for a in element.attrib if a.startswith("on") or a.endswith("href")]
        if name in ("script", "foreignObject", "image", "a") or acts:
            yield f"<{name} {' '.join(acts)}>"


def _sheet(text: str) -> Iterator[str]:
    for row in csv.reader(text.splitlines(keepends=True)):
        for cell in row:
            if cell.startswith(_ACTS) and not _FIGURES.fullmatch(cell):
                yield f"a formula: {cell[:40]!a}"


def _markdown(text: str) -> Iterator[str]:
    body = text
    if text.startswith("---\n"):
        header, body = text.removeprefix("---\n").split("\n---\n", 1)
        unknown = set(yaml.safe_load(header)) - _HEADER
        if unknown:
            yield f"entries in the header: {sorted(unknown)}"
    headings = 0
    for block in MarkdownIt("commonmark", {"html": True}).enable("table").parse(body):
        headings += block.type == "heading_open" and block.tag == "h1"
        for token in (block, *(block.children or ())):
            if token.type in ("html_block", "html_inline", "image", "link_open"):
                yield f"{token.type}: {(token.content or str(token.attrs))[:60]!a}"
    if headings > 1:
        yield "a heading of its own"
    if any(c in _BIDI or (unicodedata.category(c) == "Cc" and c != "\n") for c in body):
        yield "control characters"


def _latex(text: str) -> Iterator[str]:
    for name in sorted(_commands(text) - _own_commands()):
        yield f"a command \\{name}"
    if "^^" in text:
        yield "a character by its code"


def _commands(text: str) -> set[str]:
    return set(re.findall(r"\\([a-zA-Z]+)", re.sub(r"\\[^a-zA-Z]", "", text)))


@cache
def _own_commands() -> set[str]:
    """The commands of a table that has every sign and kind of score."""
    from corpusfit_papers.experiments.rendering import Score, Table, latex

    row = ("".join(map(chr, range(32, 127))) + "±†", Score(0.5, 0.1, "†", best=True))
    return _commands(latex(Table("a", ("b", "c"), (row,), ("note",))))
