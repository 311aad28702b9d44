"""The tables of all commands at several widths: figures and headings whole."""

import importlib
import inspect
from pathlib import Path
from types import SimpleNamespace as Made

import pytest

from corpusfit.cli import show
from corpusfit.text.cache_entries import CacheEntry

PATH = "/home/somebody/a folder/with-a-very-long-name/" + "x" * 70 + ".jsonl.zst"
LONG = "Donaudampfschifffahrtsgesellschaft " * 6
MANY = 123_456_789_012
COUNTS = {"segments": MANY, "of_tokens": MANY, "selected": MANY, "tokens": MANY}
GAIN = {"mean": 0.98765, "low": 0.91234, "high": 1.0, "detectable": 0.12345}
SPREAD = {"mean": 0.98765, "sd": 0.12345}
SHARES = {"kl": Made(raw=12.3456, selected=11.2345, falls=1.1111, covered=0.98765)}
EXAMPLE = Made(split="dev", containment=1.0, source=PATH, row=MANY, text=LONG, excerpt=LONG)

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
    "select.show_scores": [
        [{"method": "domain_moore_lewis", "score": 1.0, "score_than_random": (0.123, -0.987, 0.9)}],
        "weighted_precision",
    ],
    "adapt.show_adapted": [
        {
            "losses": {"before": {PATH: 12345.678}, "after": {PATH: 1.234}},
            "plan": {"adapter": {"kind": ""}, "objective": {"name": "mlm"}},
            "training": {"length": 512},
        },
        "out",
    ],
    "prepare.show_clusters": [
        {
            "units": MANY,
            "k": 256,
            "tried": [
                {"k": 256, "purity": 0.123, "deviation": 0.456, "bic": -1e15, "likelihood": -1e5}
            ],
            "clusters": [
                {"cluster": 1, "share": 1.0, "words": [LONG] * 10, "units": MANY}
                | {"domains": {PATH: MANY, "b": MANY}}
            ],
        }
    ],
    "prepare.contamination": [
        Made(
            splits={
                "dev": Made(texts=MANY, found=MANY, holders=MANY, sources={PATH: MANY, "b": MANY})
            },
            examples=[EXAMPLE],
            holders=MANY,
            texts=MANY,
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
            "word_vectors": {"sentence": "Word vectors of 100,000 selected words score 75.4."},
            "shown": "No difference.",
            "lost": "",
            "not_shown": "Not shown: a difference.",
            "why": "Keep the base.",
            "measured": "Measured on 100 test texts.",
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
    "methods.methods": [None],
    "methods._show": [[CacheEntry(Path(PATH), "embeddings of corpora", 10**15, 0.0)]],
}


@pytest.fixture
def checked(monkeypatch, capsys):
    """Replace a command's `table` by one that looks at what it prints; returns how many it saw."""

    def replace(module, width):
        seen = []

        def table(title, columns, rows, *, words=()):
            capsys.readouterr()
            show.table(title, columns, rows, words=words)
            lines = capsys.readouterr().out.splitlines()
            for name in columns:
                for word in name.split():
                    assert any(word in line for line in lines), word
            text = (columns[0], *words)
            figures = [i for i, name in enumerate(columns) if name not in text]
            for row in rows:
                for i in figures:
                    assert any(row[i] in line for line in lines), row[i]
            seen.append(title)

        monkeypatch.setattr(show.stdout(), "width", width)
        monkeypatch.setattr(module, "table", table)
        return seen

    return replace


@pytest.mark.parametrize("width", [60, 200])
@pytest.mark.parametrize("name", SHOWN)
def test_figures_and_headings_are_whole(checked, name, width):
    module_name, function = name.split(".")
    module = importlib.import_module(f"corpusfit.cli.{module_name}")
    seen = checked(module, width)
    shown = getattr(module, function)
    json = {"json": False} if "json" in inspect.signature(shown).parameters else {}
    shown(*SHOWN[name], **json)
    assert seen
