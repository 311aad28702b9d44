"""Make the papers' tables that are recipes, with what follows from them.

Runs `papers/recipes/NAME_SCALE.toml` in WORK/NAME, and writes papers/results/NAME.md and NAME.json:
a conclusion, the tables, the paper's figures. Recipes take finished cells from
papers/tables/cells and add to them, so a table may grow row by row (`--only`). `predictors.py`
adds what was known before fine-tuning; files with `[separation]` are measured by `separation.py`.

Run: .venv/bin/python papers/tables/from_recipes.py WORK [NAME …] [--only TASK …] [--scale cpu]
with $CORPUSFIT_DATA and $CORPUSFIT_MODELS as in papers/recipes/README.md.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(1, str(Path(__file__).parents[2] / "benchmarks"))

import corpusfit_papers
import predictors
import separation
from corpusfit.evaluation.significance import LEVEL, holm
from cross_domain import cross_domain
from harness import machine
from report import first, standing

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "papers" / "results"
CELLS = ROOT / "papers" / "tables" / "cells"
FOREST, TUNED = "isolation_forest", ", fine-tuned"
PAPER_TASKS = ("ChemProt", "ACL-ARC", "Hyperpartisan", "RCT20k", "IMDB", "SciERC", "Helpfulness")
PAPER_F1 = {
    "robust_covariance": (0.89, 0.77, 0.86, 0.85, 0.88, 0.78, 0.82),
    "knn": (0.85, 0.88, 0.86, 0.88, 0.96, 0.84, 0.89),
    "pca": (0.92, 0.90, 0.95, 0.82, 0.87, 0.86, 0.83),
    "one_class_svm": (0.87, 0.89, 0.98, 0.76, 0.81, 0.76, 0.76),
    "lof": (0.92, 0.91, 0.91, 0.87, 0.96, 0.88, 0.83),
    FOREST: (0.96, 0.88, 0.98, 0.93, 0.94, 0.92, 0.92),
}
"""F1 on `PAPER_TASKS`; IMDB is the first of two rows of that name."""
PAPER_KEPT = {"CS tasks": (0.7, 0.3, 78.0, 20.9), "bio abstracts": (2.0, 0.1, 15.4, 82.4)}
"""Percent of the retained bytes: news, finance, computer science, biology."""

Cells = dict[tuple[str, str], list[dict[str, Any]]]
"""By row and method, what was measured with each seed."""


def table1(cells: Cells) -> str:
    """Where the papers' best detector stands, and what differs from the papers."""
    said = []
    # a row of a recipe with one corpus does not name it
    corpora = dict.fromkeys(row.partition(", ")[2] for row, _ in cells)
    for corpus in corpora:
        f1, auroc = (
            _means({k: of for k, of in cells.items() if k[0].endswith(corpus)}, key)
            for key in ("f1", "auroc")
        )
        # A threshold that fails puts a detector last by F1, whatever its order of the texts is.
        of_f1, of_auroc = (
            standing({m: means[m] for m in PAPER_F1}, FOREST).partition("is ")[2]
            for means in (f1, auroc)
        )
        said.append(
            f"Against {corpus or 'the corpus'}, {first(f1, 'mean F1')}; {standing(f1, FOREST)}, of "
            f"the paper's six detectors {of_f1}, and by AUROC, which has no threshold, {of_auroc}."
        )
    ours = {row.split(", ")[0] for row, _ in cells}
    theirs = {
        method: float(np.mean([f1 for t, f1 in zip(PAPER_TASKS, values, strict=True) if t in ours]))
        for method, values in PAPER_F1.items()
    }
    mixed = "; all sources here hold the tasks' own domains" if "all sources" in corpora else ""
    return (
        f"{' '.join(said)} In the paper {standing(theirs, FOREST)} on these tasks, with "
        "BERT-base's vectors, all of each task's examples, and outliers from Wikipedia alone"
        f"{mixed}. The paper does not say how it sets the threshold."
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
    verdict = "separates worse, as" if worse else "is not shown to separate worse, unlike what"
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


PAPERS = {
    "tadpole_table3": (
        "TADPOLE's Table 3 has gains over the base of +0.11 (general), +0.15 (random), +0.20 "
        "(task), +0.34 (Moore-Lewis), +0.34 (centroid distance) and +1.82 points (isolation "
        "forest)"
    ),
    "tadpole_table6": (
        "TADPOLE's Table 6 has mean gains over the base of +0.02 (general), +0.04 (random), +0.11 "
        "(task), +0.18 (Moore-Lewis), +0.09 (centroid distance) and +0.36 points (isolation forest)"
    ),
    "tadpole_augmentation": (
        "TADPOLE's Table 3 has gains of +0.48 points for augmentation, +1.82 for isolation "
        "forest and +2.10 for both"
    ),
    "tadpole_figure6": (
        "TADPOLE's Figure 6 shows little difference between 2 and 20 % of the corpus"
    ),
    "tadpole_learning_curve": (
        "In TADPOLE's Table 3 the gain of isolation forest falls from +2.16 points with 500 "
        "examples to +0.74 with 20,000"
    ),
    "tadpole_figure3": (
        "In TADPOLE's Figure 3, of models that fit general text equally well, the one that fits"
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
    "mdapt_table4": (
        "mDAPT's Table 4 has mean gains over multilingual BERT of +0.29 (E_D), +0.73 (M_D+E_D) and "
        "+0.66 points (M_D+M_WIKI), with adapters +1.32, +2.39 and +1.87; the model of one "
        "language is +1.14 and +2.03 ahead of it, where here one English model is both `base` and "
        "`mono`"
    ),
    "mdapt_table5": (
        "These models are adapted on all text of a domain, the control on that of the other. "
        "mDAPT's Table 5, whose models are adapted on the best composition of each task and its "
        "counterpart, has the task's own domain ahead of the other on eight of nine tasks, and on "
        "one of the titles' two tasks between two models of the other"
    ),
    "domain_clusters_table6": (
        "Domain Clusters' Table 6 has mean gains over random of +3.96 BLEU (Moore-Lewis), +3.54 "
        "(Domain-Cosine), +4.34 (Domain-Finetune, top), +3.62 (its positives), +3.42 (oracle) and "
        "+3.30 (all)"
    ),
}
"""What each paper found, by recipe that adapts models."""
OURS = "ours has 17 million weights and the recipe's steps and examples"
TADPOLE = (
    "the paper's model is BERT-base, trained for 50,000 steps of 256 on text of Wikipedia; "
    f"{OURS}, and its corpus holds the tasks' own domains"
)
DIFFERS = {
    "tadpole": TADPOLE,
    "dana": TADPOLE,
    "textgram": (
        "the paper's model is BERT-base, cased, trained on RealNews for a number of steps that it "
        f"does not give; {OURS}, and another corpus of news"
    ),
    "mdapt": (
        "the paper's model is multilingual BERT, trained for 25,000 steps of 2,048 on 10 million "
        f"sentences; {OURS}, and its text of the domains is English"
    ),
    "domain": (
        "the paper trains Transformer base from scratch on a third of 1.5 million pairs; ours "
        "continues a model of 1.6 million weights on a tenth of 0.2 million, scored on their "
        "English side as in the paper, and its `moore_lewis` and `domain_cosine` have our "
        "settings, not the published ones "
        "([moore_lewis](moore_lewis.md) compares those of the first)"
    ),
}
"""What differs from each paper, by the first word of the recipe."""


def gains(name: str, table: dict[str, Any]) -> str:
    """The columns by gain, and the comparisons that show a difference, beside the paper."""
    by_gain = ", ".join(
        f"`{gain['column']}` {100 * gain['mean']:+.1f}"
        + (f" ({gain['size']:,} examples)" if gain["size"] else "")
        for gain in sorted(table["gains"], key=lambda gain: -gain["mean"])
    )
    shown = [
        f"`{pair['column']}` and `{pair['base']}` on {pair['row'][0]} "
        f"({100 * pair['comparison']['difference']:+.1f})"
        for pair in table["pairs"]
        if pair["adjusted"] < LEVEL
    ]
    rows = len({tuple(of["cell"].values())[:2] for of in table["results"]})
    return (
        f"Mean gain over `{table['recipe']['compare']}` in points, of {rows} "
        f"row{'s' * (rows > 1)}: {by_gain}. Of "
        f"{len(table['pairs'])} comparisons {len(shown)} show a difference after Holm's correction"
        f"{': ' * bool(shown)}{'; '.join(shown)}.{over_sentences(table)}{along_loss(name, table)} "
        f"{PAPERS[name]}; {DIFFERS[name.partition('_')[0]]}."
    )


def along_loss(name: str, table: dict[str, Any]) -> str:
    """For TADPOLE's Figure 3, how the gain goes with the fall of the loss on the task's text."""
    if name != "tadpole_figure3":
        return ""
    every, equal = (table["forecasts"][which] for which in ("loss", "equal"))
    of_equal = (
        f"of the {equal['n']} that fit general text equally well {equal['pearson']:.2f} "
        f"(p = {equal['p']:.2f})"
        if equal
        else "too few fit general text equally well"
    )
    return (
        " The fall of the loss on the task's text and the gain: Pearson's r = "
        f"{every['pearson']:.2f} (p = {every['p']:.2f}) over {every['n']} models, {of_equal}."
    )


def over_sentences(table: dict[str, Any]) -> str:
    """Where a column is ahead by the test over sentences alone, which is SacreBLEU's.

    Seeds are few where each is a training, so a test over them shows only gains that hardly vary.
    """
    if table["results"][0]["metric"] != "bleu":
        return ""
    pairs = [pair for pair in table["pairs"] if not pair["named"]]
    adjusted = holm([pair["comparison"]["p_items"] for pair in pairs])
    ahead: dict[str, list[str]] = {}
    for pair, p in zip(pairs, adjusted, strict=True):
        if p is not None and p < LEVEL and pair["comparison"]["difference"] > 0:
            ahead.setdefault(pair["column"], []).append(pair["row"][0])
    listed = "; ".join(f"`{column}` on {', '.join(rows)}" for column, rows in ahead.items())
    return (
        f" By the test over sentences alone, SacreBLEU's, and the same correction, ahead of "
        f"`{table['recipe']['compare']}`: {listed or 'none'}."
    )


SEPARATIONS: dict[str, Callable[[Cells], str]] = {
    "tadpole_table1": table1,
    "tadpole_figure4": figure4,
    "tadpole_figure5": figure5,
}
"""The conclusions of recipes that measure a separation."""
CROSS = "domain_clusters_table4"


def main() -> None:
    """Run the recipes and write what was found."""
    names = [*SEPARATIONS, *PAPERS, CROSS]
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("work", type=Path, metavar="WORK")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(names)}")
    parser.add_argument("--only", action="append", default=[], metavar="TASK")
    parser.add_argument("--scale", default="cpu", choices=("cpu", "paper"))
    parser.add_argument("--out", type=Path, default=RESULTS)
    asked = parser.parse_args()
    for name in asked.names or names:
        recipe = ROOT / "papers" / "recipes" / f"{name}_{asked.scale}.toml"
        work = asked.work / name
        if name in SEPARATIONS:
            separation.run(recipe, work)
        else:
            corpusfit_papers.run(recipe, out=work, cells=CELLS, only=asked.only)
            add_predictors(recipe, work)
        write(asked.out, name, asked.scale, work, asked.only)


def add_predictors(recipe: Path, run: Path) -> None:
    """Put what was known before fine-tuning into the tables of a finished run."""
    shown, figures = predictors.measure(recipe, run, CELLS)
    page = run / "table.md"
    table = run / "table.json"
    before, data, after = page.read_text("utf-8").partition("**Data**")
    page.write_text(f"{before}{shown}\n{data}{after}" if shown else before + data + after, "utf-8")
    content = json.loads(table.read_text("utf-8")) | {"forecasts": figures}
    table.write_text(json.dumps(content, indent=1, ensure_ascii=False), "utf-8")


def write(out: Path, name: str, scale: str, path: Path, only: list[str]) -> None:
    """A result's Markdown and JSON, from a finished recipe."""
    table, here = json.loads((path / "table.json").read_text("utf-8")), machine()
    recipe = f"{name}_{scale}.toml"
    if name in SEPARATIONS:
        cells = [(of["cell"], of["measured"]) for of in table["measurements"]]
        measured = {(cell["task"], cell["selector"]): seeds for cell, seeds in cells}
        said, kept = SEPARATIONS[name](measured), ("results", "measurements")
    else:
        said = cross_domain(table, scale) if name == CROSS else gains(name, table)
        kept = ("results", "pairs", "gains", "forecasts", "costs")
    made = (
        f"Made by [{recipe}](../recipes/{recipe}), which has every setting"
        f"{'; only the rows of ' * bool(only)}{' and '.join(only)}. Written at commit "
        f"{here['commit'][:9]}, {here['date'][:10]}, on {here['cpu']}."
    )
    paper = {"tadpole_table1": _paper_table1, "tadpole_figure5": _paper_figure5}.get(name, str)()
    tables = (path / "table.md").read_text("utf-8")
    parts = [f"# {table['recipe']['name']}", f"**{said}**", tables.strip(), paper, made]
    out.mkdir(parents=True, exist_ok=True)
    (out / f"{name}.md").write_text("\n\n".join(filter(None, parts)) + "\n", "utf-8")
    content = {"name": name, "conclusion": said, **{k: table[k] for k in kept}, "machine": here}
    for of in (seed for cell in content.get("measurements", []) for seed in cell["measured"]):
        if name != "tadpole_figure4":
            del of["histogram"]  # forty bins each, which only this figure shows
    text = json.dumps(content, indent=1, ensure_ascii=False)
    text = re.sub(r'"/[^"\n]*/([^"/\n]+)"', r'"\1"', text)  # a model's name without its folder
    (out / f"{name}.json").write_text(text + "\n", "utf-8")


def _paper_table1() -> str:
    """The paper's F1, apart from ours."""
    head = f"| the paper's F1 | {' | '.join(PAPER_TASKS)} |"
    rows = [f"| {m} | {' | '.join(f'{v:.2f}' for v in values)} |" for m, values in PAPER_F1.items()]
    return "\n".join([head, "|---" * (1 + len(PAPER_TASKS)) + "|", *rows])


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
