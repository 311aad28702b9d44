"""Turn files, folders, URLs and datasets into shards of rows."""

from corpusfit.text.api import cache, clear_cache
from corpusfit.text.contract import load as load_format
from corpusfit.text.fields import Pick
from corpusfit.text.normalize import normalize
from corpusfit.text.shards import (
    documents,
    fingerprint,
    layout,
    numbering,
    packed,
    raw_rows,
    rows,
    shards,
)
from corpusfit.text.sources import (
    changed,
    content,
    current_sources,
    files_of,
    find,
    is_pair,
    is_parallel,
    located,
    sides,
)

__all__ = [
    "Pick",
    "cache",
    "changed",
    "clear_cache",
    "content",
    "current_sources",
    "documents",
    "files_of",
    "find",
    "fingerprint",
    "is_pair",
    "is_parallel",
    "layout",
    "load_format",
    "located",
    "normalize",
    "numbering",
    "packed",
    "raw_rows",
    "rows",
    "shards",
    "sides",
]
