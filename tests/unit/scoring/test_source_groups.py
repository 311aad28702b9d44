"""Names of many sources in tables."""

from corpusfit.scoring.table import MAX_SOURCES, source_groups


def _many(folders, each):
    return [f"{a}/{b}/{n}.txt" for a in range(folders) for b in range(3) for n in range(each)]


def test_few_sources_keep_their_names():
    names = _many(2, 5)
    assert list(map(source_groups(names), names)) == names


def test_many_sources_are_counted_by_the_deepest_folders_that_are_few():
    deep, wide = _many(20, 20), _many(400, 1)
    assert len(deep) > MAX_SOURCES
    assert len(wide) > MAX_SOURCES
    assert source_groups(deep)("7/2/11.txt") == "7/2/"
    assert source_groups(wide)("7/2/0.txt") == "7/"
    flat = [f"{n}.txt" for n in range(MAX_SOURCES + 1)]
    assert {source_groups(flat)(name) for name in flat} == {"./"}
    scattered = [f"{n}/a.txt" for n in range(MAX_SOURCES + 1)]
    assert {source_groups(scattered)(name) for name in scattered} == {"./"}
