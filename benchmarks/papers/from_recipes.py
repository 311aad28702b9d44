"""Make TADPOLE's Table 1, Figure 4 and Figure 5 from their recipes, with what follows from them.

Runs `examples/papers/tadpole_NAME_SCALE.toml` in WORK/NAME, or takes what is finished there, and
writes docs/results/NAME.md and NAME.json: the recipe's tables, a conclusion, the papers' figures.
Reference: TADPOLE, section 3.1, Table 1, Figures 4 and 5; DANA, Tables 1 and 2, Figure 3.

Run: .venv/bin/python benchmarks/papers/from_recipes.py WORK [--only NAME,…] [--scale cpu]
with $CORPUSFIT_DATA as in examples/papers/README.md.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(1, str(Path(__file__).parent.parent))

import corpusfit
from harness import machine
from report import first, standing

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "docs" / "results"
FOREST, TUNED = "isolation_forest", ", fine-tuned"
PAPER_F1 = {
    "robust_covariance": (0.89, 0.77, 0.86, 0.88, 0.78),
    "knn": (0.85, 0.88, 0.86, 0.96, 0.84),
    "pca": (0.92, 0.90, 0.95, 0.87, 0.86),
    "one_class_svm": (0.87, 0.89, 0.98, 0.81, 0.76),
    "lof": (0.92, 0.91, 0.91, 0.96, 0.88),
    FOREST: (0.96, 0.88, 0.98, 0.94, 0.92),
}
"""F1 on ChemProt, ACL-ARC, Hyperpartisan, IMDB (the first of two rows of that name) and SciERC."""
PAPER_KEPT = {"CS tasks": (0.7, 0.3, 78.0, 20.9), "bio abstracts": (2.0, 0.1, 15.4, 82.4)}
"""Percent of the retained bytes: news, finance, computer science, biology."""

Cells = dict[tuple[str, str], list[dict[str, Any]]]
"""By row and method, what was measured with each seed."""


def table1(cells: Cells) -> str:
    """Where the papers' best detector stands, and what differs from the papers."""
    said = []
    for corpus in dict.fromkeys(row.split(", ")[1] for row, _ in cells):
        f1 = _means({k: of for k, of in cells.items() if k[0].endswith(corpus)}, "f1")
        said.append(
            f"Against {corpus}, {first(f1, 'mean F1')}; {standing(f1, FOREST)}, of the paper's six "
            f"detectors {standing({m: f1[m] for m in PAPER_F1}, FOREST).partition('is ')[2]}."
        )
    theirs = {method: float(np.mean(values)) for method, values in PAPER_F1.items()}
    return (
        f"{' '.join(said)} In the paper {standing(theirs, FOREST)}, with BERT-base's vectors, all "
        "of each task's examples, and outliers from Wikipedia alone; all sources here hold the "
        "tasks' own domains. The paper does not say how it sets the threshold."
    )


def figure4(cells: Cells) -> str:
    """Whether the fine-tuned encoder separates worse, as the papers say."""
    plain, tuned = (
        [of["auroc"] for (row, _), s in cells.items() if row.endswith(TUNED) == kind for of in s]
        for kind in (False, True)
    )
    lost = np.array(plain) - np.array(tuned)
    spread = float(np.std(lost, ddof=1)) if len(lost) > 1 else 0.0
    worse = float(lost.mean()) > 2 * spread / np.sqrt(len(lost))
    verdict = "separates worse, as" if worse else "does not separate worse, unlike what"
    return (
        f"The fine-tuned encoder {verdict} the papers say: AUROC {np.mean(plain):.3f} with the "
        f"pretrained and {np.mean(tuned):.3f} with the fine-tuned one (a difference of "
        f"{lost.mean():+.3f} ± {spread:.3f} over {len(lost)} seeds). The papers show histograms "
        "without figures, of BERT-base fine-tuned on all of SST-2; here MiniLM learns from "
        f"{next(iter(cells.values()))[0]['texts']['train']:,} texts."
    )


def figure5(cells: Cells) -> str:
    """What the filter keeps of the target's own corpus, beside the papers."""
    own = {"CS tasks": "cs_*", "bio abstracts": "bio_asreview*"}
    said = []
    for target, source in own.items():
        share = {
            method: float(np.mean([_part(of["kept"]["0.2"], source) for of in seeds]))
            for (row, method), seeds in cells.items()
            if row == target
        }
        theirs = max(PAPER_KEPT[target])
        kept = " and ".join(f"{100 * value:.1f} % by `{m}`" for m, value in share.items())
        said.append(
            f"For the target {target}, {kept} of what is kept is of its own corpus; the paper has "
            f"{theirs:.1f} % with an {FOREST.replace('_', ' ')}"
        )
    return (
        f"{'. '.join(said)}. The papers count bytes of RealNews, TRC2-financial and abstracts of "
        "Semantic Scholar on BERT-base's vectors; here units of other sources of the same kinds "
        "are counted, a third of which is scored."
    )


CONCLUSIONS: dict[str, tuple[str, Callable[[Cells], str]]] = {
    "table1": ("TADPOLE, Table 1: anomaly detectors", table1),
    "figure4": ("TADPOLE, Figure 4 (DANA, Figure 3): an encoder fine-tuned on the task", figure4),
    "figure5": ("TADPOLE, Figure 5 (DANA, Table 2): filtering a union of corpora", figure5),
}


def main() -> None:
    """Run the recipes and write what was found."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("work", type=Path)
    parser.add_argument("--only", default=",".join(CONCLUSIONS))
    parser.add_argument("--scale", default="cpu", choices=("cpu", "paper"))
    parser.add_argument("--recipes", type=Path, default=ROOT / "examples" / "papers")
    parser.add_argument("--out", type=Path, default=RESULTS)
    asked = parser.parse_args()
    for name in asked.only.split(","):
        recipe = asked.recipes / f"tadpole_{name}_{asked.scale}.toml"
        path = corpusfit.run(recipe, out=asked.work / name).path
        write(asked.out, name, recipe.name, path)


def write(out: Path, name: str, recipe: str, path: Path) -> None:
    """A result's Markdown and JSON, from a finished recipe."""
    title, conclude = CONCLUSIONS[name]
    table, here = json.loads((path / "table.json").read_text("utf-8")), machine()
    measured = [(of["cell"], of["measured"]) for of in table["measurements"]]
    said = conclude({(cell["task"], cell["selector"]): seeds for cell, seeds in measured})
    tables = (path / "table.md").read_text("utf-8")
    made = (
        f"Made by `corpusfit run examples/papers/{recipe}`, on {here['cpu']}, at commit "
        f"{here['commit'][:9]}, {here['date'][:10]}."
    )
    paper = {"table1": _paper_table1, "figure5": _paper_figure5}.get(name, str)()
    parts = [f"# {title}", f"**{said}**", tables.strip(), paper, made]
    out.mkdir(parents=True, exist_ok=True)
    (out / f"{name}.md").write_text("\n\n".join(filter(None, parts)) + "\n", "utf-8")
    kept = {k: table[k] for k in ("results", "measurements")}
    content = {"name": name, "conclusion": said, **kept, "machine": here}
    text = json.dumps(content, indent=1, ensure_ascii=False)
    (out / f"{name}.json").write_text(text + "\n", "utf-8")


def _paper_table1() -> str:
    """The paper's F1, apart from ours."""
    head = "| the paper's F1 | ChemProt | ACL-ARC | Hyperpartisan | IMDB | SciERC |"
    rows = [f"| {m} | {' | '.join(f'{v:.2f}' for v in values)} |" for m, values in PAPER_F1.items()]
    return "\n".join([head, "|---" * 6 + "|", *rows])


def _paper_figure5() -> str:
    """The papers' composition, apart from ours."""
    head = "| the papers' % of retained bytes | news | finance | CS abstracts | bio abstracts |"
    rows = [f"| {t} | {' | '.join(map(str, values))} |" for t, values in PAPER_KEPT.items()]
    return "\n".join([head, "|---" * 5 + "|", *rows])


def _means(cells: Cells, key: str) -> dict[str, float]:
    """The mean over rows and seeds, by method."""
    found: dict[str, list[float]] = {}
    for (_, method), seeds in cells.items():
        found.setdefault(method, []).extend(of[key] for of in seeds)
    return {method: float(np.mean(values)) for method, values in found.items()}


def _part(counts: dict[str, int], name: str) -> float:
    return counts.get(name, 0) / max(1, sum(counts.values()))


if __name__ == "__main__":
    main()
