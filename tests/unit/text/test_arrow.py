"""Arrow IPC files: streams, damage, what `datasets` saves."""

import random

import pyarrow as pa
import pytest

from corpusfit.core.types import Document
from corpusfit.text.formats import parquet


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


@pytest.mark.parametrize("new", [pa.ipc.new_file, pa.ipc.new_stream])
def test_a_dictionary_that_unfolds_is_left_alone(read, ipc, monkeypatch, new):
    """One value that every row repeats."""
    monkeypatch.setattr(parquet, "FREE", 1 << 20)
    texts = pa.array(["one", "x" * 50_000]).dictionary_encode()
    many = texts.take(pa.array([0] * 256 + [1] * 600))
    path = ipc("a.arrow", pa.table({"text": many, "other": many}), new)
    assert path.stat().st_size < 200_000
    found = read(path, max_ratio=20)
    assert str(found[-1].reason) == "bomb limit: archive unpacks to more than 20 times its size"
    assert 256 <= len(found) < 400
    assert len(read(path, max_ratio=1000)) == 856


@pytest.mark.parametrize("new", [pa.ipc.new_file, pa.ipc.new_stream])
def test_columns_that_are_not_read_are_not_unpacked(read, tmp_path, new):
    """So damage in another column, such as a length of terabytes, costs nothing."""
    table = pa.table({"text": ["a", "b"], "other": ["x" * 5000, "y" * 5000]})
    with new(
        tmp_path / "a.arrow", table.schema, options=pa.ipc.IpcWriteOptions(compression="zstd")
    ) as out:
        out.write_table(table)
    data = (tmp_path / "a.arrow").read_bytes()
    unpacked = (10_000).to_bytes(8, "little")
    assert data.count(unpacked) == 1
    (tmp_path / "a.arrow").write_bytes(data.replace(unpacked, (1 << 40).to_bytes(8, "little")))
    assert [row.text for row in read(tmp_path / "a.arrow")] == ["a", "b"]
    (found,) = read(tmp_path / "a.arrow", id_field="other")
    assert str(found.reason).startswith("unreadable arrow: ")


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
    assert str(found[-1].reason).startswith("unreadable arrow: ")


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
