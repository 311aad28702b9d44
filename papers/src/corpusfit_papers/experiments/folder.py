"""The folder of a recipe."""

from __future__ import annotations

from pathlib import Path

from corpusfit.contracts import write_bytes
from corpusfit.core.artifacts import names_in, remove
from corpusfit.core.manifest import OutFolder


class RecipeFolder(OutFolder):
    """The folder of a recipe's steps and tables; a step's files are named by its digest."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.tasks = path / "tasks"
        self.selections = path / "selections"
        self.models = path / "models"
        self.companions = path / "companions"
        self.scores = path / "scores"
        self.comparisons = path / "comparisons"
        self.costs = path / "costs"
        self.failures = path / "failures"

    def task(self, key: str) -> Path:
        """A stored task."""
        return self.tasks / f"{key}.json"

    def texts(self, key: str, split: str) -> Path:
        """The texts of a stored task's split, without their labels."""
        return self.tasks / key / f"{split}.jsonl"

    def pairs(self, key: str, split: str) -> Path:
        """The texts of a stored translation task's split, with their translations."""
        return self.tasks / key / f"{split}.tsv"

    def outcome(self, key: str, seed: int) -> Path:
        """File of a fine-tuning's outcome."""
        return self.scores / f"{key}-{seed}.json"

    def augmented(self, key: str) -> Path:
        """A stored task with augmented examples."""
        return self.companions / f"{key}.json"

    def exchange(self, cells: Path) -> None:
        """Exchange small files of finished steps with a folder, in both directions."""
        # scores, predictions, losses, times and how each model was trained, but no selection and
        # no model
        for ours in (self.scores, self.costs):
            theirs = cells / ours.name
            our_names = names_in(ours)
            their_names = names_in(theirs)
            for source, to, names in (
                (theirs, ours, their_names - our_names),
                (ours, theirs, our_names - their_names),
            ):
                for name in sorted(names):
                    write_bytes(to / name, (source / name).read_bytes())

    def _has_work(self) -> bool:
        return any(f.is_dir() for f in (self.selections, self.models, self.companions, self.scores))

    def _clear(self) -> None:
        super()._clear()
        remove(self.tasks, self.selections, self.models, self.companions, self.scores)
        remove(self.path / "forecasts", self.comparisons, self.costs, self.failures)
        remove(*self.path.glob("table.*"))
