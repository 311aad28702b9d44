"""The readme of a package index, whose links work there, and the recipes in the package."""

import re
import shutil
import tomllib
from pathlib import Path
from urllib.parse import urljoin

from setuptools import setup
from setuptools.command.build_py import build_py

HERE = Path(__file__).parent
URLS = tomllib.loads((HERE / "pyproject.toml").read_text("utf-8"))["project"]["urls"]
README = (HERE / "README.md").read_text("utf-8")


class WithRecipes(build_py):
    """Recipes and plans stand beside the modules; of an editable install they are in the clone."""

    def run(self) -> None:
        """Copy modules, recipes and plans."""
        super().run()
        for name in () if self.editable_mode else ("plans", "recipes"):
            package = Path(self.build_lib) / "corpusfit_papers"
            left_out = shutil.ignore_patterns("__pycache__")
            shutil.copytree(HERE / name, package / name, ignore=left_out, dirs_exist_ok=True)


setup(
    cmdclass={"build_py": WithRecipes},
    long_description=re.sub(
        r"(?<=\]\()(?!https?:|#)([^)]+)",
        lambda link: urljoin(f"{URLS['Repository']}/blob/main/papers/", link[1]),
        README,
    ),
    long_description_content_type="text/markdown",
)
