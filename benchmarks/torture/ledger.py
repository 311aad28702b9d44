"""The ledger: what was tried, what failed, and how to repeat a case."""

from __future__ import annotations

import datetime as dt
import json
import os
import platform
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path


@dataclass
class Outcome:
    """What a case did.

    Attributes:
        counts: how often each thing was tried, such as `kills`.
        of: what it was tried on, such as a command.
        broken: each promise that did not hold, in a sentence.
    """

    counts: Counter[str]
    of: str
    broken: list[str] = field(default_factory=list)


class Ledger:
    """Counts by campaign, kept in a JSON file that grows from run to run.

    Several processes may share a file if they run different campaigns.

    Args:
        path: the file; one that is there is continued.
        commit: of what is tried; another commit's counts stand beside it.
    """

    def __init__(self, path: Path, commit: str) -> None:
        self._path = path
        self._commit = commit
        self._read()

    def _read(self) -> None:
        self._all = json.loads(self._path.read_text("utf-8")) if self._path.exists() else {}
        machine = f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores"
        self._own = self._all.setdefault(self._commit, {"machine": machine, "campaigns": {}})

    def next_seed(self, campaign: str) -> int:
        """The first seed of a campaign that was not tried, at whatever commit."""
        entries = (own["campaigns"].get(campaign, {}) for own in self._all.values())
        return max(int(entry.get("seeds", 0)) for entry in entries)

    def add(self, campaign: str, seed: int, outcome: Outcome, seconds: float) -> None:
        """Write a case down."""
        self._read()
        entry = self._own["campaigns"].setdefault(
            campaign, {"seeds": 0, "seconds": 0.0, "counts": {}, "broken": []}
        )
        entry["seeds"] = max(entry["seeds"], seed + 1)
        entry["seconds"] = round(entry["seconds"] + seconds, 1)
        counts = entry["counts"].setdefault(outcome.of, {})
        for name, count in outcome.counts.items():
            counts[name] = counts.get(name, 0) + count
        entry["broken"] += [
            {"case": f"{campaign}:{seed}", "of": outcome.of, "promise": words}
            for words in outcome.broken
        ]
        self._own["last"] = dt.datetime.now(dt.UTC).isoformat(timespec="seconds")
        beside = self._path.with_suffix(".new")
        beside.write_text(json.dumps(self._all, indent=1, sort_keys=True) + "\n", "utf-8")
        beside.replace(self._path)

    def totals(self) -> dict[str, Counter[str]]:
        """Counts of all commits by campaign, with `broken`."""
        found: dict[str, Counter[str]] = {}
        for entry in (e for own in self._all.values() for e in own["campaigns"].items()):
            total = found.setdefault(entry[0], Counter())
            total["broken"] += len(entry[1]["broken"])
            for counts in entry[1]["counts"].values():
                total.update(counts)
        return found
