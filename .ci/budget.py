"""Check the lines of each room against its budget in pyproject.toml; part of `make lint`.

Prints every room with its lines and its budget, and exits with 1 if one is above it. All text files
count that a wheel has, not Python alone. A budget is lowered in the commit that makes room; lines
may move from one room's budget to another's, and the sum is not raised.
"""

from __future__ import annotations

import subprocess
import sys
import tomllib
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parents[1]
BUDGET = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["corpusfit"]["budget"]
CODE = (".py", ".pyi", ".toml", ".html", ".css", ".js", ".sh", ".c")


def counted(path: str) -> tuple[str, int]:
    """The room of a file, empty if it has none, and what counts of it: lines, or words of docs."""
    file = ROOT / path
    if path.startswith("docs/"):
        if file.suffix != ".md":
            return "", 0
        return "docs, words", len(file.read_text("utf-8").split())
    if file.suffix not in CODE:
        return "", 0
    lines = file.read_bytes().count(b"\n")
    for room in sorted(BUDGET, key=len, reverse=True):  # the innermost folder counts
        if path.startswith(f"{room}/"):
            return room, lines
    return ("src/corpusfit", lines) if path.startswith("src/") else ("", 0)


def main() -> int:
    """Print the table; 1 if a room is above its budget, else 0."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    ).stdout.splitlines()
    found: Counter[str] = Counter()
    for path in listed:
        if (ROOT / path).is_file():
            room, amount = counted(path)
            found[room] += amount
    above = [room for room, most in BUDGET.items() if found[room] > most]
    for room, most in BUDGET.items():
        mark = " ABOVE" if room in above else ""
        print(f"{found[room]:7,} of {most:7,}  {room}{mark}")
    if above:
        print("Make room: fewer things, not denser lines. The sum of the budgets is not raised.")
    return int(bool(above))


if __name__ == "__main__":
    sys.exit(main())
