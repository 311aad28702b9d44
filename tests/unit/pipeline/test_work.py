"""The grid of a recipe and its steps: what is one cell, what is shared, what a digest goes by."""

import dataclasses

import pytest

from corpusfit.adapt.plan import AdaptPlan
from corpusfit.errors import UsageError
from corpusfit.evaluate.plan import EvaluatePlan
from corpusfit.manifest import RecipeFolder
from corpusfit.pipeline.recipes.cells import check_plans, columns_of, grid
from corpusfit.pipeline.recipes.recipe import Recipe, RecipeTask, Selector
from corpusfit.pipeline.recipes.work import Made, StoredTask, work_of
from corpusfit.plan import Plan


def selector(name, **words):
    method = name if name not in ("base", "general", "task") else "auto"
    plan = Plan().with_value("method.name", method)
    columns = {"fractions": (0.1,), "weights": ("off",), "adapters": ("",), "augment": ("",)}
    return Selector(name, plan, AdaptPlan(), **{**columns, **words})


def recipe(*selectors, **words):
    tasks = (RecipeTask("a", "a", oracle=("x*", "y")), RecipeTask("b", "b", oracle=("z",)))
    given = {"name": "t", "models": ("m",), "tasks": tasks, "pile": ("p",), "seeds": 2, **words}
    return Recipe(selectors=selectors, **given)


def made(recipe, tmp_path, sizes=(0,), **words):
    tasks = {
        (t.name, size): StoredTask(
            t.name, size, 9, "classification", "accuracy", *(f"{t.name}{size}{k}" for k in "ktj")
        )
        for t in recipe.tasks
        for size in sizes
    }
    given = {"pile": {"p": "1"}, "models": {m: f"print of {m}" for m in recipe.models}, **words}
    return Made(recipe, RecipeFolder(tmp_path), tasks, **given)


def test_what_leaves_no_choice_makes_no_cells():
    """Without a selection there are no fractions, and no weights; with weights no fraction."""
    many = {"fractions": (0.1, 0.2), "weights": ("off", "lambda", "mask+lambda")}
    names = ("base", "general", "task", "oracle", "knn")
    asked = recipe(*(selector(name, **many) for name in names))
    cells = [c for c in grid(asked, {"a": (0,), "b": ()}) if c.task == "a"]
    assert [columns_of(cells)[c] for c in cells] == [
        *("base", "general", "task", "oracle"),
        *("knn 0.1", "knn 0.2", "knn lambda", "knn 0.1 mask+lambda", "knn 0.2 mask+lambda"),
    ]
    assert len(set(cells)) == len(cells)


def test_nothing_is_made_twice(tmp_path):
    """Random and general once for all tasks; one scoring for all amounts of a method."""
    asked = recipe(
        selector("base", augment=("", "tfidf")),
        selector("general"),
        selector("random"),
        selector("knn", fractions=(0.1, 0.2), weights=("off", "lambda", "resample")),
        adaptations=2,
    )
    work = work_of(made(asked, tmp_path))
    labels = sorted(s.label for s in work.selections.values())
    assert labels == [
        *("knn 0.1 for a", "knn 0.1 for b", "knn 0.2 for a", "knn 0.2 for b"),
        *("knn for a", "knn for b", "random 0.1 for a"),
    ]
    assert len({s.scoring for s in work.selections.values()}) == 3
    policies = [
        s.plan.choose.policy for s in work.selections.values() if s.label.startswith("knn for")
    ]
    assert policies == ["continuous"] * 2
    # two of general, two of random, and for each task two at 0.1, 0.2, lambda and resample
    assert len(work.adaptations) == 2 + 2 + 2 * 2 * 4
    assert len(work.companions) == 2
    tunings = [(t.key, t.seed) for own in work.cells.values() for t in own]
    assert len(set(tunings)) == len(tunings) == 2 * 8 * 2


def test_seeds_take_turns_with_adapted_models(tmp_path):
    asked = recipe(selector("knn"), seeds=5, seed=7, adaptations=2, compare="knn")
    work = work_of(made(asked, tmp_path))
    own = next(iter(work.cells.values()))
    assert [t.seed for t in own] == [7, 8, 9, 10, 11]
    first, second = own[0].adapted, own[1].adapted
    assert [t.adapted for t in own] == [first, second, first, second, first]
    assert [work.adaptations[key].plan.seed for key in (first, second)] == [7, 8]
    assert own[0].plan.model.name == str(tmp_path / "models" / first)


def test_no_model_sees_the_texts_that_it_is_judged_on(tmp_path):
    """What is shared is guarded against all tasks, the rest against its own."""
    asked = recipe(selector("random"), selector("knn"), selector("task"), compare="random")
    work = work_of(made(asked, tmp_path, sizes=(5, 0)))
    for step in work.adaptations.values():
        tasks = {path.split("/")[-2] for path in step.guard}
        splits = {path.split("/")[-1] for path in step.guard}
        assert splits == {"dev.jsonl", "test.jsonl"}
        if step.label.endswith("all tasks"):
            assert {t[0] for t in tasks} == {"a", "b"}
        else:
            assert len(tasks) == 1
            assert step.task[0].split("/")[-2] in tasks
    kept = dataclasses.replace(asked, keep_overlap=True)
    others = work_of(made(kept, tmp_path, sizes=(5, 0)))
    assert not any(step.guard for step in others.adaptations.values())
    assert not others.adaptations.keys() & work.adaptations.keys()


def test_the_best_weights_are_picked_by_the_task_so_they_are_not_shared(tmp_path):
    best = AdaptPlan().with_value("train.keep", "best")
    asked = recipe(dataclasses.replace(selector("random"), adapt=best), compare="random")
    work = work_of(made(asked, tmp_path))
    assert len(work.selections) == 1
    assert len(work.adaptations) == 2


def test_digests_go_by_content_and_not_by_names(tmp_path):
    asked = recipe(selector("base"), selector("knn"))
    work = work_of(made(asked, tmp_path))

    def keys(**words):
        other = recipe(selector("base"), selector("knn"), **words)
        names = dict.fromkeys(other.models, "print of m")
        found = work_of(made(other, tmp_path, models=names))
        return found.selections.keys(), found.adaptations.keys(), all_tunings(found)

    same = work.selections.keys(), work.adaptations.keys(), all_tunings(work)
    assert keys(models=("elsewhere/m",)) == same
    assert keys(watts=3.0, name="other", pairs=(("knn", "base"),)) == same
    tuned = keys(evaluate=EvaluatePlan().with_value("tune.epochs", 2))
    assert tuned[:2] == same[:2]
    assert not tuned[2] & same[2]
    changed = work_of(made(asked, tmp_path, pile={"p": "2"}))
    assert not changed.selections.keys() & work.selections.keys()
    base = {(t.key, t.seed) for c, own in work.cells.items() for t in own if c.selector == "base"}
    assert base < all_tunings(changed)


def all_tunings(work):
    return {(t.key, t.seed) for own in work.cells.values() for t in own}


def test_the_oracle_is_asked_for_its_domain(tmp_path):
    asked = recipe(selector("oracle", fractions=(0.1, 0.3)), compare="oracle")
    work = work_of(made(asked, tmp_path))
    plans = [s.plan for s in work.selections.values()]
    assert [p.method.options["domain"] for p in plans] == ["x*,y", "z"]
    assert {(p.choose.threshold, p.choose.fraction) for p in plans} == {(0.5, None)}


def test_settings_that_a_cell_cannot_have_are_refused_before_anything_is_read():
    both = selector("knn", augment=("backtranslate",))
    with pytest.raises(UsageError, match="--mt and --mt-back"):
        check_plans(recipe(both, compare="knn"))
    cascade = Plan().with_value("cascade.stages", "dsir>static")
    asked = dataclasses.replace(selector("auto", weights=("lambda",)), select=cascade)
    with pytest.raises(UsageError, match="top with --cascade"):
        check_plans(recipe(asked, compare="auto"))
