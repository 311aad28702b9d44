"""Classifiers of others, as methods name them: `[-]MODEL[#LABEL]`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from corpusfit.core.errors import ModelError, bad_setting
from corpusfit.text import fingerprint


class Classifier(NamedTuple):
    """A classifier and what of it is the score."""

    model: str
    label: str  # empty: its only output
    lower: bool  # whether lower scores are better

    @classmethod
    def of(cls, argument: str) -> Classifier:
        """Parse what stands behind the colon of a method."""
        model, _, label = argument.removeprefix("-").partition("#")
        return cls(model, label, argument.startswith("-"))

    def place_in(self, labels: Sequence[str], method: str) -> int:
        """The number of the label among those of the model."""
        if not self.label and len(labels) == 1:
            return 0
        if self.label not in labels:
            some = ", ".join(labels[:_LISTED]) + ", …" * (len(labels) > _LISTED)
            cure = f"Write it behind the name: {method}:{self.model}#{labels[0]}."
            allowed = f"one of those of {self.model}: {some}"
            raise bad_setting("The label of a classifier", allowed, self.label or "nothing", cure)
        return list(labels).index(self.label)

    def meaning(self, quantity: str) -> str:
        """What a score is, in a sentence."""
        negated = ", negated, as lower is better" if self.lower else ""
        return f"The score is {quantity} of {self.model}{negated}."


_LISTED = 20


def digest_of(files: Sequence[Path]) -> str:
    """A digest of the content of a model's files."""
    return " ".join(fingerprint(str(file))[0] for file in files)


def require_same(files: Sequence[Path], digest: str, model: str) -> None:
    """Raise `ModelError` unless the files of a model are those that a scorer was made with."""
    if digest_of(files) != digest:
        raise ModelError(
            f"The model {model} changed since the corpus was scored with it. Restore the model, or "
            "score again with another `out`."
        )
