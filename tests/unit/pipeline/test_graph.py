"""The grid of a recipe and its steps: what is one cell, what is shared, what a digest goes by."""

import dataclasses

import pytest

from corpusfit.adapt.plan import AdaptPlan
from corpusfit.errors import UsageError
from corpusfit.evaluate.plan import EvaluatePlan
from corpusfit.manifest import RecipeFolder
from corpusfit.pipeline.recipes.config import Recipe, RecipeTask, Selector
from corpusfit.pipeline.recipes.fingerprints import on_machine
from corpusfit.pipeline.recipes.graph import build_graph
from corpusfit.pipeline.recipes.grid import check_plans, columns_of, grid
from corpusfit.pipeline.recipes.nodes import RecipeInputs, StoredTask
from corpusfit.pipeline.recipes.predictors import predictors_of
from corpusfit.pipeline.run import Machine
from corpusfit.plan import Plan
from corpusfit.score.names import names as method_names


def selector(name, **words):
    method = name if name in method_names() else "auto"
    plan = Plan().with_value("method.name", method)
    columns = {"fractions": (0.1,), "weights": ("off",), "adapters": ("",), "augment": ("",)}
    return Selector(name, plan, AdaptPlan(), **{**columns, **words})


def recipe(*selectors, **words):
    tasks = (RecipeTask("a", "a", oracle=("x*", "y")), RecipeTask("b", "b", oracle=("z",)))
    given = {"name": "t", "models": ("m",), "tasks": tasks, "pile": ("p",), "seeds": 2, **words}
    return Recipe(selectors=selectors, **given)


def inputs(recipe, tmp_path, sizes=(0,), **words):
    tasks = {
        (t.name, size): StoredTask(
            t.name, size, 9, "classification", "accuracy", *(f"{t.name}{size}{k}" for k in "ktlj")
        )
        for t in recipe.tasks
        for size in sizes
    }
    given = {
        "pile": {"p": "1"},
        "models": {m: f"print of {m}" for m in recipe.models},
        "encoders": {s.select.embed: "print of an encoder" for s in recipe.selectors},
        **words,
    }
    return RecipeInputs(recipe, RecipeFolder(tmp_path), tasks, **given)


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
    """Random for all tasks, drawn for each adaptation; one scoring for all amounts of a method."""
    asked = recipe(
        selector("base", augment=("", "tfidf")),
        selector("general"),
        selector("random"),
        selector("knn", fractions=(0.1, 0.2), weights=("off", "lambda", "resample")),
        adaptations=2,
    )
    work = build_graph(inputs(asked, tmp_path))
    labels = sorted(s.label for s in work.selections.values())
    assert labels == [
        *("knn 0.1 for a", "knn 0.1 for b", "knn 0.2 for a", "knn 0.2 for b"),
        *("knn for a", "knn for b", "random 0.1 for a", "random 0.1 for a, number 2"),
    ]
    assert len({s.scoring for s in work.selections.values()}) == 4
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
    work = build_graph(inputs(asked, tmp_path))
    own = next(iter(work.cells.values()))
    assert [t.seed for t in own] == [7, 8, 9, 10, 11]
    first, second = own[0].adapted, own[1].adapted
    assert [t.adapted for t in own] == [first, second, first, second, first]
    assert [work.adaptations[key].plan.seed for key in (first, second)] == [7, 8]
    assert own[0].plan.model.name == str(tmp_path / "models" / first)


def test_no_model_sees_the_texts_that_it_is_judged_on(tmp_path):
    """What is shared is guarded against all tasks, the rest against its own."""
    asked = recipe(selector("random"), selector("knn"), selector("task"), compare="random")
    work = build_graph(inputs(asked, tmp_path, sizes=(5, 0)))
    for step in work.adaptations.values():
        tasks = {path.split("/")[-2] for path in step.guard}
        splits = {path.split("/")[-1] for path in step.guard}
        assert splits == {"dev.jsonl", "test.jsonl"}
        if step.label.endswith("all tasks"):
            assert {t[0] for t in tasks} == {"a", "b"}
        else:
            assert len(tasks) == 1
            assert not step.task or step.task[0].split("/")[-2] in tasks
    kept = dataclasses.replace(asked, keep_overlap=True)
    others = build_graph(inputs(kept, tmp_path, sizes=(5, 0)))
    assert not any(step.guard for step in others.adaptations.values())
    assert not others.adaptations.keys() & work.adaptations.keys()


def control(of):
    return dataclasses.replace(of, name="other", of=of.name)


@pytest.mark.parametrize("name", ["oracle", "knn"])
def test_a_control_is_adapted_on_the_other_tasks_selection(name, tmp_path):
    """mDAPT, Table 5: one selection for both; no dev or test text of either task is seen."""
    own = selector(name)
    tasks = (
        RecipeTask("a", "a", oracle=("x*", "y"), other="b"),
        RecipeTask("b", "b", oracle=("z",), other="a"),
    )
    asked = recipe(selector("base"), own, control(own), tasks=tasks)
    check_plans(asked)
    work = build_graph(inputs(asked, tmp_path))
    assert len(work.selections) == 2
    steps = {
        (cell.task, cell.selector): work.adaptations[tunings[0].adapted]
        for cell, tunings in work.cells.items()
        if tunings[0].adapted
    }
    assert steps["a", "other"].selection == steps["b", name].selection
    assert steps["b", "other"].selection == steps["a", name].selection
    assert len({step.key for step in steps.values()}) == 4
    assert {path.split("/")[-2] for path in steps["a", "other"].guard} == {"a0k", "b0k"}
    assert {path.split("/")[-2] for path in steps["a", name].guard} == {"a0k"}
    expected = f"{'other 0.1' if name == 'knn' else 'other'} for a ({name} for b)"
    assert steps["a", "other"].label == expected
    if name == "oracle":
        options = work.selections[steps["a", "other"].selection].plan.method.options
        assert options == {"domain": "z"}


def test_a_control_on_the_other_tasks_own_texts(tmp_path):
    """The best weights are picked by the task that is trained on; a smaller task is taken whole."""
    own = dataclasses.replace(selector("task"), adapt=AdaptPlan().with_value("train.keep", "best"))
    tasks = (RecipeTask("a", "a", other="b"), RecipeTask("b", "b", other="a"))
    asked = recipe(own, control(own), tasks=tasks, compare="task")
    given = inputs(asked, tmp_path, sizes=(5, 9))
    smaller = {key: task for key, task in given.tasks.items() if key != ("b", 9)}
    work = build_graph(dataclasses.replace(given, tasks=smaller))
    trained = {
        (cell.task, cell.size): work.adaptations[tunings[0].adapted].task[0].split("/")[-2]
        for cell, tunings in work.cells.items()
        if cell.selector == "other"
    }
    assert trained == {("a", 5): "b5k", ("a", 9): "b5k", ("b", 5): "a5k"}


def test_the_best_weights_are_picked_by_the_task_so_they_are_not_shared(tmp_path):
    best = AdaptPlan().with_value("train.keep", "best")
    asked = recipe(dataclasses.replace(selector("random"), adapt=best), compare="random")
    work = build_graph(inputs(asked, tmp_path))
    assert len(work.selections) == 1
    assert len(work.adaptations) == 2


def test_digests_go_by_content_and_not_by_names(tmp_path):
    asked = recipe(selector("base"), selector("knn"))
    work = build_graph(inputs(asked, tmp_path))

    def keys(**words):
        other = recipe(selector("base"), selector("knn"), **words)
        names = dict.fromkeys(other.models, "print of m")
        found = build_graph(inputs(other, tmp_path, models=names))
        return found.selections.keys(), found.adaptations.keys(), all_tunings(found)

    same = work.selections.keys(), work.adaptations.keys(), all_tunings(work)
    assert keys(models=("elsewhere/m",)) == same
    assert keys(watts=3.0, name="other", pairs=(("knn", "base"),)) == same
    tuned = keys(evaluate=EvaluatePlan().with_value("tune.epochs", 2))
    assert tuned[:2] == same[:2]
    assert not tuned[2] & same[2]
    changed = build_graph(inputs(asked, tmp_path, pile={"p": "2"}))
    assert not changed.selections.keys() & work.selections.keys()
    base = {(t.key, t.seed) for c, own in work.cells.items() for t in own if c.selector == "base"}
    assert base < all_tunings(changed)


def keys_of(asked, tmp_path, **words):
    """Digests of selections, adaptations and fine-tunings."""
    work = build_graph(inputs(asked, tmp_path, **words))
    return set(work.selections), set(work.adaptations), all_tunings(work)


def adapted_with(setting, value):
    plan = AdaptPlan().with_value("adapter.kind", "lora") if "adapter" in setting else AdaptPlan()
    changed = dataclasses.replace(selector("knn"), adapt=plan.with_value(setting, value))
    return recipe(selector("base"), changed)


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("train.checkpoint_minutes", 1.0),
        ("train.checkpoints", 5),
        ("train.micro_tokens", 512),
        ("read.strict", True),
        ("adapter.rank", 4),
    ],
)
def test_what_changes_no_weight_changes_no_digest(tmp_path, setting, value):
    plain = keys_of(recipe(selector("base"), selector("knn")), tmp_path)
    if setting.startswith("adapter"):  # without an adapter its size is nothing
        plan = AdaptPlan().with_value(setting, value)
        changed = dataclasses.replace(selector("knn"), adapt=plan)
        assert keys_of(recipe(selector("base"), changed), tmp_path) == plain
    else:
        assert keys_of(adapted_with(setting, value), tmp_path) == plain


def test_device_and_precision_decide_however_they_came_about(tmp_path):
    """What `auto` comes to here is the same as saying it, and the other is not."""
    asked = on_machine(recipe(selector("base"), selector("knn")), Machine())
    device, precision = asked.evaluate.tune.device, asked.evaluate.tune.precision
    assert "auto" not in (device, precision)
    other = {"bf16": "fp32", "fp32": "bf16"}[precision]
    plain = keys_of(asked, tmp_path)

    def said(precision):
        values = {"device": device, "precision": precision}
        changed = dataclasses.replace(
            selector("knn"), adapt=AdaptPlan().with_values({"train": values})
        )
        tuned = EvaluatePlan().with_values({"tune": values})
        return keys_of(recipe(selector("base"), changed, evaluate=tuned), tmp_path)

    assert said(precision) == plain
    same, adapted, tuned = said(other)
    assert same == plain[0]
    assert not adapted & plain[1]
    assert not tuned & plain[2]


def test_the_encoder_decides_by_its_content_and_where_vectors_are_read(tmp_path):
    def with_encoder(name, embedder):
        plan = Plan().with_values({"method": {"name": name}, "embed": {"embedder": embedder}})
        return recipe(dataclasses.replace(selector(name), select=plan), compare=name)

    def keys(name, embedder, fingerprints):
        asked = with_encoder(name, embedder)
        encoders = {asked.selectors[0].select.embed: fingerprints}
        return keys_of(asked, tmp_path, encoders=encoders)[0]

    assert keys("knn", "here", "1") == keys("knn", "there", "1")
    assert not keys("knn", "here", "1") & keys("knn", "here", "2")
    assert keys("dsir", "here", "1") == keys("dsir", "there", "2")


def test_files_of_a_method_decide_by_their_content(tmp_path):
    def keys(ours, general, fingerprints):
        method = {"name": "moore_lewis", "arpa_in": ours, "arpa_general": general}
        plan = Plan().with_values({"method": method})
        asked = recipe(
            dataclasses.replace(selector("moore_lewis"), select=plan), compare="moore_lewis"
        )
        return keys_of(
            asked, tmp_path, files=dict(zip((ours, general), fingerprints, strict=True))
        )[0]

    assert keys("a", "b", "12") == keys("c", "d", "12")
    assert not keys("a", "b", "12") & keys("a", "b", "13")
    assert not keys("a", "b", "12") & keys("a", "b", "21")


def test_companions_go_by_the_content_of_what_translates(tmp_path):
    def keys(fingerprints, **names):
        augment = {"mt": "m1", "mt_back": "m2", **names}
        plan = EvaluatePlan().with_values({"augment": augment})
        asked = recipe(selector("base", augment=("backtranslate",)), evaluate=plan)
        models = {"m": "0"} | dict(zip(augment.values(), fingerprints, strict=True))
        return set(build_graph(inputs(asked, tmp_path, models=models)).companions)

    assert keys("12") == keys("12", mt="elsewhere")
    assert not keys("12") & keys("13")


def test_what_random_and_general_are_made_of_goes_by_no_task(tmp_path):
    """A task's training texts may change; its dev and test texts may not, as they are kept out."""
    asked = recipe(selector("random"), selector("general"), compare="random")
    plain = inputs(asked, tmp_path)

    def keys(**words):
        tasks = {k: dataclasses.replace(t, **words) for k, t in plain.tasks.items()}
        work = build_graph(dataclasses.replace(plain, tasks=tasks))
        return set(work.selections), set(work.adaptations)

    assert keys(texts="other") == keys()
    assert keys(judged="other")[0] == keys()[0]
    assert not keys(judged="other")[1] & keys()[1]
    work = build_graph(plain)
    assert all(step.shared and not step.task for step in work.adaptations.values())


def test_a_default_that_is_said_is_the_same_fine_tuning(tmp_path):
    asked = recipe(selector("base"))
    said = EvaluatePlan().with_values({"tune": {"epochs": 5, "rate": 3e-5}})
    assert keys_of(recipe(selector("base"), evaluate=said), tmp_path) == keys_of(asked, tmp_path)
    metric = dataclasses.replace(asked.tasks[0], metric="accuracy")
    other = recipe(selector("base"), tasks=(metric, asked.tasks[1]))
    assert keys_of(other, tmp_path)[2] != keys_of(asked, tmp_path)[2]


def test_the_base_has_an_adapter_as_wide_as_the_others(tmp_path):
    wide = AdaptPlan().with_value("adapter.reduction", 4)
    own = dataclasses.replace(selector("base", adapters=("pfeiffer",)), adapt=wide)
    work = build_graph(inputs(recipe(own), tmp_path))
    assert {t.plan.model.reduction for ts in work.cells.values() for t in ts} == {4}


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        (recipe(selector("knn", weights=("lambda",)), selector("knn lambda")), "knn lambda twice"),
        (recipe(selector("base"), selector("metric")), "named otherwise than dataset, metric"),
        (recipe(selector("base"), models=("a/m", "b/m")), "models must be of different names"),
    ],
)
def test_two_columns_under_one_name_are_refused(asked, words):
    with pytest.raises(UsageError, match=words):
        check_plans(asked)


def test_an_adapter_of_the_base_has_the_scale_that_evaluating_gives_it():
    plan = AdaptPlan().with_value("adapter.alpha", 4)
    own = dataclasses.replace(selector("base", adapters=("lora",)), adapt=plan)
    with pytest.raises(UsageError, match=r"adapt\.adapter\.alpha must be 16"):
        check_plans(recipe(own))


def test_settings_of_a_method_are_checked_before_anything_is_read():
    plan = Plan().with_values({"method": {"name": "knn", "kk": 3}})
    asked = recipe(dataclasses.replace(selector("knn"), select=plan), compare="knn")
    with pytest.raises(UsageError, match="A setting of knn must be one of"):
        check_plans(asked)


def all_tunings(work):
    return {(t.key, t.seed) for own in work.cells.values() for t in own}


def test_the_oracle_is_asked_for_its_domain(tmp_path):
    asked = recipe(selector("oracle", fractions=(0.1, 0.3)), compare="oracle")
    work = build_graph(inputs(asked, tmp_path))
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


def test_looks_are_at_every_model_of_a_row_with_a_base(tmp_path):
    """A selection that failed is held against nothing; without a base there is nothing to see."""
    asked = recipe(selector("base"), selector("oracle"), selector("knn"), selector("dsir"))
    found = inputs(asked, tmp_path)
    work = build_graph(found)
    looks = predictors_of(found, work)
    assert len(looks) == len({look.key for look in looks.values()}) == 2 * 4
    base = next(look for cell, look in looks.items() if cell.selector == "base")
    first, *rest = [work.selections[key].label for key in base.selections]
    assert first == "knn 0.1 for a"
    assert rest == ["dsir 0.1 for a", "oracle for a"]  # the oracle keeps no sample
    left = predictors_of(found, work, failed=[base.selections[0]])
    assert next(iter(left.values())).selections == base.selections[1:]
    exclusive = recipe(selector("knn"), compare="knn")
    other = inputs(exclusive, tmp_path)
    assert predictors_of(other, build_graph(other)) == {}


def test_a_look_goes_by_what_it_measures_and_not_by_how_models_are_trained(tmp_path):
    def keys(**train):
        plan = AdaptPlan().with_values({"train": train})
        both = (dataclasses.replace(selector(n), adapt=plan) for n in ("base", "knn"))
        found = inputs(recipe(*both), tmp_path)
        looks = predictors_of(found, build_graph(found))
        return {look.key for cell, look in looks.items() if cell.selector == "base"}

    assert keys(rate=1e-3, steps=7, warmup=0.5) == keys()
    assert not keys(length=64) & keys()
