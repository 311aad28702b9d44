"""Write notebooks/NAME.ipynb beside the tutorials of docs/ and papers/docs/, with their outputs.

The tests run the notebooks and compare those outputs.

Run: .venv/bin/python docs/make_notebooks.py
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
TUTORIALS = sorted(ROOT.glob("docs/tutorials/*.md")) + sorted(
    ROOT.glob("papers/docs/tutorials/*.md")
)
BEGIN = """# The packages, and a new folder for the files.
%pip install --quiet 'corpusfit[languages,minilm,report,train]'
import os
import tempfile

os.chdir(tempfile.mkdtemp())"""
_BLOCK = re.compile(r"^```(python|bash|text)\n(.*?)\n```$", re.M | re.S)
_LINK = re.compile(r"\]\((?!https?://|#|\.\./)([^)]+)\)")


def notebook(page: str) -> str:
    """A tutorial as a notebook: text cells, code cells, and as their outputs the blocks of text."""
    cells = [_cell(0, "code", BEGIN)]
    parts = _BLOCK.split(page)
    for prose, language, block in zip(
        parts[::3], [*parts[1::3], ""], [*parts[2::3], ""], strict=True
    ):
        if prose.strip():
            cells.append(
                _cell(len(cells), "markdown", _LINK.sub(r"](../tutorials/\1)", prose.strip()))
            )
        if language == "text":
            code = next(cell for cell in reversed(cells) if cell["cell_type"] == "code")
            code["outputs"].append(
                {"output_type": "stream", "name": "stdout", "text": _lines(block + "\n")}
            )
        elif language:
            source = f"%%bash\n{block}" if language == "bash" else block
            cells.append(_cell(len(cells), "code", source))
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    whole = {"cells": cells, "metadata": {"kernelspec": kernel}, "nbformat": 4, "nbformat_minor": 5}
    return json.dumps(whole, indent=1, ensure_ascii=False) + "\n"


def _cell(number: int, kind: str, source: str) -> dict[str, Any]:
    code = {"execution_count": None, "outputs": []} if kind == "code" else {}
    return {
        "cell_type": kind, "id": f"cell-{number}", "metadata": {}, "source": _lines(source), **code
    }  # fmt: skip


def _lines(text: str) -> list[str]:
    return text.splitlines(keepends=True)


def main() -> None:
    """Write all notebooks."""
    for page in TUTORIALS:
        path = page.parents[1] / "notebooks" / f"{page.stem}.ipynb"
        path.parent.mkdir(exist_ok=True)
        path.write_text(notebook(page.read_text("utf-8")), "utf-8")


if __name__ == "__main__":
    main()
