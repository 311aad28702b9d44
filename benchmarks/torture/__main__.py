"""Try at random whether corpusfit keeps its promises, and count in a ledger what was tried.

Promises: the same bytes after any interruption, nothing lost or doubled, bad input and a fault of
the machine are events with a message, nothing is executed or written elsewhere.

Run: python benchmarks/torture [--minutes N] [--only CAMPAIGN] [--case CAMPAIGN:SEED] …
"""

from __future__ import annotations

import argparse
import itertools
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from commands import make_model
from faults import fault
from foes import foe
from fuzz import fuzz
from kills import kill
from ledger import Ledger

CAMPAIGNS = {
    "kills": kill,
    "faults": fault,
    "foes": foe,
    "fuzz": fuzz,
}
LEDGER = Path(__file__).parents[1] / "results/torture.json"


def main() -> int:
    """Run cases until the time is over; the exit status is 1 if a promise was broken."""
    words = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    words.add_argument("--minutes", type=float, default=60, help="time to spend (default: 60)")
    words.add_argument("--cases", type=int, help="number of cases, instead of a time")
    words.add_argument("--only", choices=tuple(CAMPAIGNS), help="one campaign (default: in turn)")
    words.add_argument("--of", help="what to try it on, such as one command (default: drawn)")
    words.add_argument("--case", help="repeat one case, CAMPAIGN:SEED, and write nothing down")
    words.add_argument("--ledger", type=Path, default=LEDGER, help=f"default: {LEDGER.name}")
    words.add_argument("--folder", type=Path, help="where to work (default: a temporary one)")
    given = words.parse_args()
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], cwd=Path(__file__).parent,
        capture_output=True, text=True, check=True,
    ).stdout.strip()  # fmt: skip
    with tempfile.TemporaryDirectory(prefix="torture-") as temporary:
        root = given.folder or Path(temporary)
        if not (root / "base/model/model.safetensors").exists():
            make_model(root / "base")
        if given.case:
            campaign, seed = given.case.split(":")
            outcome = CAMPAIGNS[campaign](int(seed), root, given.of)
            print(outcome)
            return bool(outcome.broken)
        return _run(given, Ledger(given.ledger, commit), root)


def _run(given: argparse.Namespace, ledger: Ledger, root: Path) -> int:
    names = [given.only] if given.only else list(CAMPAIGNS)
    until = time.monotonic() + 60 * given.minutes
    broken = 0
    for done, name in enumerate(itertools.cycle(names)):
        over = done >= given.cases if given.cases else time.monotonic() >= until
        if over:
            break
        seed = ledger.next_seed(name)
        began = time.monotonic()
        outcome = CAMPAIGNS[name](seed, root, given.of)
        ledger.add(name, seed, outcome, time.monotonic() - began)
        broken += len(outcome.broken)
        print(f"{name}:{seed} {outcome.of} {dict(outcome.counts)}", *outcome.broken, sep="\n  ")
    print(ledger.totals())
    return bool(broken)


if __name__ == "__main__":
    sys.exit(main())
