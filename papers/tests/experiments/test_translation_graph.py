"""Translation tasks in a recipe: domain models, untrained models, pairs as targets and guards."""

import dataclasses
import json
import re

import pytest
from test_graph import inputs, recipe, selector

from corpusfit.core.engine import Progress
from corpusfit.core.errors import UsageError
from corpusfit.text.context import Machine
from corpusfit_papers.experiments.folder import RecipeFolder
from corpusfit_papers.experiments.graph import build_graph
from corpusfit_papers.experiments.inputs import load_inputs
from corpusfit_papers.experiments.loader import read_recipe
from translating import write_pairs

RECIPE = """
name = "domains"
model = "init:tiny"
corpus = ["pair:law.de,law.en", "pair:it.de,it.en"]
compare = "random"
selectors = ["random", "law", "it"]
seeds = 3
adaptations = 3
[adapt]
train.max_steps = 10
[evaluate]
task = { kind = "translation", direction = "de-en" }
[selector.law]
sources = ["law*"]
[selector.it]
sources = ["it*"]
[[tasks]]
name = "law"
path = "law-task"
[[tasks]]
name = "it"
path = "it-task"
"""


@pytest.fixture
def loaded(tmp_path):
    """The recipe above with its inputs: a task of dev and test, and one of test and train."""
    write_pairs(tmp_path / "law-task", dev=3, test=2)
    write_pairs(tmp_path / "it-task", test=2, train=4)
    for domain in ("law", "it"):
        for side in ("de", "en"):
            (tmp_path / f"{domain}.{side}").write_text(f"{domain} {side}\n" * 3)

    def load(text=RECIPE):
        (tmp_path / "recipe.toml").write_text(text)
        found = read_recipe(tmp_path / "recipe.toml")
        machine = Machine(cache=tmp_path / "cache", progress=Progress())
        return load_inputs(found, RecipeFolder(tmp_path / "out"), machine, store=True)

    return load


def translated(asked, tmp_path):
    """Inputs whose tasks are translations."""
    found = inputs(asked, tmp_path)
    tasks = {k: dataclasses.replace(t, kind="translation") for k, t in found.tasks.items()}
    return dataclasses.replace(found, tasks=tasks)


def lines(path):
    return [json.loads(line)["text"] for line in path.read_text().splitlines()]


def test_a_domain_has_one_model_for_all_tasks_without_their_texts(loaded):
    found = loaded()
    graph = build_graph(found)
    adapted = {(c.selector, c.task): [t.adapted for t in own] for c, own in graph.cells.items()}
    assert len(graph.adaptations) == 9  # three selectors, three seeds
    for name in ("law", "it", "random"):
        assert adapted[name, "law"] == adapted[name, "it"]
        assert len(set(adapted[name, "law"])) == 3
    steps = {a.key: a for a in graph.adaptations.values()}
    for key in adapted["law", "it"]:
        assert (steps[key].shared, len(steps[key].guard)) == (True, 4)
        assert (steps[key].plan.model.name, steps[key].plan.model.init) == ("", "tiny")
        assert graph.selections[steps[key].selection].plan.method.options == {"domain": "law*"}
    seeds = [steps[key].plan.seed for key in adapted["law", "law"]]
    assert seeds == [0, 1, 2]


def test_targets_are_texts_and_guards_have_both_sides(loaded, tmp_path):
    found = loaded()
    for name, target in (("law", "dev"), ("it", "train")):
        stored = found.tasks[name, 0]
        place = tmp_path / f"{name}-task"
        sides = {
            split: [(place / f"{split}.{side}").read_text().splitlines() for side in ("de", "en")]
            for split in ("test", target)
        }
        assert lines(found.folder.texts(stored.key, "train")) == sides[target][0]
        assert lines(found.folder.texts(stored.key, "test")) == [
            *sides["test"][0],
            *sides["test"][1],
        ]
        pairs = [
            line.split("\t")
            for line in found.folder.pairs(stored.key, "train").read_text().splitlines()
        ]
        assert pairs == [list(pair) for pair in zip(*sides[target], strict=True)]
    assert lines(found.folder.texts(found.tasks["it", 0].key, "dev")) == []


def test_the_best_weights_are_those_of_the_pairs_of_the_task(loaded):
    found = loaded(
        RECIPE.replace("train.max_steps = 10", 'train.max_steps = 10\ntrain.keep = "best"')
    )
    for step in build_graph(found).adaptations.values():
        (place,) = step.task
        assert place.startswith("pair:")
        assert place.endswith("train.tsv")


DEV = RECIPE.replace("train.max_steps = 10", 'train = { epochs = 2, keep = "best" }').replace(
    'sources = ["law*"]', 'sources = ["law*"]\ndev = ["law"]'
)


def test_dev_of_named_tasks_measures_a_model_of_all_rows(loaded, tmp_path):
    """Where a selector names none, each row has its own model; another dev is another model."""
    found = loaded(DEV)
    graph = build_graph(found)
    models = {(c.selector, c.task): {t.adapted for t in own} for c, own in graph.cells.items()}
    assert models["law", "law"] == models["law", "it"]
    assert not models["it", "law"] & models["it", "it"]
    (texts,) = {graph.adaptations[key].task for key in models["law", "it"]}
    assert texts == (f"pair:{found.folder.pairs(found.tasks['law', 0].key, 'dev')}",)
    dev = [(tmp_path / f"law-task/dev.{s}").read_text().splitlines() for s in ("de", "en")]
    (path,) = (text.removeprefix("pair:") for text in texts)
    with open(path) as f:
        assert [tuple(line.rstrip().split("\t")) for line in f] == list(zip(*dev, strict=True))

    write_pairs(tmp_path / "other", dev=2)
    for side in ("de", "en"):
        (tmp_path / "other" / f"dev.{side}").replace(tmp_path / f"law-task/dev.{side}")
    again = build_graph(loaded(DEV))
    assert not models["law", "it"] & again.adaptations.keys()


def test_a_task_without_dev_measures_nothing(loaded):
    with pytest.raises(UsageError, match=r"^selector\.law\.dev.*'it'"):
        build_graph(loaded(DEV.replace('dev = ["law"]', 'dev = ["law", "it"]')))


def test_a_seed_of_a_base_is_the_same_answer(tmp_path):
    asked = recipe(selector("base"), selector("knn"), seeds=4, adaptations=2)
    graph = build_graph(translated(asked, tmp_path))
    for cell, own in graph.cells.items():
        assert len(own) == 2
        assert len({t.name for t in own}) == (1 if cell.selector == "base" else 2)


def test_only_the_search_decides_a_translation(tmp_path):
    def names(task=None, **evaluate):
        evaluate["task"] = {"kind": "translation", **(task or {})}
        asked = recipe(selector("knn"), compare="knn")
        asked = dataclasses.replace(asked, evaluate=asked.evaluate.with_values(evaluate))
        return [
            t.name for own in build_graph(translated(asked, tmp_path)).cells.values() for t in own
        ]

    assert names(finetune={"epochs": 9}) == names()
    assert names(task={"num_beams": 2}) != names()


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (('model = "init:tiny"', 'model = "init:huge"'), r"\[adapt\].*model\.init|models"),
        (('["random", "law", "it"]', '["base", "random", "law", "it"]'), r"models .*init:tiny"),
        (("[selector.it]\nsources", "[selector.random]\nsources"), r"selector\.random\.sources"),
    ],
)
def test_bad_columns_are_refused(loaded, change, named):
    from corpusfit_papers.experiments.grid import check_plans

    with pytest.raises(UsageError, match=named):
        check_plans(loaded(RECIPE.replace(*change)).recipe)


def test_the_first_text_is_scored_and_the_task_says_the_direction(loaded, tmp_path):
    both = RECIPE.replace('["random", "law", "it"]', '["general", "random", "law", "dsir"]')
    both = both.replace("[adapt]", '[adapt]\nobjective.name = "translation"')
    both = both.partition("[selector.it]")[0] + "[[tasks]]" + both.split("[[tasks]]", 1)[1]
    both += '\n[select.choose]\nfraction_of = "segments"\ndedup = "none"\n'
    turned = re.sub(r"pair:(\w+)\.de,(\w+)\.en", r"pair:\1.en,\2.de", both)
    for text, names, field in ((both, ("de", "en"), "text"), (turned, ("en", "de"), "translation")):
        found = loaded(text)
        graph = build_graph(found)
        stored = found.tasks["it", 0]
        pairs = found.folder.pairs(stored.key, "train").read_text().splitlines()
        given = [(tmp_path / f"it-task/train.{name}").read_text().splitlines() for name in names]
        assert [line.split("\t") for line in pairs] == [list(p) for p in zip(*given, strict=True)]
        assert lines(found.folder.texts(stored.key, "train")) == given[0]
        assert {s.plan.read.text_field for s in graph.selections.values()} == {"text"}
        # either way the German texts are translated
        assert {a.plan.read.text_field for a in graph.adaptations.values()} == {field}


def test_tasks_have_one_direction(loaded):
    """A recipe trains from the texts that its tasks translate."""
    turned = RECIPE.replace(
        'path = "it-task"', 'path = "it-task"\nevaluate.task.direction = "en-de"'
    )
    with pytest.raises(UsageError, match="one direction"):
        loaded(turned)


def test_an_oracle_of_pairs_has_a_domain_for_each_task(loaded):
    text = re.sub(r"\[selector\.(.+\n)+?(?=\[)", "", RECIPE).replace('"law", "it"', '"oracle"')
    text = re.sub(r'(path = "(\w+)-task")', r'\1\noracle = ["\2*"]', text)
    plans = [selection.plan for selection in build_graph(loaded(text)).selections.values()]
    domains = [p.method.options["domain"] for p in plans if p.method.name == "oracle"]
    assert domains == ["law*", "it*"]
