"""Arrow IPC files: streams, damage, what `datasets` saves."""

import random

import pyarrow as pa
import pytest

from corpusfit.core.types import Document


@pytest.fixture
def ipc(tmp_path):
    def ipc(name, table, new=pa.ipc.new_stream):
        with new(tmp_path / name, table.schema) as out:
            out.write_table(table, max_chunksize=10)
        return tmp_path / name

    return ipc


TABLE = pa.table({"text": [f"text {i}" for i in range(100)], "id": range(100)})


@pytest.mark.parametrize("new", [pa.ipc.new_file, pa.ipc.new_stream])
def test_files_and_streams_are_the_same(read, ipc, new):
    found = read(ipc("a.arrow", TABLE, new))
    assert found == [Document(i, 0, f"text {i}", i) for i in range(100)]
    assert read(ipc("a.feather", TABLE, new), shard_mb=1e-4) == found


def test_a_dataset_that_was_saved_is_a_folder_of_them(read, tmp_path):
    datasets = pytest.importorskip("datasets")
    saved = datasets.Dataset.from_dict({"text": ["a", "b"]})
    datasets.DatasetDict({"train": saved}).save_to_disk(tmp_path / "saved")
    assert [row.text for row in read(tmp_path / "saved")] == ["a", "b"]


def test_a_file_that_is_cut_off_keeps_its_first_batches(read, ipc):
    path = ipc("a.arrow", TABLE)
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    found = read(path)
    assert found[:10] == [Document(i, 0, f"text {i}", i) for i in range(10)]
    assert found[-1].reason.startswith("unreadable arrow: ")


def test_damage_is_a_reject_and_never_a_crash(read, ipc):
    chats = [[{"role": "user", "content": "a" * i}] for i in range(100)]
    path = ipc("a.arrow", TABLE.append_column("chat", pa.array(chats)), pa.ipc.new_file)
    data, draw = path.read_bytes(), random.Random(0)
    for _ in range(200):
        damaged = bytearray(data)
        damaged[draw.randrange(len(data))] = draw.choice([0, 127, 128, 255])
        path.write_bytes(damaged)
        for field in ("text", "{chat}"):
            found = read(path, text_field=field)
            assert [row.row for row in found] == list(range(len(found)))
