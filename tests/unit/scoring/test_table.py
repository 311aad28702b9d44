"""A column of stored scores that a part lacks."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from corpusfit.core.errors import InputError
from corpusfit.scoring import table


@pytest.fixture
def part(tmp_path):
    """Writes a part with some columns; returns its path."""

    def write(*names):
        rows = pa.Table.from_pylist(
            [{"score": 0.5, "selected": True}, {"score": 0.25, "selected": False}],
            schema=pa.schema([table.SCHEMA.field(name) for name in names]),
        )
        pq.write_table(rows, tmp_path / "part-00000.parquet")
        return tmp_path / "part-00000.parquet"

    return write


@pytest.mark.parametrize(("stored", "lost"), [(["score"], "selected"), (["selected"], "score")])
def test_a_part_without_a_column_is_refused(part, stored, lost):
    with pytest.raises(InputError, match=f"part-00000.*the column {lost} is missing"):
        table.read_columns(part(*stored), "score", "selected")
