"""The tables of this package's commands at several widths."""
# ruff: noqa: F811 (fixtures of other files)

import importlib
from types import SimpleNamespace as Made

import pytest
from tests.unit.cli.test_command_tables import (  # noqa: F401
    COUNTS,
    LONG,
    MANY,
    PATH,
    SHARES,
    checked,
)

from corpusfit_papers.baselines import Clustering
from corpusfit_papers.experiments.rendering import Score
from corpusfit_papers.experiments.rendering import Table as Results
from corpusfit_papers.outliers import Outliers, Pair, Traits
from corpusfit_papers.tokenizer_gap import Figure

FIGURE = Figure(0.98765, 0.97654, 0.99876)

SHOWN = {
    "clusters.baselines": [
        Made(
            units=MANY,
            rows=[
                Clustering("mixture", 256, 5, 0.123, 0.456, -1e5, -1e15),
                Clustering("word2vec", 256, 1, 0.123, None),
            ],
        )
    ],
    "clusters.outliers": [
        Outliers(
            Traits(MANY, 12.3, 0.1, 0.2, 0.3, 0.4),
            Traits(1, 12.3, 0.1, 0.2, 0.3, 0.4),
            {PATH: Traits(1, 12.3, 0.1, 0.2, 0.3, 0.4)},
            [Pair("law", PATH, MANY, LONG)],
        )
    ],
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
    "measurements._show_domains": [
        Made(
            domains={PATH: Made(**COUNTS, taken=1.0, of_selection=1.0, sought=True)},
            segments=MANY,
            truth=PATH,
            finding=True,
        )
    ],
    "measurements._show_finding": [
        Made(segments=MANY, method="domain_moore_lewis"),
        Made(
            domain=[PATH],
            segments=MANY,
            selected=MANY,
            chance=0.5,
            precision=1.0,
            recall=1.0,
            f1=1.0,
            scores=Made(
                average_precision=1.0,
                curve=[Made(share=0.0001, segments=MANY, precision=1.0, recall=1.0)],
            ),
        ),
    ],
    "measurements.forecast": [
        Made(
            objective="mlm",
            length=512,
            prospects=[
                Made(data=PATH, texts=MANY, losses={"task": 12345.678, "general": 1.0}, **SHARES)
            ],
            words=[],
        )
    ],
    "measurements.retrieval": [
        Made(
            models=[PATH, "minilm"],
            blank={PATH: MANY},
            results=[
                Made(
                    pairs=PATH,
                    source="zh-Hant",
                    target="en",
                    model=model,
                    precision=1.0,
                    low=0.999,
                    high=1.0,
                    chance=0.1,
                    sentences=MANY,
                    verdict=LONG,
                )
                for model in (PATH, "minilm")
            ],
        )
    ],
    "measurements.tokenizers": [
        Made(
            tokenizers=[PATH, "b"],
            splits=[
                Made(tokenizer=name, kind="specific", texts=MANY, words=MANY, unknown=1.0)
                for name in (PATH, "b")
            ],
            gaps=[
                Made(tokenizer=PATH, figure=f, specific=FIGURE, general=FIGURE, wider=FIGURE)
                for f in ("continued", "fertility")
            ],
        )
    ],
}
for split in SHOWN["measurements.tokenizers"][0].splits:
    split.continued = split.fertility = FIGURE


@pytest.mark.parametrize("width", [60, 200])
@pytest.mark.parametrize("name", SHOWN)
def test_figures_and_headings_are_whole(checked, name, width):
    module_name, function = name.split(".")
    module = importlib.import_module(f"corpusfit_papers.cli.{module_name}")
    seen = checked(module, width)
    getattr(module, function)(*SHOWN[name])
    assert seen
