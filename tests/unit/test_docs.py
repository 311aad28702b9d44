"""The documentation agrees with the code."""

import importlib.util
import re
from pathlib import Path

from corpusfit.cli.app import COMMANDS
from corpusfit.workflows.experiments.loader import read_recipe

ROOT = Path(__file__).parents[2]


def test_settings_page_matches_the_code():
    spec = importlib.util.spec_from_file_location("make_settings", ROOT / "docs/make_settings.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert (ROOT / "docs/settings.md").read_text("utf-8") == module.page(), (
        "run .venv/bin/python docs/make_settings.py"
    )
    typed = ROOT / "src/corpusfit/api/typed_options.py"
    assert typed.read_text("utf-8") == module.typed_options()


def test_readme_is_short_and_names_every_command_and_package():
    text = (ROOT / "README.md").read_text("utf-8")
    assert text.count("\n") <= 150
    for command in COMMANDS:
        assert f"corpusfit {command}" in text or command in ("demo", "score"), command
    for package in (ROOT / "src/corpusfit").iterdir():
        if package.name.startswith("_") or package.name == "py.typed":
            continue
        name = package.name + ("/" if package.is_dir() else "")
        assert re.search(rf"\b{re.escape(name)}", text), f"README's map lacks {name}"


def test_paper_recipes_are_valid_and_listed(monkeypatch):
    """Each exists at both scales; at the paper's Table 3 has eight seeds (TADPOLE, section 4)."""
    for name in ("CORPUSFIT_DATA", "CORPUSFIT_MODELS", "CORPUSFIT_PAIRS"):
        monkeypatch.setenv(name, "/somewhere")
    papers = ROOT / "examples" / "papers"
    recipes = {path.stem: read_recipe(path) for path in papers.glob("*.toml")}
    named = set(re.findall(r"^\| `(\w+)` \|", (papers / "README.md").read_text("utf-8"), re.M))
    assert set(recipes) == {f"{name}_{scale}" for name in named for scale in ("cpu", "paper")}
    assert len({recipe.name for recipe in recipes.values()}) == len(recipes)
    assert recipes["tadpole_table3_paper"].seeds == 8
