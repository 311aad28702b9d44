"""Overlap between the splits of a task: normalised and exact copies, and their labels."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from corpusfit.evaluation.task import Task
from corpusfit.text.same_text import exact_key, text_keys


@dataclass(frozen=True)
class Overlap:
    """Examples of one split that are also in another, or earlier in the same split.

    Attributes:
        split: split whose examples are counted.
        within: split that is searched; `split` itself for duplicates.
        examples: number of examples of `split`.
        shared: examples with a normalised copy: the same text, see `corpus.same_text`.
        identical: shared examples with an exact copy, in any Unicode form.
        relabelled: shared examples whose label none of the copies has.
    """

    split: str
    within: str
    examples: int
    shared: int
    identical: int
    relabelled: int

    @property
    def share(self) -> float:
        """Share of the examples, in [0, 1]."""
        return self.shared / self.examples if self.examples else 0.0

    def __str__(self) -> str:
        """A sentence with the counts."""
        where = "copies of earlier ones" if self.split == self.within else f"also in {self.within}"
        counts = f"{self.shared:,} of {self.examples:,} texts ({100 * self.share:.1f} %)"
        more = f" ({self.identical:,} exact, {self.relabelled:,} with another label)"
        return f"{self.split}: {counts} are {where}{more if self.shared else ''}."


@dataclass(frozen=True)
class Overlaps:
    """Overlaps between the splits of a task, and duplicates within each.

    Attributes:
        between: dev in train, test in train, and test in dev.
        duplicates: copies after the first, within train, dev and test.
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
        """A sentence for every overlap that is not empty."""
        return [str(overlap) for overlap in (*self.between, *self.duplicates) if overlap.shared]


def split_overlaps(task: Task) -> Overlaps:
    """Count copies between and within the splits of a task.

    In tagging, a sentence has another label if any word's tag or the tokenisation differs. Tasks
    that mark different entities in one sentence (ChemProt, SciERC) share examples that are not
    exact and may well have other labels. Near-duplicates are found by `contamination`.

    Reference: Aharoni and Goldberg (2020), section 3.1, appendix A.2 and Table 8.
    """
    splits = {"train": task.train, "dev": task.dev, "test": task.test}
    rows: dict[str, list[_Row]] = {}
    for split, examples in splits.items():
        texts, labels = examples.texts(), map(tuple, examples.labels)
        exact = [exact_key(text.encode("utf-8", "surrogatepass")) for text in texts]
        rows[split] = list(zip(text_keys(texts).tolist(), exact, labels, strict=True))
    seen: dict[str, _Seen] = {split: {} for split in splits}
    duplicates = tuple(_counted(s, s, rows[s], seen[s], adding=True) for s in splits)
    pairs = (("dev", "train"), ("test", "train"), ("test", "dev"))
    between = tuple(_counted(a, b, rows[a], seen[b], adding=False) for a, b in pairs)
    return Overlaps(between, duplicates)


_Row = tuple[int, int, tuple[int, ...]]
"""The key, the exact key and the labels of an example (one label for each word)."""
_Seen = dict[int, tuple[set[int], set[tuple[int, ...]]]]
"""The exact keys and labels of the texts with a key."""


def _counted(split: str, within: str, rows: list[_Row], seen: _Seen, *, adding: bool) -> Overlap:
    """Count the examples whose key was seen before; with `adding`, add each to those seen."""
    shared = identical = relabelled = 0
    for key, exact, labels in rows:
        if key in seen:
            shared += 1
            identical += exact in seen[key][0]
            relabelled += labels not in seen[key][1]
        if adding:
            known = seen.setdefault(key, (set(), set()))
            known[0].add(exact)
            known[1].add(labels)
    return Overlap(split, within, len(rows), shared, identical, relabelled)
