"""A recipe of models that answer as they are."""

import json

import pytest
from test_decoders import SETTINGS, texts

import corpusfit
import corpusfit_papers

pytest.importorskip("accelerate", reason="the extra train is not installed")
RECIPE = """
name = "decoders"
model = "{model}"
corpus = ["corpus.jsonl"]
selectors = ["base", "random"]
compare = "base"
fractions = [0.5]
seeds = 3
adaptations = 2
[adapt]
objective.name = "causal"
train.max_steps = 2
train.length = 32
train.batch = 2
train.device = "cpu"
[evaluate]
finetune.device = "cpu"
[[tasks]]
name = "bits"
path = "held"
evaluate.task.kind = "language_modeling"
"""


@pytest.mark.slow
def test_a_recipe_has_bits_per_byte(tiny_gpt, jsonl, tmp_path, inline, monkeypatch):
    """A model answers once."""
    monkeypatch.chdir(tmp_path)
    jsonl("corpus.jsonl", [f"{text} {i}" for i, text in enumerate(texts(80, 7))])
    for split in ("dev", "test"):
        jsonl(f"held/{split}.jsonl", texts(6, len(split)))
    (tmp_path / "recipe.toml").write_text(RECIPE.format(model=tiny_gpt))
    words = {"out": tmp_path / "out", "machine": inline}
    run = corpusfit_papers.run(tmp_path / "recipe.toml", **words)
    assert not run.judged.failed
    table = json.loads((tmp_path / "out/table.json").read_text())
    found = {(r["cell"]["task"], r["column"]): r for r in table["results"]}
    assert {key: len(r["scores"]) for key, r in found.items()} == {
        ("bits", "base"): 2,
        ("bits", "random"): 2,
    }
    bits = corpusfit.evaluate(
        model=tiny_gpt,
        task=tmp_path / "held",
        kind="language_modeling",
        settings=SETTINGS,
        out=tmp_path / "alone",
        machine=inline,
    )
    mean = bits.manifest["results"][0]["test"]["neg_bits_per_byte"]["mean"]
    assert found["bits", "base"]["mean"] == pytest.approx(mean)
    assert mean < 0
