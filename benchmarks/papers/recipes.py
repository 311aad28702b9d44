"""Make the results of the papers' recipes: run each with the cells at hand, write its tables.

A recipe's finished cells are in benchmarks/papers/cells, so only missing ones are computed, on any
machine. Writes docs/results/NAME.md, the run's tables under two sentences that follow from them,
and NAME.json with every score.

Run: .venv/bin/python benchmarks/papers/recipes.py WORK [NAME …] [--only TASK …]
WORK is a folder for selections and models; the recipes want CORPUSFIT_DATA and CORPUSFIT_MODELS.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

sys.path.insert(1, str(Path(__file__).parent.parent))

import corpusfit
from corpusfit.evaluate.tables import markdown
from harness import machine

ROOT = Path(__file__).parents[2]
CELLS = ROOT / "benchmarks" / "papers" / "cells"
RESULTS = ROOT / "docs" / "results"

PAPERS = {
    "tadpole_table3": (
        "TADPOLE's Table 3 has gains over the base of +0.11 (general), +0.15 (random), +0.20 "
        "(task), +0.34 (Moore-Lewis), +0.34 (centroid distance) and +1.82 points (isolation "
        "forest)"
    ),
    "tadpole_augmentation": (
        "TADPOLE's Table 3 has gains of +0.48 points for augmentation, +1.82 for isolation "
        "forest and +2.10 for both"
    ),
    "tadpole_figure6": (
        "TADPOLE's Figure 6 shows little difference between 2 and 20 % of the corpus"
    ),
    "tadpole_learning_curve": (
        "in TADPOLE's Table 3 the gain of isolation forest falls from +2.16 points with 500 "
        "examples to +0.74 with 20,000"
    ),
    "tadpole_figure3": (
        "in TADPOLE's Figure 3, of models that fit general text equally well, the one that fits"
        " the task's text better scores better"
    ),
    "dana_continuous": (
        "TADPOLE's Table 4 has a selection ahead of continuous weights on all nine tasks, also "
        "with six times the steps, and its Table 5 has the true domain ahead of the selection "
        "on six of eight"
    ),
    "textgram_table3": (
        "TextGram's Table 3 has an F1 on IMDB of 90.73 (random), 90.97 (n-grams), 90.99 "
        "(perplexity), 90.77 (cross-entropy), 90.47 (TextRank) and 91.02 (TextGram)"
    ),
    "mdapt_table5": (
        "mDAPT's Table 5 has the task's own domain ahead of the other on all nine tasks"
    ),
}
"""What each paper found, by recipe."""
DIFFERS = (
    "the paper's model is BERT-base (mDAPT's the multilingual one), trained for 50,000 steps on "
    "gigabytes of text; ours has 17 million weights and the recipe's steps and examples, and its "
    "corpus holds the tasks' own domains"
)


def main() -> None:
    """Run, conclude, write."""
    asked = arguments()
    for name in asked.names or PAPERS:
        recipe = ROOT / "examples" / "papers" / f"{name}_cpu.toml"
        ran = corpusfit.run(recipe, out=asked.work / name, cells=CELLS, only=asked.only)
        if ran.judged.failed:
            sys.exit(f"{name}: {len(ran.judged.failed)} cells failed")
        found = json.loads((ran.path / "table.json").read_text("utf-8"))
        here = machine()
        kept = {key: found[key] for key in ("results", "pairs", "gains", "forecasts", "costs")}
        content = {"name": name, **kept, "versions": found["versions"], "machine": here}
        write(RESULTS / f"{name}.json", json.dumps(content, indent=1) + "\n")
        made = f"Written at commit {here['commit'][:9]}, {here['date'][:10]}."
        parts = [
            f"# {found['recipe']['name']}",
            f"{conclusion(found)} For comparison: {PAPERS[name]}; {DIFFERS}.",
            f"Made by [{recipe.name}](../../examples/papers/{recipe.name}), which has every setting"
            + (f"; rows of {', '.join(asked.only)} only." if asked.only else "."),
            *(markdown(table).strip() for table in ran.tables),
            made,
        ]
        write(RESULTS / f"{name}.md", "\n\n".join(parts) + "\n")


def arguments() -> argparse.Namespace:
    """The command line's arguments."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("work", type=Path, metavar="WORK")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(PAPERS)}")
    parser.add_argument("--only", action="append", default=[], metavar="TASK")
    return parser.parse_args()


def conclusion(found: Mapping[str, Any]) -> str:
    """Two sentences on a recipe's results: the columns by gain, and the comparisons."""
    gains = sorted(found["gains"], key=lambda gain: -gain["mean"])
    rows = len({(*r["cell"].values(),)[:2] for r in found["results"]})
    by_gain = ", ".join(
        f"`{gain['column']}` {100 * gain['mean']:+.1f}"
        + (f" ({gain['size']:,} examples)" if gain["size"] else "")
        for gain in gains
    )
    shown = [p for p in found["pairs"] if p["adjusted"] < 0.05]
    better = [
        f"`{p['column']}` and `{p['base']}` on {p['row'][0]} "
        f"({100 * p['comparison']['difference']:+.1f})"
        for p in shown
    ]
    return (
        f"Mean gain over the base in points, of {rows} row{'s' * (rows > 1)}: {by_gain}. Of "
        f"{len(found['pairs'])} comparisons {len(shown)} show a difference after Holm's correction"
        + (f": {'; '.join(better)}." if better else ".")
    )


def write(path: Path, text: str) -> None:
    """Write a text file."""
    path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
