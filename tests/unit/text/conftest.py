"""Shared by the tests of reading: write a file, read it back."""

import pytest

from corpusfit.core.plan import ReadPlan
from corpusfit.text import find, rows, shards


@pytest.fixture
def read():
    """Read inputs to a list of rows, in order; settings of the plan as keywords."""

    def read(*inputs, **settings):
        plan = ReadPlan(**settings)
        sources = find([str(i) for i in inputs], plan, role="corpus")
        return [row for shard in shards(sources, plan) for row in rows(shard, plan)]

    return read


@pytest.fixture
def write(tmp_path):
    """Write bytes or text to a file in the test's folder and return its path."""

    def write(name, content):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    return write
