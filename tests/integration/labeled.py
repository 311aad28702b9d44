"""A corpus whose rows have the name of their topic, for tests of what knows it."""

import csv
import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from journeys import WORDS, prose

import corpusfit

SMALL = ("cut.pieces=16", "cut.gamma=2", "read.shard_mb=0.01")


def rows_of_topics():
    """Documents of several segments, of all topics in turn; some have no domain, some no text."""
    texts = {topic: prose(topic, 120, seed=3) for topic in WORDS}
    rows = [
        {"kind": topic, "text": texts[topic][i], "number": i % 3}
        for i in range(120)
        for topic in WORDS
    ]
    rows[7]["kind"] = rows[8]["kind"] = ""
    rows[11]["text"] = rows[200]["text"] = ""
    return rows


def write_jsonl(path, rows):
    rows = [dict(r) for r in rows]
    del rows[7]["kind"]
    rows[8]["kind"] = [0.5]  # neither is a label
    path.write_text("".join(json.dumps(r) + "\n" for r in rows))


def write_csv(path, rows):
    with path.open("w", newline="") as f:
        writer = csv.DictWriter(f, rows[0])
        writer.writeheader()
        writer.writerows(rows)


def write_parquet(path, rows):
    pq.write_table(pa.Table.from_pylist(rows), path, row_group_size=100)


FORMATS = {"jsonl": write_jsonl, "csv": write_csv, "parquet": write_parquet}


@pytest.fixture
def mixed(request, tmp_path):
    """A file with all topics, their name in a field; returns its path and its rows."""
    rows, suffix = rows_of_topics(), getattr(request, "param", "jsonl")
    path = tmp_path / f"mixed.{suffix}"
    FORMATS[suffix](path, rows)
    return path, rows


in_every_format = pytest.mark.parametrize("mixed", FORMATS, indirect=True)


@pytest.fixture
def select(task, tmp_path, inline):
    def select(corpus, *settings, out="out", **words):
        return corpusfit.select(
            target=task,
            corpus=corpus,
            out=tmp_path / out,
            settings=(*SMALL, *settings),
            machine=inline,
            **{"method": "moore_lewis", **words},
        )

    return select
