"""Read a folder for each class, with a text in each `.txt` file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from corpusfit.core.errors import EmptyInputError, InputError
from corpusfit.labeled.formats import Labeled, whole_text

# Names of folders of texts without a label, as `train/unsup` of the Large Movie Review Dataset.
_UNLABELED = ("unsup", "unsupervised", "unlabeled")


def read_classes(places: Sequence[str], split: str) -> Labeled:
    """Read the texts of a split; the label of a text is the name of its folder.

    Reference: Maas et al. (2011), Large Movie Review Dataset; scikit-learn's `load_files`.
    """
    paths = list(map(Path, places))
    # a folder that has the folders of classes is none, and its own files are lists or READMEs
    parents = {path.parent.parent for path in paths}
    outside = [path for path in paths if path.parent in parents]
    of_classes = [path for path in paths if path.parent not in parents]
    unlabeled = [path for path in of_classes if path.parent.name.lower() in _UNLABELED]
    pieces: list[list[str]] = []
    labels: list[list[str]] = []
    blank: list[Path] = []
    for path in of_classes:
        label = path.parent.name
        if label.lower() in _UNLABELED:
            continue
        text = whole_text(path).removeprefix("\ufeff").replace("\r\n", "\n").strip()
        if text:
            pieces.append([text])
            labels.append([label])
        else:
            blank.append(path)
    if not pieces:
        raise EmptyInputError(f"The {split} split of `task` must hold texts; its files are empty.")
    classes = sorted({label for (label,) in labels})
    if len(classes) == 1:
        raise InputError(
            f"The {split} split of `task` must hold a folder for each class; it has texts of "
            f"{classes[0]!r} alone. If the archive is unpacked in part, unpack it again."
        )
    notes = [
        f"{len(files):,} .txt files of {split} were left out: {why} (for instance "
        f"{files[0].parent.name}/{files[0].name})."
        for files, why in (
            (unlabeled, "they have no label"),
            (outside, "they are in no folder of a class"),
            (blank, "they are empty"),
        )
        if files
    ]
    return Labeled(pieces, labels, tuple(notes))
