"""A translation model of a domain stops on the domain's dev set, and serves every row (Table 4)."""

import json
import random

import pytest

import corpusfit_papers
from corpusfit_papers.translation.models import translate
from translating import WORDS, taught

pytest.importorskip("accelerate", reason="the extra train is not installed")
sacrebleu = pytest.importorskip("sacrebleu", reason="the extra train is not installed")
RECIPE = """
name = "domains"
model = "base"
corpus = ["pair:law.de,law.en", "pair:it.de,it.en"]
selectors = ["general", "law"]
compare = "general"
seeds = 1
[select.choose]
fraction_of = "segments"
dedup = "none"
[adapt]
objective = { name = "translation", pair_tokens = 100 }
mix = { heldout = 4, task_sequences = 30 }
[adapt.train]
epochs = 40
evaluations = 40
batch = 2
learning_rate = 4e-3
device = "cpu"
length = 32
precision = "fp32"
keep = "best"
patience = 4
[evaluate]
task = { kind = "translation", direction = "de-en", max_new_tokens = 32 }
finetune = { device = "cpu", precision = "fp32" }
[selector.general]
dev = ["law", "it"]
[selector.law]
sources = ["law*"]
dev = ["law"]
[[tasks]]
name = "law"
path = "law-task"
[[tasks]]
name = "it"
path = "it-task"
"""


def write(stem, n, words, chance):
    """Line-aligned files of `n` texts of seven words."""
    stem.parent.mkdir(exist_ok=True)
    rows = [chance.choices(words, k=7) for _ in range(n)]
    sides = {"de": rows, "en": [[WORDS[word] for word in row] for row in rows]}
    for side, texts in sides.items():
        stem.with_suffix(f".{side}").write_text("".join(f"{' '.join(t)}\n" for t in texts))


@pytest.mark.slow
def test_training_stops_on_dev_of_the_domain(tmp_path, inline):
    """BLEU of a row is sacreBLEU's of the kept model's translations of its test set."""
    import transformers

    chance, words = random.Random(0), list(WORDS)
    for domain, own in (("law", words[:7]), ("it", words[3:])):
        write(tmp_path / domain, 60, own, chance)
        for split, n in (("dev", 12), ("test", 5)):
            write(tmp_path / f"{domain}-task" / split, n, own, chance)
    taught(tmp_path / "base", 40)
    (tmp_path / "recipe.toml").write_text(RECIPE)

    ran = corpusfit_papers.run(tmp_path / "recipe.toml", out=tmp_path / "out", machine=inline)

    results = json.loads((ran.path / "table.json").read_text())["results"]
    assert [r["error"] for r in results if r["error"]] == []
    models = list((ran.path / "models").iterdir())
    assert (len(results), len(models)) == (4, 2)  # a model of each column, for both rows
    scored = set()
    test = {
        (name, side): (tmp_path / f"{name}-task/test.{side}").read_text().splitlines()
        for name in ("law", "it")
        for side in ("de", "en")
    }
    for folder in models:
        manifest = json.loads((folder / "manifest.json").read_text())
        history = [json.loads(line) for line in (folder / "losses.jsonl").read_text().splitlines()]
        measured = [r for r in history if "heldout" in r]
        epochs = [r["step"] * manifest["training"]["batch"] / manifest["rows"] for r in measured]
        assert epochs == pytest.approx(range(len(epochs)), abs=2 / manifest["rows"])
        losses = [r["heldout"]["task"] for r in measured]
        assert len(losses) == 1 + 40 or len(losses) - 1 - losses.index(min(losses)) == 4  # patience
        assert manifest["losses"]["after"]["task"] == min(losses)
        assert manifest["heldout"]["task"] in (12, 24)  # dev of law, or of both

        model = transformers.AutoModelForSeq2SeqLM.from_pretrained(folder)
        tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
        for name in ("law", "it"):
            sources, targets = test[name, "de"], test[name, "en"]
            found = translate(model.eval(), tokenizer, sources, max_new_tokens=32).texts
            scored.add((name, round(sacrebleu.corpus_bleu(found, [targets]).score, 3)))
    assert {(r["cell"]["task"], round(100 * r["mean"], 3)) for r in results} == scored
