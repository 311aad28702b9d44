"""The run folder: whose it is, and what changed."""

import pytest

from corpusfit.errors import ChangedInputError, InputError, OutputFolderError
from corpusfit.manifest import RunFolder

IDENTITY = {
    "seed": 0,
    "cut": {"gamma": 15},
    "choose": {"fraction": 0.1},
    "corpus": {"a.jsonl": "f1"},
}


def test_a_folder_with_something_else_is_refused_and_an_empty_one_is_not(tmp_path):
    RunFolder(tmp_path).claim()
    (tmp_path / "thesis.tex").write_text("x")
    with pytest.raises(OutputFolderError, match="holds something else"):
        RunFolder(tmp_path).claim()
    with pytest.raises(OutputFolderError):
        RunFolder(tmp_path / "thesis.tex").claim()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"seed": 1}, "seed was 0, is 1"),
        ({"cut": {"gamma": 5}}, "cut.gamma was 15, is 5"),
        ({"corpus": {"a.jsonl": "f2"}}, "corpus file a.jsonl has changed"),
        ({"corpus": {}}, "corpus file a.jsonl is gone"),
        ({"corpus": {"a.jsonl": "f1", "b": "f"}}, "corpus file b is new"),
    ],
)
def test_a_difference_is_named_and_overwrite_starts_anew(tmp_path, change, words):
    folder = RunFolder(tmp_path)
    folder.begin(IDENTITY, overwrite=False)
    folder.begin(IDENTITY, overwrite=False)
    folder.scores.mkdir()
    with pytest.raises(ChangedInputError, match=words):
        folder.begin({**IDENTITY, **change}, overwrite=False)
    folder.begin({**IDENTITY, **change}, overwrite=True)
    assert not folder.scores.exists()


def test_another_amount_after_the_end_points_to_choose(tmp_path):
    folder = RunFolder(tmp_path)
    folder.begin(IDENTITY, overwrite=False)
    folder.finish({})
    with pytest.raises(ChangedInputError, match="corpusfit choose"):
        folder.begin({**IDENTITY, "choose": {"fraction": 0.2}}, overwrite=False)
    with pytest.raises(InputError, match="no scored corpus"):
        folder.require_scored()
