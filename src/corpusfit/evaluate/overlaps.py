"""What the splits of a task have in common: texts of dev and test that train has too.

What: how many examples of one split are in another, how many are twice in their own, and how many
of these bear another label.
Why: a model that has seen a dev text picks the epoch that remembers best, and a test text that it
has seen measures memory.
Trade-off: texts are the same when their letters and digits are, case folded; near-duplicates are
left to `contamination`.
Reference: Aharoni and Goldberg (2020), section 3.1, appendix A.2 and Table 8.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from corpusfit.evaluate.task import Examples, Task
from corpusfit.kernels.sametext import text_keys

__all__ = ["Overlap", "Overlaps", "overlaps"]


@dataclass(frozen=True)
class Overlap:
    """Examples of one split that are in another, or were before in the same one.

    Attributes:
        split: whose examples are counted.
        within: where they are looked for; the split itself for duplicates.
        examples: of the split.
        shared: those whose text is there.
        relabelled: those of them whose label that text never has there; for duplicates, those
            whose label differs from every one before.
    """

    split: str
    within: str
    examples: int
    shared: int
    relabelled: int

    @property
    def share(self) -> float:
        """In [0, 1]."""
        return self.shared / self.examples if self.examples else 0.0

    def __str__(self) -> str:
        """In words."""
        where = "copies of others" if self.split == self.within else f"in {self.within} too"
        other = f", {self.relabelled:,} of them with another label" if self.relabelled else ""
        counts = f"{self.shared:,} of {self.examples:,} texts ({100 * self.share:.1f} %)"
        return f"{self.split}: {counts} are {where}{other}."


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


_Seen = dict[int, set[tuple[int, ...]]]
"""By the key of a text, the labels it has; of a sentence one for every word."""


def overlaps(task: Task) -> Overlaps:
    """Count what the splits of a task have in common.

    For tagging, a sentence bears another label when any word's tag differs.
    """
    splits = {"train": task.train, "dev": task.dev, "test": task.test}
    seen: dict[str, _Seen] = {}
    duplicates = []
    keys = {split: text_keys(examples.texts()).tolist() for split, examples in splits.items()}
    for split, examples in splits.items():
        seen[split] = {}
        duplicates.append(_counted(split, split, keys[split], examples, seen[split], adding=True))
    pairs = (("dev", "train"), ("test", "train"), ("test", "dev"))
    between = [_counted(a, b, keys[a], splits[a], seen[b], adding=False) for a, b in pairs]
    return Overlaps(tuple(between), tuple(duplicates))


def _counted(
    split: str, within: str, keys: list[int], examples: Examples, seen: _Seen, *, adding: bool
) -> Overlap:
    """Look every example up among those seen; add it to them, if that is asked for."""
    shared = relabelled = 0
    for key, labels in zip(keys, map(tuple, examples.labels), strict=True):
        known = seen.get(key)
        if known is not None:
            shared += 1
            relabelled += labels not in known
        if adding:
            seen.setdefault(key, set()).add(labels)
    return Overlap(split, within, len(examples), shared, relabelled)
