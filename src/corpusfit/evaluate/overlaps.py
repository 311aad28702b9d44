"""What the splits of a task have in common: texts of dev and test that train has too.

What: how many examples of one split are in another, how many are twice in their own, and how many
of these are so to the letter, or bear another label.
Why: a model that has seen a dev text picks the epoch that remembers best, and a test text that it
has seen measures memory.
Trade-off: texts are the same when their letters and digits are, case folded. So are the examples
of a task that marks other entities in the same sentence (ChemProt, SciERC): these are not identical
and may well bear other labels. Near-duplicates are left to `contamination`.
Reference: Aharoni and Goldberg (2020), section 3.1, appendix A.2 and Table 8.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from corpusfit.adapt.keys import text_keys
from corpusfit.evaluate.task import Examples, Task


@dataclass(frozen=True)
class Overlap:
    """Examples of one split that are in another, or were before in the same one.

    Attributes:
        split: whose examples are counted.
        within: where they are looked for; the split itself for duplicates.
        examples: of the split.
        shared: those whose text is there.
        identical: those of them that are there to the letter.
        relabelled: those of them whose label that text never has there; for duplicates, those
            whose label differs from every one before.
    """

    split: str
    within: str
    examples: int
    shared: int
    identical: int
    relabelled: int

    @property
    def share(self) -> float:
        """In [0, 1]."""
        return self.shared / self.examples if self.examples else 0.0

    def __str__(self) -> str:
        """In words."""
        where = "copies of others" if self.split == self.within else f"in {self.within} too"
        counts = f"{self.shared:,} of {self.examples:,} texts ({100 * self.share:.1f} %)"
        more = f" ({self.identical:,} to the letter, {self.relabelled:,} with another label)"
        return f"{self.split}: {counts} are {where}{more if self.shared else ''}."


@dataclass(frozen=True)
class Overlaps:
    """What the splits have in common.

    Attributes:
        between: of dev in train, test in train, and test in dev.
        duplicates: of train, dev and test, each within itself: copies beside the first.
    """

    between: tuple[Overlap, ...]
    duplicates: tuple[Overlap, ...]

    def as_dict(self) -> dict[str, Any]:
        """Plain values, with the shares in [0, 1]."""
        return {
            name: [asdict(overlap) | {"share": overlap.share} for overlap in found]
            for name, found in (("between", self.between), ("duplicates", self.duplicates))
        }

    def notes(self) -> list[str]:
        """A sentence for every overlap there is."""
        return [str(overlap) for overlap in (*self.between, *self.duplicates) if overlap.shared]


@dataclass(frozen=True)
class _Seen:
    """What was seen of a text: how it was written, and its labels (one for every word)."""

    texts: set[str] = field(default_factory=set)
    labels: set[tuple[int, ...]] = field(default_factory=set)


def overlaps(task: Task) -> Overlaps:
    """Count what the splits of a task have in common.

    For tagging, a sentence bears another label when any word's tag differs, or its words are cut
    otherwise.
    """
    splits = {"train": task.train, "dev": task.dev, "test": task.test}
    rows = {split: _rows(examples) for split, examples in splits.items()}
    seen: dict[str, dict[int, _Seen]] = {split: {} for split in splits}
    duplicates = tuple(_counted(s, s, rows[s], seen[s], adding=True) for s in splits)
    pairs = (("dev", "train"), ("test", "train"), ("test", "dev"))
    between = tuple(_counted(a, b, rows[a], seen[b], adding=False) for a, b in pairs)
    return Overlaps(between, duplicates)


_Row = tuple[int, str, tuple[int, ...]]
"""The key, the text and the labels of an example."""


def _rows(examples: Examples) -> list[_Row]:
    texts = examples.texts()
    return list(zip(text_keys(texts).tolist(), texts, map(tuple, examples.labels), strict=True))


def _counted(
    split: str, within: str, rows: list[_Row], seen: dict[int, _Seen], *, adding: bool
) -> Overlap:
    """Look every example up among those seen; add it to them, if that is asked for."""
    shared = identical = relabelled = 0
    for key, text, labels in rows:
        if key in seen:
            shared += 1
            identical += text in seen[key].texts
            relabelled += labels not in seen[key].labels
        if adding:
            known = seen.setdefault(key, _Seen())
            known.texts.add(text)
            known.labels.add(labels)
    return Overlap(split, within, len(rows), shared, identical, relabelled)
