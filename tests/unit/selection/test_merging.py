"""Pieces of selected text are merged to parts of one size."""

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from corpusfit.core.errors import InputError, StorageError
from corpusfit.selection.merging import (
    merge_pieces,
    plan_parts,
    selected_path,
    sizes_of_pieces,
    stored_parts,
    write_piece,
)


@pytest.mark.parametrize(
    ("sizes", "parts"),
    [
        ([], []),
        ([(3, 10)], [[3]]),
        ([(0, 4), (1, 6), (5, 1)], [[0, 1], [5]]),  # exactly the most, and one byte over it
        ([(0, 1), (1, 99), (2, 1), (3, 1)], [[0], [1], [2, 3]]),
    ],
)
def test_parts_are_runs_of_shards_up_to_the_most(sizes, parts):
    assert plan_parts(sizes, 10) == parts


@given(st.lists(st.integers(1, 30)), st.integers(1, 40))
def test_every_shard_is_in_one_part_in_order(sizes, most):
    parts = plan_parts(enumerate(sizes), most)
    assert [shard for part in parts for shard in part] == list(range(len(sizes)))
    in_parts = [sum(sizes[shard] for shard in part) for part in parts]
    assert all(n <= most or len(part) == 1 for n, part in zip(in_parts, parts, strict=True))
    for size, part in zip(in_parts, parts[1:], strict=False):
        assert size + sizes[part[0]] > most


def test_a_part_is_one_frame_that_states_its_size(tmp_path):
    """A program that reads one frame, such as `ZstdDecompressor.decompress`, reads all."""
    lines = {n: b'{"text": "%d"}\n' % n * 10_000 for n in range(50)}
    for shard, text in lines.items():
        write_piece(tmp_path / "pieces", shard, text)
    sizes = sizes_of_pieces(tmp_path / "pieces")
    assert sizes == {shard: len(text) for shard, text in lines.items()}
    merge_pieces(tmp_path / "pieces", tmp_path, (7, sorted(sizes.items())))
    data = selected_path(tmp_path, 7).read_bytes()
    assert zstandard.ZstdDecompressor().decompress(data) == b"".join(lines.values())
    assert sizes_of_pieces(tmp_path / "pieces") == {}


@pytest.mark.parametrize("damage", [lambda data: b"", lambda data: data[:-1], lambda data: b"{}\n"])
def test_a_damaged_piece_is_removed_so_that_it_is_written_anew(tmp_path, damage):
    for shard in range(2):
        write_piece(tmp_path / "pieces", shard, b"{}\n")
    path = next(tmp_path.glob("pieces/00001-*"))
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(StorageError, match=path.name):
        merge_pieces(tmp_path / "pieces", tmp_path, (0, [(0, 3), (1, 3)]))
    assert sizes_of_pieces(tmp_path / "pieces") == {0: 3}
    assert [p.name for p in tmp_path.iterdir()] == ["pieces"]


@pytest.mark.parametrize("content", [b"", b"7", b"[7]", b"[[1],[3]]", b'{"1":2}', b"[[1,2],[3]"])
def test_parts_of_other_shards_are_damage(tmp_path, content):
    path = tmp_path / "parts.json"
    assert stored_parts(path, [1, 2, 3]) is None
    path.write_bytes(content)
    with pytest.raises(InputError, match=r"parts\.json"):
        stored_parts(path, [1, 2, 3])
    path.write_bytes(b"[[1,2],[3]]")
    assert stored_parts(path, [1, 2, 3]) == [[1, 2], [3]]
