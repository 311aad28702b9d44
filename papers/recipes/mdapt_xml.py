"""mDAPT, section 3.1: rows of the XML that PubMed and Reuters publish.

Of PubMed's baseline (pubmed21n0001.xml.gz …): the abstract, which is English, its translations, and
the title in the article's own language, if that is another. Rows have `text`, `language` and the
article's `pmid`, which a text and its translation share. Of RCV1 and RCV2 (2286newsML.xml …):
headline and paragraphs, with `language`. A row whose language the XML leaves open has none;
`compose` identifies it.

Run: python papers/recipes/mdapt_xml.py PATH … > rows.jsonl
with files in PATH, also compressed by gzip, or folders, of which all .xml and .xml.gz are read.
Reference: Jørgensen et al. (2021), mDAPT, section 3.1 and appendices B and C; NLM's DTD of PubMed.
"""

from __future__ import annotations

import argparse
import gzip
import sys
import xml.etree.ElementTree as ET
from collections.abc import Iterable, Iterator
from pathlib import Path

import orjson

XML_LANGUAGE = "{http://www.w3.org/XML/1998/namespace}lang"
Row = dict[str, str]


def of_article(article: ET.Element) -> Iterator[Row]:
    """The abstracts and the title of an article of PubMed."""
    cited = article.find("MedlineCitation")
    if cited is None:
        return
    foreign = {code.text or "" for code in cited.iterfind("Article/Language")} - {"eng"}
    yield from (
        row(text.iterfind(parts), language) | {"pmid": cited.findtext("PMID", "")}
        for text, parts, language in (
            (cited, "Article/Abstract/AbstractText", "eng"),
            *((o, "AbstractText", o.get("Language", "")) for o in cited.iterfind("OtherAbstract")),
            (cited, "Article/VernacularTitle", foreign.pop() if len(foreign) == 1 else ""),
        )
    )


def of_item(item: ET.Element) -> Iterator[Row]:
    """The text of a news item of Reuters."""
    yield row([*item.iterfind("headline"), *item.iterfind("text/p")], item.get(XML_LANGUAGE, ""))


def row(parts: Iterable[ET.Element], language: str) -> Row:
    """A part a line."""
    lines = (" ".join("".join(part.itertext()).split()) for part in parts)
    named = {"language": language} if language not in ("", "und", "mul") else {}
    return {"text": "\n".join(filter(None, lines)), **named}


READERS = {"PubmedArticle": of_article, "newsitem": of_item}
"""The readers of elements, by tag."""

parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
parser.add_argument("paths", nargs="+", type=Path, help="Files or folders of XML")
files: list[Path] = []
for path in parser.parse_args().paths:
    inner = sorted(file for file in path.rglob("*.xml*") if file.suffix in (".xml", ".gz"))
    files += inner if path.is_dir() else [path]
if not files:
    sys.exit("No files of XML are there. Unpack the archive first.")
rows = 0
for path in files:
    found = False
    try:
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
            for _, element in ET.iterparse(file):
                if element.tag in READERS:
                    found = True
                    for written in READERS[element.tag](element):
                        if written["text"]:
                            sys.stdout.buffer.write(orjson.dumps(written) + b"\n")
                            rows += 1
                    element.clear()
    except (ET.ParseError, EOFError, OSError) as e:
        sys.exit(f"{path} cannot be read: {e}. Is it whole? Get it again, and write all rows anew.")
    if not found:
        sys.exit(f"{path} has none of {', '.join(READERS)}: it is not of PubMed's baseline or RCV.")
print(f"{rows:,} rows of {len(files):,} files.", file=sys.stderr)
