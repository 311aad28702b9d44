"""The tables of this package's commands at several widths."""
# ruff: noqa: F811 (fixtures of other files)

import importlib
from types import SimpleNamespace as Made

import pytest
from tests.unit.cli.test_command_tables import LONG, MANY, PATH, checked  # noqa: F401

from corpusfit.evaluation.tables import Score
from corpusfit.evaluation.tables import Table as Results

SHOWN = {
    "compose.show_languages": [
        [
            {
                "language": f"zh-Hant-{i}",
                "sentences": MANY,
                "tokens": MANY,
                **dict.fromkeys(("own", "further", "upsampled", "again", "total"), MANY),
                "sources": {PATH: {"sentences": MANY}, "wikipedia": {"sentences": MANY}},
            }
            for i in range(3)
        ],
        "sentences",
    ],
    "compose._show_kinds": [
        [{"kind": "specific", "languages": MANY, "sentences": MANY, "tokens": MANY}]
    ],
    "run.show_table": [
        Results(
            LONG,
            ("task", *(f"domain_moore_lewis {i} %" for i in range(9)), "examples"),
            ((PATH, *[Score(0.98765, 0.12345, "*")] * 9, float(MANY)),) * 2,
        )
    ],
    "run.show_missing": [
        Made(
            cells=[
                {"task": PATH, "size": MANY, "model": PATH, "selector": "domain_moore_lewis"}
                | {"fraction": 0.123, "weights": "mask+lambda", "adapter": "pfeiffer"}
                | {"augment": "backtranslate", "missing": MANY}
            ],
            steps={},
            seconds=1e9,
        )
    ],
}


@pytest.mark.parametrize("width", [60, 80, 100, 200])
@pytest.mark.parametrize("name", SHOWN)
def test_figures_are_whole_and_no_line_is_too_wide(checked, name, width):
    module_name, function = name.split(".")
    module = importlib.import_module(f"corpusfit_papers.cli.{module_name}")
    seen = checked(module, width)
    getattr(module, function)(*SHOWN[name])
    assert seen
