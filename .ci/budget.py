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
    """The room of a file, its innermost folder with a budget, and its lines; docs are in words."""
    file = ROOT / path
    room = max((room for room in BUDGET if path.startswith(f"{room}/")), key=len, default="")
    if room == "docs":
        return room, len(file.read_text("utf-8").split()) if file.suffix == ".md" else 0
    return room, file.read_bytes().count(b"\n") if file.suffix in CODE else 0


def main() -> int:
    """Print the table; 1 if a room is above its budget, else 0."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    found: Counter[str] = Counter()
    for path in listed.splitlines():
        if (ROOT / path).is_file():
            room, amount = counted(path)
            found[room] += amount
    above = [room for room, most in BUDGET.items() if found[room] > most]
    for room, most in BUDGET.items():
        print(f"{found[room]:7,} of {most:7,}  {room}{' ABOVE' if room in above else ''}")
    if above:
        print("Make room by fewer things, not by denser lines; the sum is not raised.")
    return int(bool(above))


if __name__ == "__main__":
    sys.exit(main())
