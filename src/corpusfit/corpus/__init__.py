"""Stage 1, read: from files, folders, URLs, datasets or standard input to shards of rows.

`find` names and fingerprints the inputs, `shards` reads and cuts them, `rows` and `documents`
parse one shard, `normalise` undoes a task's own tokenisation. Bad content is a `Reject`, never an
exception. `pairs` reads texts with their translations.
"""

from corpusfit.corpus.fields import Pick
from corpusfit.corpus.normalise import normalise
from corpusfit.corpus.pairs import files_of, is_pair, sides
from corpusfit.corpus.raw import header, raw_rows
from corpusfit.corpus.rejects import kind
from corpusfit.corpus.rows import documents, rows
from corpusfit.corpus.shards import shards
from corpusfit.corpus.sources import content, find, found_again, located
from corpusfit.corpus.survey import Glimpse, Look, fingerprint, glimpse

__all__ = [
    "Glimpse",
    "Look",
    "Pick",
    "content",
    "documents",
    "files_of",
    "find",
    "fingerprint",
    "found_again",
    "glimpse",
    "header",
    "is_pair",
    "kind",
    "located",
    "normalise",
    "raw_rows",
    "rows",
    "shards",
    "sides",
]
