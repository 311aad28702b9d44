"""mDAPT, Figure 3: how many more words the multilingual tokenizer splits than a language's own.

For each task of mdapt_table4_paper.toml with a model of its language: the share of words that
become several tokens with the multilingual tokenizer minus that with the language's own, in points,
on the texts of train (the figure's green bars) and on Wikipedia of the language (its brown ones).
French has no bar, as flaubert has no fast tokenizer.

Run: python papers/recipes/mdapt_figure3.py WIKIPEDIA [TASK …]
with rows of `text` in WIKIPEDIA/LANGUAGE.jsonl; $CORPUSFIT_DATA and $CORPUSFIT_MODELS as for `run`.
Reference: Jørgensen et al. (2021), mDAPT, section 6 and appendix B.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path

import corpusfit_papers
from corpusfit import Machine
from corpusfit.evaluation.reading import read_task
from corpusfit_papers.experiments.grid import task_plan
from corpusfit_papers.experiments.loader import read_recipe

LANGUAGES = {
    "bioro": "ro",
    "pharmaconer": "es",
    "ncbi_disease": "en",
    "clinpt": "pt",
    "omp-2": "de",
    "finnews": "da",
    "financial_phrasebank": "en",
}
"""By task; omp-9 has the texts of omp-2."""

parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
parser.add_argument("wikipedia", type=Path, help="Folder of each language's texts")
parser.add_argument("tasks", nargs="*", default=list(LANGUAGES), help="Names of tasks")
asked = parser.parse_args()
recipe = read_recipe(Path(__file__).with_name("mdapt_table4_paper.toml"))
print("| task | on its texts | on Wikipedia | difference |", "| --- " * 4 + "|", sep="\n")
for task in recipe.tasks:
    if task.name not in asked.tasks:
        continue
    train = read_task(task.path, task_plan(recipe, task).task, seed=recipe.seed).train
    with tempfile.TemporaryDirectory() as folder:
        texts = Path(folder) / "train.jsonl"
        texts.write_text("".join(json.dumps({"text": t}) + "\n" for t in train.texts()), "utf-8")
        found = corpusfit_papers.tokenizers(
            tokenizer=[task.models["mono"], recipe.models[0]],
            specific=[texts],
            general=[asked.wikipedia / f"{LANGUAGES[task.name]}.jsonl"],
            machine=Machine(engine="inline"),
        )
    gap = next(gap for gap in found.gaps if gap.figure == "continued")
    shown = [
        f"{100 * bar.value:+.1f} ({100 * bar.low:.1f} to {100 * bar.high:.1f})"
        for bar in (gap.specific, gap.general, gap.wider)
    ]
    print(f"| {task.name} | {' | '.join(shown)} |", flush=True)
