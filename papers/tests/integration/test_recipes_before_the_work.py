"""A recipe opens its models, and a dry run reads its compositions, before any text is selected."""
# ruff: noqa: F811 (fixtures of other files)

import json

import pytest
from journeys import prose
from test_before_the_work import machine, models, task  # noqa: F401  (fixtures)

import corpusfit_papers
from corpusfit import CorpusfitError
from corpusfit_papers import experiments

pytest.importorskip("accelerate", reason="the extra train is not installed")
RECIPE = """
name = "two models"
models = ["{good}", "{bad}"]
corpus = ["corpus.jsonl"]
seeds = 1
fractions = [0.3]
selectors = ["base", "dsir"]
[adapt.train]
max_steps = 2
device = "cpu"
length = 32
[evaluate.finetune]
epochs = 1
device = "cpu"
[[tasks]]
name = "topics"
path = "topics"
"""


@pytest.mark.parametrize(
    ("bad", "more", "says"),
    [
        ("no tokenizer", "", "no-tokenizer"),
        ("encoder", '[adapt.objective]\nname = "mlm+nsp"\n', "seq_relationship|pooler"),
        ("encoder", '[adapt.objective]\nname = "translation"\n', "corpus must .*pairs"),
    ],
)
def test_a_recipe_opens_every_model_before_its_first_selection(
    models, machine, task, jsonl, tiny_lm, tmp_path, bad, more, says
):
    jsonl("corpus.jsonl", prose("market", 60))
    path = tmp_path / "recipe.toml"
    text = RECIPE.format(good=tiny_lm, bad=models(bad)).replace('"dsir"', '"dsir", "random"')
    more += "[selector.random.adapt.train]\nmax_steps = 3\n"
    path.write_text(text.replace("[evaluate.finetune]", f"{more}[evaluate.finetune]"), "utf-8")
    with pytest.raises(CorpusfitError, match=says) as refused:
        corpusfit_papers.run(path, out=tmp_path / "out", machine=machine)
    assert not (tmp_path / "out/selections").exists()
    assert not (tmp_path / "out/scores").exists()
    if more.count("translation"):
        return
    experiments.missing(path, out=tmp_path / "dry", machine=machine)
    said = [str(refused.value) in warning for warning in machine.progress.warnings]
    assert said.count(True) == 1


def test_a_finished_recipe_opens_no_model_again(
    machine, task, jsonl, tiny_lm, tmp_path, monkeypatch
):
    jsonl("corpus.jsonl", prose("market", 60))
    path = tmp_path / "recipe.toml"
    text = RECIPE.format(good=tiny_lm, bad="").replace(', ""', "")
    path.write_text(text.replace('"base", "dsir"', '"base"'), "utf-8")
    ran = corpusfit_papers.run(path, out=tmp_path / "out", machine=machine)
    assert json.loads((ran.path / "manifest.json").read_text("utf-8"))
    monkeypatch.setattr("corpusfit_papers.experiments.running.require_models", pytest.fail)
    corpusfit_papers.run(path, out=tmp_path / "out", machine=machine)


COMPOSED = """
composition = "E_D"
budget = {budget}
[[sources]]
name = "market"
kind = "specific"
language = "en"
path = "corpus.jsonl"
"""


@pytest.mark.parametrize(("budget", "fault"), [(20, []), (9_000_000, ["budget"])])
def test_a_dry_run_finds_a_composition_whose_budget_is_not_filled(
    machine, task, jsonl, tiny_lm, tmp_path, budget, fault
):
    """It is no fault of the run, whose other cells go on."""
    pytest.importorskip("langcodes", reason="the extra languages is not installed")
    jsonl("corpus.jsonl", prose("market", 60))
    (tmp_path / "mixed.toml").write_text(COMPOSED.format(budget=budget), "utf-8")
    path = tmp_path / "recipe.toml"
    text = RECIPE.format(good=tiny_lm, bad="").replace(', ""', "")
    text = text.replace("[adapt.train]", '[selector.E_D]\ncompose = "mixed.toml"\n[adapt.train]')
    path.write_text(text.replace('"base", "dsir"', '"base", "E_D"'), "utf-8")
    missing = experiments.missing(path, out=tmp_path / "dry", machine=machine)
    assert missing.steps["selections"] == (1, 1)
    found = [warning for warning in machine.progress.warnings if "would fail" in warning]
    assert [[name for name in fault if f"{name} must be" in warning] for warning in found] == [
        fault for _ in fault
    ]
    assert not any("would stop" in warning for warning in machine.progress.warnings)
    assert not (tmp_path / "dry").exists()


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ('text_field = "body"', "'body'"),
        ('label_field = "gold"', "'gold'"),
        ('columns = "label,text"\ntext_field = "{title} {text}"', "title"),
    ],
)
def test_a_dry_run_names_the_task_whose_column_is_not_there(
    machine, task, jsonl, tiny_lm, tmp_path, settings, says
):
    jsonl("corpus.jsonl", prose("market", 60))
    path = tmp_path / "recipe.toml"
    text = RECIPE.format(good=tiny_lm, bad="").replace(', ""', "")
    second = '[[tasks]]\nname = "second"\npath = "topics"\n[tasks.evaluate.task]\n'
    path.write_text(f"{text}{second}{settings}\n", "utf-8")
    with pytest.raises(CorpusfitError, match=f"task second of the recipe.*{says}"):
        experiments.missing(path, out=tmp_path / "dry", machine=machine)
