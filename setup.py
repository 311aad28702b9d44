"""The readme of a package index: README.md, whose links work there too."""

import re
import tomllib
from pathlib import Path

from setuptools import setup

HERE = Path(__file__).parent
URLS = tomllib.loads((HERE / "pyproject.toml").read_text("utf-8"))["project"]["urls"]

README = (HERE / "README.md").read_text("utf-8")
PICTURES = re.sub(r"(!\[[^]]*\]\()(?!https?:)", rf"\1{URLS['Repository']}/raw/main/", README)

setup(
    long_description=re.sub(r"\]\((?!https?:|#)", f"]({URLS['Repository']}/blob/main/", PICTURES),
    long_description_content_type="text/markdown",
)
