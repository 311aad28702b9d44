"""Overlap of selections, against direct counts."""

import numpy as np
import pytest

from corpusfit.core.types import Segments
from corpusfit.reporting.comparison import overlaps
from corpusfit.scoring import table
from corpusfit.selection.folder import SelectionFolder


@pytest.fixture
def selections(tmp_path):
    """Three runs over the same three parts, and which segments each selected."""
    generator = np.random.default_rng(0)
    selected_by_run = generator.random((3, 3, 40)) < np.array([0.1, 0.4, 0.8])[:, None, None]
    folders = []
    for run, own in enumerate(selected_by_run):
        scores = SelectionFolder(tmp_path / str(run)).scores
        scores.mkdir(parents=True)
        for shard, selected in enumerate(own):
            n, zero = len(selected), np.zeros(len(selected), np.int64)
            segments = Segments(
                row=np.arange(n), segment=zero.astype(np.int32), start=zero, end=zero,
                units=zero.astype(np.int32), tokens=zero, first_unit=zero,
            )  # fmt: skip
            table.write(scores, shard, "a", segments, zero.astype(np.float32))
            path = table.part_path(scores, shard)
            table.rewrite(path, weight=zero.astype(np.float32), selected=selected)
        folders.append(tmp_path / str(run))
    return folders, selected_by_run.reshape(3, -1)


def test_overlap_of_every_pair_is_counted(selections):
    folders, selected = selections
    want = [[int((a & b).sum()) for b in selected] for a in selected]
    assert overlaps(folders).tolist() == want
