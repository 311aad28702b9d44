"""Fixtures of the evaluation tests."""

import pytest


@pytest.fixture
def write(tmp_path):
    """Write bytes or text to a file below the test's folder `task`; returns that folder."""

    def write(name, content):
        path = tmp_path / "task" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return tmp_path / "task"

    return write
