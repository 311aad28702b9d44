"""The tables of all commands at several widths: figures whole, no line wider than $COLUMNS."""

import importlib
import inspect
from pathlib import Path
from types import SimpleNamespace as Made

import pytest
from corpusfit.evaluation.tokenizer_gap import Figure
from rich.cells import cell_len

from corpusfit.cli import show
from corpusfit.evaluation.tables import Score
from corpusfit.evaluation.tables import Table as Results
from corpusfit.text.cache_entries import CacheEntry

PATH = "/home/somebody/a folder/with-a-very-long-name/" + "x" * 70 + ".jsonl.zst"
LONG = "Donaudampfschifffahrtsgesellschaft " * 6
MANY = 123_456_789_012
COUNTS = {"segments": MANY, "of_tokens": MANY, "selected": MANY, "tokens": MANY}
FIGURE = Figure(0.98765, 0.97654, 0.99876)
GAIN = {"mean": 0.98765, "low": 0.91234, "high": 1.0, "detectable": 0.12345}
SPREAD = {"mean": 0.98765, "sd": 0.12345}
SHARES = {"kl": Made(raw=12.3456, selected=11.2345, falls=1.1111, covered=0.98765)}
EXAMPLE = Made(split="dev", containment=1.0, source=PATH, row=MANY, text=LONG, excerpt=LONG)
NEIGHBORS = [Made(cosine=-0.123, text=LONG)]

SHOWN = {
    "select.show_composition": [
        {
            **COUNTS,
            "rows": MANY,
            "by_source": {PATH: COUNTS, f"{PATH}2": COUNTS},
            "by_cluster": [COUNTS],
            "quota": [1.0],
        }
    ],
    "select.show_ranking": [
        [
            {
                "method": "domain_moore_lewis",
                "bits": 10.123,
                "behind": (1.123, 0.987, 1.234),
                "curve": [(share, 10.123) for share in (0.001, 0.01, 0.1, 0.2, 0.3)],
                "seconds": 98765.43,
            }
        ]
        * 2,
        0.2,
    ],
    "adapt.show_adapted": [
        {
            "losses": {"before": {PATH: 12345.678}, "after": {PATH: 1.234}},
            "plan": {"adapter": {"kind": ""}, "objective": {"name": "mlm"}},
            "training": {"length": 512},
        },
        "out",
    ],
    "audit._show_domains": [
        Made(
            domains={PATH: Made(**COUNTS, taken=1.0, of_selection=1.0, sought=True)},
            segments=MANY,
            truth=PATH,
            finding=True,
        )
    ],
    "audit._show_finding": [
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
    "clusters.show_clusters": [
        {
            "units": MANY,
            "k": 256,
            "tried": [
                {"k": 256, "purity": 0.123, "deviation": 0.456, "bic": -1e15, "likelihood": -1e5}
            ],
            "baselines": [
                {"of": "averaged word vectors", "k": 256, "purity": None, "deviation": None}
                | {"bic": None}
            ],
            "clusters": [
                {"cluster": 1, "share": 1.0, "words": [LONG] * 10, "units": MANY}
                | {"domains": {PATH: MANY, "b": MANY}}
            ],
            "domains": [f"{PATH}{i}" for i in range(8)],
            "proximity": [[-0.99] * 8] * 8,
        }
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
    "contamination.contamination": [
        Made(
            splits={
                "dev": Made(texts=MANY, found=MANY, holders=MANY, sources={PATH: MANY, "b": MANY})
            },
            examples=[EXAMPLE],
            holders=MANY,
            texts=MANY,
            size=1e12,
            seconds=1e6,
        )
    ],
    "fit.show_fitted": [
        {
            "task": {"name": PATH},
            "measures": [
                {
                    "name": name,
                    "unit": unit,
                    **dict.fromkeys(("base", "random", "selection"), 9.87654),
                    **dict.fromkeys(("over_random", "over_base"), GAIN),
                }
                for name, unit in (("loss", "nats per token"), ("fine-tuned", "points"))
            ],
            "sentence": "No difference.",
            "selected": "The method cynical selected 4,559 of 139,000 texts.",
            "more": "More time would show more.",
            "keep": PATH,
        }
    ],
    "evaluate.show_evaluated": [
        {
            "metric": "weighted_precision",
            "unit": "points",
            "signatures": {},
            "task": {"name": PATH},
            "seeds": 8,
            "models": {"model": {"name": PATH}, "base": {"name": "bert-base-uncased"}},
            "results": [
                {
                    "model": model,
                    "size": MANY,
                    "low": 0.99,
                    "high": 1.0,
                    "test": {"weighted_precision": SPREAD, "accuracy": SPREAD},
                    "dev": {"weighted_precision": SPREAD},
                }
                for model in ("model", "base")
            ],
            "constant": {"weighted_precision": 0.123456, "accuracy": 0.98},
            "comparisons": [],
        }
    ],
    "audit._neighbors": ["Target texts", NEIGHBORS],
    "forecast.forecast": [
        Made(
            objective="mlm",
            length=512,
            prospects=[
                Made(data=PATH, texts=MANY, losses={"task": 12345.678, "general": 1.0}, **SHARES)
            ],
            words=[],
        )
    ],
    "methods.methods": [None],
    "forecast.retrieval": [
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
    "split._show_overlaps": [
        [
            {"data": PATH, "side": "zh-Hant", "split": "train", "within": within}
            | dict.fromkeys(("texts", "identical", "shared", "near"), 1_234_567_890)
            for within in ("train", "dev")
        ]
    ],
    "forecast.tokenizers": [
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
    "methods._show": [[CacheEntry(Path(PATH), "embeddings of corpora", 10**15, 0.0)]],
}
for split in SHOWN["forecast.tokenizers"][0].splits:
    split.continued = split.fertility = FIGURE


@pytest.fixture
def checked(monkeypatch, capsys):
    """Replace a command's `table` by one that looks at what it prints; returns how many it saw."""

    def replace(module, width):
        seen = []

        def table(title, columns, rows, *, words=(), keys=1):
            capsys.readouterr()
            show.table(title, columns, rows, words=words, keys=keys)
            lines = capsys.readouterr().out.splitlines()
            assert max(map(cell_len, lines)) <= width
            for name in columns:
                for word in name.split():
                    assert len(word) > 20 or any(word in line for line in lines), word
            text = (columns[0], *words)
            figures = [i for i, name in enumerate(columns) if name not in text]
            for row in rows:
                for i in figures:
                    assert any(row[i] in line for line in lines), row[i]
            seen.append(title)

        monkeypatch.setenv("COLUMNS", str(width))
        monkeypatch.setattr(module, "table", table)
        return seen

    return replace


@pytest.mark.parametrize("width", [60, 80, 100, 200])
@pytest.mark.parametrize("name", SHOWN)
def test_figures_are_whole_and_no_line_is_too_wide(checked, name, width):
    module_name, function = name.split(".")
    module = importlib.import_module(f"corpusfit.cli.{module_name}")
    seen = checked(module, width)
    shown = getattr(module, function)
    json = {"json": False} if "json" in inspect.signature(shown).parameters else {}
    shown(*SHOWN[name], **json)
    assert seen
