"""mDAPT, section 3.2: Wikipedia's pages with the Wikidata id that a page has in every language.

Titles and page ids differ between languages, so they do not show that two pages are translations.
The Wikidata id of each page is in `page_props`, one of the dumps of every Wikipedia.

Run: python papers/recipes/mdapt_wikipedia.py LANGUAGE PAGES PAGE_PROPS > LANGUAGE.jsonl
with rows of `id` and `text` in PAGES, as wikiextractor --json writes them (in files that end in
.jsonl) and the dataset hub:wikimedia/wikipedia:20231101.ro has them, and the same Wikipedia's
dump in PAGE_PROPS, such as rowiki-latest-page_props.sql.gz. Rows of `text`, `language` and
`wikidata` are written, for compositions/.
Reference: Jørgensen et al. (2021), mDAPT, section 3.2; MediaWiki's table page_props.
"""

from __future__ import annotations

import argparse
import gzip
import re
import sys
import zlib
from pathlib import Path

import orjson

from corpusfit import CorpusfitError, Machine
from corpusfit import text as corpora
from corpusfit.core.plan import ReadPlan
from corpusfit.core.types import Document

ITEM = re.compile(rb"\((\d+),'wikibase_item','Q(\d+)'")
"""The page id and the Wikidata id in a row of page_props."""
DATABASE = re.compile(rb"-- Host: .*Database: (\w+)")
"""The line of a dump that names its Wikipedia, such as rowiki."""

parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
parser.add_argument("language", help="Language code of the pages, such as ro")
parser.add_argument("pages", help="File, folder or hub: dataset of the pages")
parser.add_argument("page_props", type=Path, help="The dump page_props.sql.gz")
asked = parser.parse_args()

items: dict[int, int] = {}
try:
    with gzip.open(asked.page_props) as dump:
        for line in dump:
            found = DATABASE.match(line)
            wanted = f"{asked.language.replace('-', '_')}wiki"
            if found and found[1].decode() != wanted:
                sys.exit(f"{asked.page_props} is of {found[1].decode()}, not of {wanted}.")
            items.update((int(page), int(item)) for page, item in ITEM.findall(line))
except (OSError, EOFError, zlib.error) as e:
    sys.exit(f"{asked.page_props} must be a whole dump page_props.sql.gz; it cannot be read: {e}.")

read = ReadPlan("text", "id")
pages = identified = left_out = 0
try:
    with Machine(engine="inline").running() as run:
        for shard in run.shards_of(run.find([asked.pages], read, "pages"), read):
            for document in corpora.rows(shard, read):
                if not isinstance(document, Document):
                    left_out += 1
                    continue
                row = {"text": document.text, "language": asked.language}
                pages += 1
                item = items.get(int(document.id)) if (document.id or "").isdecimal() else None
                if item is not None:
                    row["wikidata"] = f"Q{item}"
                    identified += 1
                sys.stdout.buffer.write(orjson.dumps(row) + b"\n")
except CorpusfitError as e:
    sys.exit(f"Error: {e}")
if not identified:
    sys.exit(f"None of {pages:,} pages is in {asked.page_props}. Are both of one Wikipedia?")
print(f"{identified:,} of {pages:,} pages have a Wikidata id.", file=sys.stderr)
if left_out:
    print(f"{left_out:,} rows were left out: no text, or not readable.", file=sys.stderr)
