"""Inputs of a recipe: tasks in the sizes that they reach, and their warnings."""

import json

import pytest

from corpusfit.core.plan import EmbedPlan, Plan
from corpusfit.evaluation.plan import EvaluatePlan, TaskPlan
from corpusfit.text.context import Machine
from corpusfit.training.plan import AdaptPlan
from corpusfit_papers.experiments.config import Recipe, RecipeTask, Selector
from corpusfit_papers.experiments.folder import RecipeFolder
from corpusfit_papers.experiments.inputs import load_inputs
from listening import Listening

pytest.importorskip("transformers", reason="the extra train is not installed")


@pytest.fixture
def store(tmp_path, tiny_lm):
    """Read a recipe of one task with 24 training examples, one of which is in test too."""
    texts = [f"text number {i}" for i in range(24)]
    splits = {"train": texts, "dev": ["dev 1", "dev 2"], "test": ["test 1", "test 2", texts[3]]}
    for split, found in splits.items():
        rows = ({"text": t, "label": str(i % 2)} for i, t in enumerate(found))
        text = "".join(json.dumps(row) + "\n" for row in rows)
        (tmp_path / f"task/{split}.jsonl").parent.mkdir(exist_ok=True)
        (tmp_path / f"task/{split}.jsonl").write_text(text)

    def store(plan=Plan(), name="base", **words):  # noqa: B008
        own = Selector(name, plan, AdaptPlan(), (0.1,), ("off",), ("",), ("",))
        asked = Recipe("t", (str(tiny_lm),), (RecipeTask("a", str(tmp_path / "task")),), (own,))
        for key, value in words.items():
            object.__setattr__(asked, key, value)
        collector = Listening()
        machine = Machine(cache=tmp_path / "cache", progress=collector)
        return load_inputs(
            asked, RecipeFolder(tmp_path / "out"), machine, store=True
        ), collector.warnings

    return store


def test_a_size_that_a_task_does_not_reach_uses_all_examples_once(store):
    inputs, warnings = store(train_sizes=(100, 10, 50))
    found = {size: task for (_, size), task in inputs.tasks.items()}
    assert {size: task.examples for size, task in found.items()} == {10: 10, 50: 24}
    assert any("24 training examples" in w and "50" in w for w in warnings)
    whole, _ = store()
    (same,) = whole.tasks.values()
    assert (same.size, same.examples) == (0, 24)
    assert same.key == found[50].key
    assert same.key != found[10].key


def test_copies_between_splits_are_warned_of(store):
    inputs, warnings = store()
    (task,) = inputs.tasks.values()
    assert task.splits == (2, 3)
    assert task.copies == 1
    assert any(w.startswith("a:") and "1 of 3" in w for w in warnings)


def test_encoders_and_files_have_fingerprints(store, tmp_path, tiny_encoder):
    plan = Plan().with_values({"method": {"name": "knn"}, "embed": {"embedder": str(tiny_encoder)}})
    inputs, _ = store(plan, "knn")
    assert list(inputs.encoders) == [EmbedPlan(embedder=str(tiny_encoder))]
    for name in ("in", "general"):
        (tmp_path / name).write_text(name)
    files = {"arpa_in": str(tmp_path / "in"), "arpa_general": str(tmp_path / "general")}
    inputs, _ = store(
        Plan().with_values({"method": {"name": "moore_lewis", **files}}), "moore_lewis"
    )
    assert not inputs.encoders
    assert set(inputs.files) == set(files.values())
    assert len(set(inputs.files.values())) == 2


def test_a_translation_task_is_both_its_sides(tmp_path, tiny_lm):
    """What a model trains on has a digest that a corrected translation changes."""

    def texts(word):
        for split in ("train", "dev", "test"):
            rows = [f"{split} {i}" for i in range(4)]
            (tmp_path / f"{split}.de").write_text("\n".join(rows) + "\n")
            (tmp_path / f"{split}.en").write_text("\n".join(f"{word} {r}" for r in rows) + "\n")
        own = Selector("base", Plan(), AdaptPlan(), (0.1,), ("off",), ("",), ("",))
        task = RecipeTask("a", str(tmp_path))
        evaluate = EvaluatePlan(task=TaskPlan(kind="translation", options={"direction": "de-en"}))
        asked = Recipe("t", (str(tiny_lm),), (task,), (own,), evaluate=evaluate)
        machine = Machine(cache=tmp_path / "cache", progress=Listening())
        inputs = load_inputs(asked, RecipeFolder(tmp_path / "out"), machine, store=False)
        assert any("4 pairs" in w and "dev" in w for w in machine.progress.warnings)
        return inputs.first().texts

    assert texts("the") != texts("this")
    assert texts("the") == texts("the")
