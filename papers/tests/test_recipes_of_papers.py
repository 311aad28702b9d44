"""The recipes of the papers, at both scales."""

import re
from pathlib import Path

import pytest

from corpusfit.contracts import UsageError
from corpusfit_papers.experiments import values
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


def test_a_recipe_that_the_package_has_is_named_with_its_path(tmp_path, monkeypatch):
    """Without a clone there is no papers/recipes."""
    packaged = tmp_path / "corpusfit_papers/recipes/table.toml"
    packaged.parent.mkdir(parents=True)
    packaged.touch()
    monkeypatch.setattr(values, "__file__", str(packaged.parents[1] / "experiments/values.py"))
    with pytest.raises(UsageError, match=re.escape(str(packaged))):
        read_recipe(Path("papers/recipes/table.toml"))


OF_0_2 = """
name = "a table"
model = "bert-base-uncased"
selectors = ["base"]
[evaluate.finetune]
rate = 3e-5
warmup = 0.1
[evaluate.augment]
mt = "opus-mt"
[adapt.train]
steps = 10
[[tasks]]
name = "imdb"
path = "imdb"
"""


def test_a_recipe_of_the_edition_before_says_what_to_write(tmp_path):
    """Each setting that 0.2.0 called otherwise, until the recipe is read."""
    path = tmp_path / "recipe.toml"
    text = OF_0_2
    for old, new, says in (
        ("evaluate.augment]", "augmentation]", "`?evaluate.augment`? .*augmentation"),
        ("\nrate", "\nlearning_rate", "finetune.rate.*finetune.learning_rate"),
        ("\nwarmup", "\nwarmup_steps", "finetune.warmup.*finetune.warmup_steps"),
        ("\nsteps", "\nmax_steps", "train.steps.*train.max_steps"),
    ):
        path.write_text(text, "utf-8")
        with pytest.raises(UsageError, match=says):
            read_recipe(path)
        text = text.replace(old, new)
    path.write_text(text, "utf-8")
    recipe = read_recipe(path)
    assert recipe.evaluate.finetune.learning_rate == 3e-5
    assert recipe.augmentation == {"mt": "opus-mt"}
