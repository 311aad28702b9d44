"""The folders of a hostile case, and command lines that run in them."""

from __future__ import annotations

import sys
import traceback
from dataclasses import dataclass
from pathlib import Path

from promises import SECRET, listing


@dataclass
class Box:
    """The folders of a case; all but `out`, `cache` and the temporary one stay as they are."""

    folder: Path
    model: Path

    def __post_init__(self) -> None:
        for name in ("given", "outside", "home", "tmp", "out", "cache"):
            setattr(self, name, self.folder / name)
            (self.folder / name).mkdir(parents=True)
        self.ran = self.folder / "home/ran"
        self.codes: list[int] = []
        self.faults: list[str] = []
        (self.outside / "secret.jsonl").write_text(f'{{"text": "{SECRET}"}}\n' * 30, "utf-8")

    def corpusfit(self, *words: object) -> int:
        """Run a command line in this process; returns its code."""
        import corpusfit.cli

        sys.argv = ["corpusfit", *map(str, words)]
        free = (self.out, self.cache, self.tmp, self.folder / "said")
        before = listing(self.folder, free)
        try:
            corpusfit.cli.main()
        except SystemExit as e:
            code = e.code if isinstance(e.code, int) else 1
        except BaseException:
            traceback.print_exc()
            code = -1
        after = listing(self.folder, free)
        changed = sorted(n for n in before | after if before.get(n) != after.get(n))
        self.faults += [f"`{words[0]}` changes {name!a}" for name in changed]
        if code not in (0, 1, 2):
            self.faults.append(f"`{words[0]}` ends with {code}")
        self.codes.append(code)
        return code
