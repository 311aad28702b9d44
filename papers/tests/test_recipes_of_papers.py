"""The recipes of the papers, at both scales."""

import re
from pathlib import Path

from corpusfit_papers.experiments.loader import read_recipe

ROOT = Path(__file__).parents[2]
PAGES = ("tadpole", "domain-clusters", "mdapt", "textgram")


def test_paper_recipes_are_valid_and_listed(monkeypatch):
    """Each exists at both scales; at the paper's Table 3 has eight seeds (TADPOLE, section 4)."""
    for name in ("CORPUSFIT_DATA", "CORPUSFIT_MODELS", "CORPUSFIT_PAIRS"):
        monkeypatch.setenv(name, "/somewhere")
    papers = ROOT / "papers" / "recipes"
    files = {path.stem: path for path in papers.glob("*.toml")}
    adapting = {k: f for k, f in files.items() if "[separation]" not in f.read_text("utf-8")}
    recipes = {name: read_recipe(path) for name, path in adapting.items()}
    named = set(re.findall(r"^\| `(\w+)` \|", (papers / "README.md").read_text("utf-8"), re.M))
    assert set(files) == {f"{name}_{scale}" for name in named for scale in ("cpu", "paper")}
    pages = [(ROOT / f"papers/docs/{paper}.md").read_text("utf-8") for paper in PAGES]
    tables = "\n".join(page.split("## Its tables")[1].split("\n## ")[0] for page in pages)
    assert {name for name in named if f"`{name}`" in tables} == named
    assert len({recipe.name for recipe in recipes.values()}) == len(recipes)
    assert recipes["tadpole_table3_paper"].seeds == 8
