"""Stage 1, read: turn files, folders, URLs, datasets and standard input into shards of rows."""

from corpusfit.corpus.fields import Pick
from corpusfit.corpus.normalise import normalise
from corpusfit.corpus.pairs import files_of, is_pair, sides
from corpusfit.corpus.raw import header, raw_rows
from corpusfit.corpus.rejects import kind
from corpusfit.corpus.rows import documents, rows
from corpusfit.corpus.shards import shards
from corpusfit.corpus.sources import content, find, found_again, located
from corpusfit.corpus.survey import Chunk, ChunkScan, fingerprint, scan_chunk

__all__ = [
    "Chunk",
    "ChunkScan",
    "Pick",
    "content",
    "documents",
    "files_of",
    "find",
    "fingerprint",
    "found_again",
    "header",
    "is_pair",
    "kind",
    "located",
    "normalise",
    "raw_rows",
    "rows",
    "scan_chunk",
    "shards",
    "sides",
]
