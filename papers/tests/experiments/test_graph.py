"""The grid of a recipe and its step graph: cells, shared steps, and what digests depend on."""

import dataclasses

import pytest

from corpusfit.core.errors import UsageError
from corpusfit.core.manifest import digest
from corpusfit.core.plan import DEFAULT_METHOD, Plan
from corpusfit.evaluation.plan import EvaluatePlan
from corpusfit.evaluation.task import Outcome
from corpusfit.scoring.names import names as method_names
from corpusfit.text.context import Machine
from corpusfit.training.plan import AdaptPlan
from corpusfit_papers.experiments.config import Recipe, RecipeTask, Search, Selector
from corpusfit_papers.experiments.fingerprints import on_machine, tuning
from corpusfit_papers.experiments.folder import RecipeFolder
from corpusfit_papers.experiments.graph import build_graph, with_found
from corpusfit_papers.experiments.grid import check_plans, columns_of, grid
from corpusfit_papers.experiments.inputs import RecipeInputs, StoredTask
from corpusfit_papers.mixing.plan import CompositionPlan, TextSource


def selector(name, **words):
    method = name if name in method_names() else DEFAULT_METHOD
    values = {"method": {"name": method}, "cut": {"pieces": 256, "gamma": 15}}
    plan = Plan().with_values(values)
    columns = {"fractions": (0.1,), "weights": ("off",), "adapters": ("",), "augment": ("",)}
    return Selector(name, plan, AdaptPlan(), **{**columns, **words})


def recipe(*selectors, **words):
    tasks = (RecipeTask("a", "a", oracle=("x*", "y")), RecipeTask("b", "b", oracle=("z",)))
    given = {"name": "t", "models": ("m",), "tasks": tasks, "corpus": ("p",), "seeds": 2, **words}
    return Recipe(selectors=selectors, **given)


def inputs(recipe, tmp_path, sizes=(0,), **words):
    tasks = {
        (t.name, size): StoredTask(
            t.name, size, 9, "classification", "accuracy", *(f"{t.name}{size}{k}" for k in "kttlj")
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


def test_settings_that_do_not_apply_make_no_cells():
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


def test_cells_share_steps(tmp_path):
    """Random for all tasks, drawn for each adaptation; one scoring for all amounts of a method."""
    asked = recipe(
        selector("base", augment=("", "tfidf")),
        selector("general"),
        selector("random"),
        selector("knn", fractions=(0.1, 0.2), weights=("off", "lambda", "resample")),
        adaptations=2,
    )
    graph = build_graph(inputs(asked, tmp_path))
    labels = sorted(s.label for s in graph.selections.values())
    assert labels == [
        *("knn 0.1 for a", "knn 0.1 for b", "knn 0.2 for a", "knn 0.2 for b"),
        *("knn for a", "knn for b", "random 0.1 for a", "random 0.1 for a, number 2"),
    ]
    assert len({s.scoring for s in graph.selections.values()}) == 4
    policies = [
        s.plan.choose.policy for s in graph.selections.values() if s.label.startswith("knn for")
    ]
    assert policies == ["continuous"] * 2
    # two of general, two of random, and for each task two at 0.1, 0.2, lambda and resample
    assert len(graph.adaptations) == 2 + 2 + 2 * 2 * 4
    assert len(graph.augmentations) == 2
    tunings = [(t.key, t.seed) for own in graph.cells.values() for t in own]
    assert len(set(tunings)) == len(tunings) == 2 * 8 * 2


def test_seeds_alternate_between_adapted_models(tmp_path):
    asked = recipe(selector("knn"), seeds=5, seed=7, adaptations=2, compare="knn")
    graph = build_graph(inputs(asked, tmp_path))
    own = next(iter(graph.cells.values()))
    assert [t.seed for t in own] == [7, 8, 9, 10, 11]
    first, second = own[0].adapted, own[1].adapted
    assert [t.adapted for t in own] == [first, second, first, second, first]
    assert [graph.adaptations[key].plan.seed for key in (first, second)] == [7, 8]
    assert own[0].plan.model.name == str(tmp_path / "models" / first)


def test_no_model_trains_on_its_dev_and_test_texts(tmp_path):
    """What is shared is guarded against all tasks, the rest against its own."""
    asked = recipe(selector("random"), selector("knn"), selector("task"), compare="random")
    graph = build_graph(inputs(asked, tmp_path, sizes=(5, 0)))
    for step in graph.adaptations.values():
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
    assert not others.adaptations.keys() & graph.adaptations.keys()


def test_the_steps_of_one_task_are_those_of_the_whole_recipe(tmp_path):
    """A table is made row by row: with `only`, no step has another digest."""
    asked = recipe(selector("base"), selector("random"), selector("general"), selector("knn"))
    every = inputs(asked, tmp_path)
    graph, whole = build_graph(dataclasses.replace(every, only=("b",))), build_graph(every)
    assert {cell.task for cell in graph.cells} == {"b"}
    assert all(whole.cells[cell] == own for cell, own in graph.cells.items())
    assert graph.adaptations.items() < whole.adaptations.items()
    assert (len(graph.adaptations), len(whole.adaptations)) == (3, 4)
    asked.check_only(("b", "a"))
    with pytest.raises(UsageError, match=r"only` .*Perhaps b"):
        asked.check_only(("bb",))


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
    graph = build_graph(inputs(asked, tmp_path))
    assert len(graph.selections) == 2
    steps = {
        (cell.task, cell.selector): graph.adaptations[tunings[0].adapted]
        for cell, tunings in graph.cells.items()
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
        options = graph.selections[steps["a", "other"].selection].plan.method.options
        assert options == {"domain": "z"}


def test_a_control_on_the_other_tasks_own_texts(tmp_path):
    """The best weights are picked by the task that is trained on; a smaller task is taken whole."""
    own = dataclasses.replace(selector("task"), adapt=AdaptPlan().with_value("train.keep", "best"))
    tasks = (RecipeTask("a", "a", other="b"), RecipeTask("b", "b", other="a"))
    asked = recipe(own, control(own), tasks=tasks, compare="task")
    given = inputs(asked, tmp_path, sizes=(5, 9))
    smaller = {key: task for key, task in given.tasks.items() if key != ("b", 9)}
    graph = build_graph(dataclasses.replace(given, tasks=smaller))
    trained = {
        (cell.task, cell.size): graph.adaptations[tunings[0].adapted].task[0].split("/")[-2]
        for cell, tunings in graph.cells.items()
        if cell.selector == "other"
    }
    assert trained == {("a", 5): "b5k", ("a", 9): "b5k", ("b", 5): "a5k"}


def test_the_best_weights_are_picked_by_the_task_so_they_are_not_shared(tmp_path):
    best = AdaptPlan().with_value("train.keep", "best")
    asked = recipe(dataclasses.replace(selector("random"), adapt=best), compare="random")
    graph = build_graph(inputs(asked, tmp_path))
    assert len(graph.selections) == 1
    assert len(graph.adaptations) == 2


def test_digests_depend_on_content_and_not_on_names(tmp_path):
    asked = recipe(selector("base"), selector("knn"))
    graph = build_graph(inputs(asked, tmp_path))

    def keys(**words):
        other = recipe(selector("base"), selector("knn"), **words)
        names = dict.fromkeys(other.models, "print of m")
        found = build_graph(inputs(other, tmp_path, models=names))
        return found.selections.keys(), found.adaptations.keys(), tuning_keys(found)

    same = graph.selections.keys(), graph.adaptations.keys(), tuning_keys(graph)
    assert keys(models=("elsewhere/m",)) == same
    assert keys(watts=3.0, name="other", pairs=(("knn", "base"),)) == same
    tuned = keys(evaluate=EvaluatePlan().with_value("finetune.epochs", 2))
    assert tuned[:2] == same[:2]
    assert not tuned[2] & same[2]
    changed = build_graph(inputs(asked, tmp_path, pile={"p": "2"}))
    assert not changed.selections.keys() & graph.selections.keys()
    base = {(t.key, t.seed) for c, own in graph.cells.items() for t in own if c.selector == "base"}
    assert base < tuning_keys(changed)


def keys_of(asked, tmp_path, **words):
    """Digests of selections, adaptations and fine-tunings."""
    graph = build_graph(inputs(asked, tmp_path, **words))
    return set(graph.selections), set(graph.adaptations), tuning_keys(graph)


def adapted_with(setting, value):
    plan = AdaptPlan().with_value("adapter.kind", "lora") if "adapter" in setting else AdaptPlan()
    changed = dataclasses.replace(selector("knn"), adapt=plan.with_value(setting, value))
    return recipe(selector("base"), changed)


@pytest.mark.parametrize("name", ["general", "random", "knn"])
def test_a_second_phase_on_the_task_is_a_model_for_that_task(tmp_path, name):
    """It reads the task's train texts, is guarded by its dev and test, and is not shared."""
    plain = recipe(selector("base"), selector(name))
    plan = AdaptPlan().with_value("then_task.on", True)
    asked = recipe(selector("base"), dataclasses.replace(selector(name), adapt=plan))
    steps = build_graph(inputs(asked, tmp_path)).adaptations
    assert len(steps) == 2
    assert not steps.keys() & build_graph(inputs(plain, tmp_path)).adaptations.keys()
    for step in steps.values():
        (text,) = step.task
        folder = text.removesuffix("train.jsonl")
        assert sorted(step.guard) == [f"{folder}dev.jsonl", f"{folder}test.jsonl"]
        assert not step.shared


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


def test_digests_depend_on_the_resolved_device_and_precision(tmp_path):
    """`auto` has the same digests as the value it resolves to, and another value has others."""
    asked = on_machine(recipe(selector("base"), selector("knn")), Machine())
    device, precision = asked.evaluate.finetune.device, asked.evaluate.finetune.precision
    assert "auto" not in (device, precision)
    other = {"bf16": "fp32", "fp32": "bf16"}[precision]
    plain = keys_of(asked, tmp_path)

    def with_precision(precision):
        values = {"device": device, "precision": precision}
        changed = dataclasses.replace(
            selector("knn"), adapt=AdaptPlan().with_values({"train": values})
        )
        tuned = EvaluatePlan().with_values({"finetune": values})
        return keys_of(recipe(selector("base"), changed, evaluate=tuned), tmp_path)

    assert with_precision(precision) == plain
    same, adapted, tuned = with_precision(other)
    assert same == plain[0]
    assert not adapted & plain[1]
    assert not tuned & plain[2]


def test_digests_depend_on_the_encoder_of_methods_that_read_embeddings(tmp_path):
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


def test_digests_depend_on_the_content_of_a_methods_files(tmp_path):
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


def test_augmentations_depend_on_the_content_of_the_translation_models(tmp_path):
    def keys(fingerprints, **names):
        augment = {"mt": "m1", "mt_back": "m2", **names}
        asked = recipe(selector("base", augment=("backtranslate",)), augmentation=augment)
        models = {"m": "0"} | dict(zip(augment.values(), fingerprints, strict=True))
        return set(build_graph(inputs(asked, tmp_path, models=models)).augmentations)

    assert keys("12") == keys("12", mt="elsewhere")
    assert not keys("12") & keys("13")


def test_random_and_general_depend_on_no_training_text(tmp_path):
    """They do not read a task's training texts, but leave out its dev and test texts."""
    asked = recipe(selector("random"), selector("general"), compare="random")
    plain = inputs(asked, tmp_path)

    def keys(**words):
        tasks = {k: dataclasses.replace(t, **words) for k, t in plain.tasks.items()}
        graph = build_graph(dataclasses.replace(plain, tasks=tasks))
        return set(graph.selections), set(graph.adaptations)

    assert keys(texts="other") == keys()
    assert keys(judged="other")[0] == keys()[0]
    assert not keys(judged="other")[1] & keys()[1]
    graph = build_graph(plain)
    assert all(step.shared and not step.task for step in graph.adaptations.values())


def test_an_explicit_default_is_the_same_fine_tuning(tmp_path):
    asked = recipe(selector("base"))
    with_precision = EvaluatePlan().with_values({"finetune": {"epochs": 5, "learning_rate": 3e-5}})
    assert keys_of(recipe(selector("base"), evaluate=with_precision), tmp_path) == keys_of(
        asked, tmp_path
    )
    metric = dataclasses.replace(asked.tasks[0], metric="accuracy")
    other = recipe(selector("base"), tasks=(metric, asked.tasks[1]))
    assert keys_of(other, tmp_path)[2] != keys_of(asked, tmp_path)[2]


def test_the_adapter_of_the_base_has_the_size_of_the_others(tmp_path):
    wide = AdaptPlan().with_value("adapter.rank", 4)
    own = dataclasses.replace(selector("base", adapters=("lora",)), adapt=wide)
    graph = build_graph(inputs(recipe(own), tmp_path))
    assert {t.plan.model.rank for ts in graph.cells.values() for t in ts} == {4}


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        (
            recipe(selector("knn", weights=("lambda",)), selector("knn lambda")),
            r"selectors.*knn lambda twice",
        ),
        (recipe(selector("base"), selector("metric")), r"selectors.*got 'metric'"),
        (recipe(selector("base"), models=("a/m", "b/m")), r"models.*got 'a/m, b/m'"),
    ],
)
def test_columns_of_the_same_name_are_rejected(asked, words):
    with pytest.raises(UsageError, match=words):
        check_plans(asked)


def test_an_adapter_of_the_base_has_the_default_scale():
    plan = AdaptPlan().with_value("adapter.alpha", 4)
    own = dataclasses.replace(selector("base", adapters=("lora",)), adapt=plan)
    with pytest.raises(UsageError, match=r"adapt\.adapter\.alpha.*16.*got 4"):
        check_plans(recipe(own))


def test_settings_of_a_method_are_checked_before_anything_is_read():
    plan = Plan().with_values({"method": {"name": "knn", "kk": 3}})
    asked = recipe(dataclasses.replace(selector("knn"), select=plan), compare="knn")
    with pytest.raises(UsageError, match=r"method knn.*'kk'"):
        check_plans(asked)


@pytest.mark.parametrize(
    ("path", "value", "key"),
    [
        ("cut.gamma", 0, r"\[select\].*`cut\.gamma`"),
        ("method.k", 0, r"\[select\].*`method\.k`"),
        ("train.max_steps", 0, r"\[adapt\].*`train\.max_steps`"),
        ("finetune.learning_rate", 0.0, r"\[evaluate\].*`finetune\.learning_rate`"),
    ],
)
def test_a_value_that_is_not_allowed_is_named_by_its_full_key(path, value, key):
    own = selector("knn")
    asked = recipe(own, compare="knn")
    if path.startswith("finetune"):
        asked = dataclasses.replace(asked, evaluate=asked.evaluate.with_value(path, value))
    else:
        part = "adapt" if path.startswith("train") else "select"
        changed = getattr(own, part).with_values(
            {"method": {"name": "knn"}} if part == "select" else {}
        )
        own = dataclasses.replace(own, **{part: changed.with_value(path, value)})
        asked = dataclasses.replace(asked, selectors=(own,))
    with pytest.raises(UsageError, match=rf"{key} must .*got {value}\b"):
        check_plans(asked)


def tuning_keys(graph):
    return {(t.key, t.seed) for own in graph.cells.values() for t in own}


def test_the_oracle_selects_its_domain(tmp_path):
    asked = recipe(selector("oracle", fractions=(0.1, 0.3)), compare="oracle")
    graph = build_graph(inputs(asked, tmp_path))
    plans = [s.plan for s in graph.selections.values()]
    assert [p.method.options["domain"] for p in plans] == ["x*,y", "z"]
    assert {(p.choose.threshold, p.choose.fraction) for p in plans} == {(0.5, None)}


def test_settings_that_a_cell_cannot_have_are_rejected_before_reading():
    both = selector("knn", augment=("backtranslate",))
    with pytest.raises(
        UsageError,
        match=r"\[augmentation\].*`mt` and `mt_back` must",
    ):
        check_plans(recipe(both, compare="knn"))


MONO = RecipeTask("a", "a", models={"mono": "de", "specific": "bio"})


def test_columns_of_other_models(tmp_path):
    """mDAPT, Table 4: models of one language, different for each task, beside a multilingual one;
    a selector with a method adapts its own model."""
    tasks = (MONO, RecipeTask("b", "b", models={"mono": "en"}))
    asked = recipe(
        selector("base"),
        selector("mono", plain=True),
        selector("knn", model="other"),
        tasks=tasks,
        compare="mono",
    )
    assert asked.every_model == {
        "m": "models",
        "other": "selector.knn.model",
        "de": "tasks.models.mono of a",
        "bio": "tasks.models.specific of a",
        "en": "tasks.models.mono of b",
    }
    names = {m: f"print of {m}" for m in asked.every_model}
    graph = build_graph(inputs(asked, tmp_path, models=names))
    models = {(c.task, c.selector): own[0].plan.model.name for c, own in graph.cells.items()}
    assert {k: v for k, v in models.items() if k[1] != "knn"} == {
        ("a", "base"): "m",
        ("b", "base"): "m",
        ("a", "mono"): "de",
        ("b", "mono"): "en",
    }
    assert {s.plan.model.name for s in graph.adaptations.values()} == {"other"}
    assert len({c.row for c in graph.cells}) == 2
    assert len({own[0].key for own in graph.cells.values()}) == 6
    with pytest.raises(UsageError, match=r"tasks\.models.*specific"):
        dataclasses.replace(asked, selectors=asked.selectors[:2]).check()


def composition(name):
    sources = (TextSource("s", (f"{name}.txt",), kind="specific", language="en"),)
    return CompositionPlan("E_D", 100, sources, ("en",)), f"print of {name}"


def test_compositions_are_steps_that_tasks_share(tmp_path):
    """One composition and one model for all tasks of a domain, guarded against every task."""
    tasks = tuple(
        RecipeTask(name, name, compose={"E_D": file}, other=other)
        for name, file, other in (("a", "bio", "c"), ("b", "bio", "c"), ("c", "fin", "a"))
    )
    adapt = AdaptPlan().with_value("train.max_steps", 10)
    composed = dataclasses.replace(selector("E_D", compose="bio"), adapt=adapt)
    asked = recipe(
        selector("base"),
        composed,
        dataclasses.replace(composed, name="other", of="E_D"),
        tasks=tasks,
    ).check()
    found = {name: composition(name) for name in ("bio", "fin")}
    graph = build_graph(inputs(asked, tmp_path, compositions=found))
    assert sorted(s.label for s in graph.selections.values()) == ["E_D of bio", "E_D of fin"]
    assert len(graph.adaptations) == 2
    for step in graph.adaptations.values():
        assert step.data == (str(tmp_path / "selections" / step.selection / "composed"),)
        assert len(step.guard) == 6
    adapted = {(c.task, c.selector): own[0].adapted for c, own in graph.cells.items()}
    assert adapted["a", "E_D"] == adapted["b", "E_D"] == adapted["c", "other"]
    assert adapted["c", "E_D"] == adapted["a", "other"] != adapted["a", "E_D"]
    changed = {**found, "bio": (found["bio"][0], "other texts")}
    again = build_graph(inputs(asked, tmp_path, compositions=changed))
    assert len(set(again.adaptations) & set(graph.adaptations)) == 1


def outcome(path, dev):
    path.parent.mkdir(exist_ok=True)
    scores = {"dev": {"accuracy": dev}, "test": {"accuracy": 0.0}}
    Outcome(9, 0, scores, {}, [], 1, {}, {}, 1.0, 1.0, 1.0).write(path)


def test_a_search_decides_on_dev_for_all_columns(tmp_path):
    """mDAPT, section 4.2: batch {16, 32} x epochs {2, 4, 6} with the model of one language; the
    first of the best, by task; the table's own fine-tuning with them is one of the search."""
    asked = recipe(
        selector("base"),
        selector("mono", plain=True),
        tasks=(MONO, RecipeTask("b", "b", models={"mono": "en"})),
        search=Search("mono", batch=(16, 32), epochs=(2, 4, 6)),
    )
    asked = dataclasses.replace(
        asked, selectors=(*asked.selectors, selector("specific", plain=True))
    )
    start = inputs(asked.check(), tmp_path, models={m: m for m in asked.every_model})
    graph = build_graph(start)
    tried = graph.searches["a", 0]
    assert [s for s, _ in tried] == [
        {"batch": batch, "epochs": epochs} for batch in (16, 32) for epochs in (2, 4, 6)
    ]
    assert {node.plan.model.name for _, node in tried} == {"de"}
    assert len({node.key for _, node in tried}) == 6
    for (_, node), dev in zip(tried, [0.1, 0.2, 0.5, 0.3, 0.5, 0.4], strict=True):
        outcome(node.out, dev)
    found = with_found(start)
    assert found.found == {("a", 0): {"batch": 16, "epochs": 6}}  # not yet for b
    after = build_graph(found)
    for cell, own in after.cells.items():
        plan = own[0].plan.finetune
        expected = (16, 6) if cell.task == "a" else (16, 2)
        assert (plan.batch, plan.epochs) == expected
    mono = next(own for c, own in after.cells.items() if (c.task, c.selector) == ("a", "mono"))
    assert mono[0] == tried[2][1]
    names = [step.name for step in after.pending(found.folder)["fine-tunings"]]
    # of b the search; of a's three and b's two cells of two seeds all but those of the searches
    assert len(names) == len(set(names)) == 6 + 5 + 3
    assert ("b", "specific") not in {(c.task, c.selector) for c in after.cells}
    few = dataclasses.replace(asked, search=Search("mono", ("a",), (16, 32)))
    one = build_graph(dataclasses.replace(start, recipe=few))
    assert one.searches["b", 0] == []
    assert {own[0].plan.finetune.batch for c, own in one.cells.items() if c.task == "b"} == {None}


@pytest.mark.parametrize(
    ("search", "match"),
    [
        (Search("knn", batch=(16, 32)), r"search\.selector.*base"),
        (Search("base", batch=(16,)), "two settings or more"),
        (Search("base", batch=(16, 0)), "search"),
        (Search("base", ("c",), (16, 32)), r"search\.tasks.*c"),
    ],
)
def test_a_search_that_is_not_one(search, match):
    with pytest.raises(UsageError, match=match):
        recipe(selector("base"), selector("task"), search=search).check()


def test_a_threshold_takes_the_place_of_the_fraction(tmp_path):
    """As for all texts of some sources (`oracle`), of whatever size."""
    plan = Plan().with_values({"method.name": "oracle", "method.domain": "x*"})
    plan = plan.with_value("choose.threshold", 0.5)
    mix = dataclasses.replace(selector("mix"), select=plan)
    graph = build_graph(inputs(recipe(selector("base"), mix), tmp_path))
    for step in graph.selections.values():
        choose = step.plan.check().choose
        assert (choose.fraction, choose.threshold) == (None, 0.5)


def test_a_number_of_warmup_steps_is_not_their_share():
    plan = EvaluatePlan().with_value("finetune.device", "cpu")
    plain, one = (
        digest(tuning(each, "tagging", adapter=False))
        for each in (plan, plan.with_value("finetune.warmup_steps", 1))
    )
    assert one != plain
