"""Tasks of lm-evaluation-harness: with it, its own figures; without it, a word on how to get it."""

import dataclasses
import json
import random
import shutil
import sys
from types import ModuleType

import numpy as np
import pytest

import corpusfit
from corpusfit import experiments
from corpusfit.core.errors import InputError, UsageError
from corpusfit.evaluation.finetune import answer_task
from corpusfit.evaluation.plan import EvaluatePlan, TaskPlan
from corpusfit.evaluation.reading import read_task
from corpusfit.evaluation.task import load_task, store_task, task_digest
from corpusfit.evaluation.tasks import load

pytest.importorskip("torch", reason="the extra train is not installed")

CHOICES = ["kinase", "shares fell", "aspirin"]
ASKED = "Question: {{text}}\\nAnswer:"


@pytest.fixture
def task(tmp_path, jsonl):
    """Write a task of lm-eval with 14 examples and two in every prompt; returns its file."""
    rng = random.Random(3)
    words = " ".join(CHOICES).split()
    rows = [
        {"text": " ".join(rng.choices(words, k=6)), "gold": rng.randrange(3)} for _ in range(14)
    ]
    data = jsonl("rows.jsonl", rows)

    def write(name="mine", asked=ASKED, output="multiple_choice", metrics=("acc", "acc_norm")):
        (tmp_path / f"{name}.yaml").write_text(
            f"task: {name}\ndataset_path: json\ndataset_kwargs:\n  data_files:\n    test: {data}\n"
            f"test_split: test\nfewshot_split: test\nnum_fewshot: 2\noutput_type: {output}\n"
            f'doc_to_text: "{asked}"\ndoc_to_target: gold\ndoc_to_choice: {json.dumps(CHOICES)}\n'
            "metric_list:\n" + "".join(f"  - metric: {metric}\n" for metric in metrics)
        )
        return str(tmp_path / f"{name}.yaml")

    return write


def read(place, **settings):
    return read_task(place, TaskPlan(kind="lm_eval", **settings), seed=0)


def plan_of(model):
    given = [f"model.name={model}", "finetune.device=cpu", "task.kind=lm_eval"]
    return EvaluatePlan().with_overrides(given).check()


def test_without_the_library(monkeypatch):
    monkeypatch.setitem(sys.modules, "lm_eval", None)
    with pytest.raises(UsageError, match=r"^`task\.kind\b.*pip install lm-eval"):
        read("hellaswag")


@pytest.fixture
def stand_in(monkeypatch):
    """A module in the place of lm-eval: a group of two tasks with 6 and 4 examples, two filters.

    A model knows every example whose number its context divides.
    """

    def simple_evaluate(model, *, tasks, samples=None, **_):
        def logged(name, number, kind):
            right = model != "dummy" and kind == "first" and number % model["max_length"] == 0
            asked = {"doc_id": number, "arguments": [(name, number)], "target": 0, "filter": kind}
            return asked | {"metrics": ["acc"], "acc": float(right)}

        chosen = samples or {name: range(n) for name, n in tasks}
        return {
            "samples": {
                name: [
                    logged(name, number, k) for k in ("first", "other") for number in chosen[name]
                ]
                for name, _ in tasks
            },
            "configs": {name: {} for name, _ in tasks},
        }

    class TaskManager:
        def __init__(self, **_):
            pass

        def load(self, names):
            assert names == ["both"]
            return {"tasks": {name: (name, n) for name, n in (("a", 6), ("b", 4))}}

    for name, content in {
        "lm_eval": {"simple_evaluate": simple_evaluate, "__version__": "0"},
        "lm_eval.tasks": {"TaskManager": TaskManager},
        "lm_eval.models": {},
        "lm_eval.models.huggingface": {"HFLM": lambda _, **settings: settings},
    }.items():
        module = ModuleType(name)
        vars(module).update(content)
        monkeypatch.setitem(sys.modules, name, module)


def test_two_models_answer_the_same_examples(stand_in, tiny_gpt, tmp_path, inline):
    other = shutil.copytree(tiny_gpt, tmp_path / "other")
    (other / "vocab.txt").write_text("another fingerprint")
    words = {"task": "both", "kind": "lm_eval", "model": tiny_gpt, "base": other}
    words |= {"settings": ["finetune.device=cpu", "likelihood.context=8"], "machine": inline}
    run = corpusfit.evaluate(**words, out=tmp_path / "out")
    manifest = run.manifest
    assert [r["test"] for r in manifest["results"]] == [{"acc": {"mean": 0.2, "sd": None}}] * 2
    assert manifest["comparisons"][0]["difference"] == 0
    assert manifest["repeat"][:4] == ["corpusfit", "evaluate", "--task", "both"]
    right = [own[0] for own in run.outcomes()[0].predicted["test"]]
    assert right == [1, 0, 0, 0, 0, 0, 1, 0, 0, 0]
    assert corpusfit.evaluate(**words, out=tmp_path / "out").manifest == manifest
    for ignored in ("task.test_size=3", "likelihood.shots=5"):
        with pytest.raises(UsageError, match=ignored.partition("=")[0].replace(".", r"\.")):
            corpusfit.evaluate(
                **{**words, "settings": [*words["settings"], ignored]}, out=tmp_path / "no"
            )


def test_a_recipe_has_no_such_task(tiny_gpt, jsonl, tmp_path, inline):
    jsonl("c.jsonl", CHOICES)
    (tmp_path / "recipe.toml").write_text(
        f'name = "r"\nmodel = "{tiny_gpt}"\ncorpus = ["c.jsonl"]\nselectors = ["base", "random"]\n'
        'compare = "base"\n[adapt]\ntrain.max_steps = 2\n[[tasks]]\nname = "t"\npath = "t"\n'
        'evaluate.task.kind = "lm_eval"\n'
    )
    with pytest.raises(UsageError, match=r"tasks\.evaluate\.task\.kind\b.*lm_eval"):
        experiments.missing(tmp_path / "recipe.toml", out=tmp_path / "out", machine=inline)


def test_scores_are_means_of_the_examples_that_have_them():
    kind = load("lm_eval")
    answers = np.array([[1.0, None, 0.5, None, None], [0.0, None, 1.0, None, None]], object)
    tally = kind.tally((), None, answers)
    assert [float(kind.score(m, tally.sum(0))) for m in ("acc", "acc_bytes")] == [0.5, 0.75]
    assert np.isnan(kind.score("acc_norm", tally.sum(0)))
    assert kind.score("acc", tally).tolist() == [1.0, 0.0]


@pytest.mark.slow
class TestWithTheLibrary:
    @pytest.fixture(autouse=True)
    def library(self, offline):
        pytest.importorskip("lm_eval", reason="lm-eval is not installed")
        pytest.importorskip("accelerate", reason="the extra train is not installed")

    def test_figures_are_those_of_lm_eval(self, task, tiny_gpt, tmp_path):
        import lm_eval
        from lm_eval.tasks import TaskManager

        place = task()
        expected = lm_eval.simple_evaluate(
            model="hf",
            model_args={"pretrained": str(tiny_gpt), "device": "cpu", "dtype": "float32"},
            tasks=["mine"],
            task_manager=TaskManager(include_path=str(tmp_path), include_defaults=False),
            bootstrap_iters=0,
        )
        store_task(read(place), tmp_path / "task.json")
        outcome = answer_task(load_task(tmp_path / "task.json"), plan_of(tiny_gpt), seed=0)
        assert outcome.scores == {
            "test": {m: expected["results"]["mine"][f"{m},none"] for m in ("acc", "acc_norm")}
        }
        each = [[s["acc"], s["acc_norm"]] for s in expected["samples"]["mine"]]
        assert [own[:2] for own in outcome.predicted["test"]] == each
        assert 0 < outcome.scores["test"]["acc"] < 1

    def test_some_of_the_examples(self, task, tiny_gpt):
        """As a dry run asks for."""
        whole, few = read(task()), [3, 8, 11]
        part = dataclasses.replace(whole, test=whole.test.take(few))
        found = [answer_task(t, plan_of(tiny_gpt), seed=0).predicted["test"] for t in (whole, part)]
        assert found[1] == [found[0][i] for i in few]

    def test_content_is_the_identity(self, task, tmp_path):
        digest = task_digest(read(task()))
        (tmp_path / "elsewhere").mkdir()
        (tmp_path / "mine.yaml").rename(tmp_path / "elsewhere/mine.yaml")
        assert task_digest(read(str(tmp_path / "elsewhere/mine.yaml"))) == digest
        assert task_digest(read(task(asked="{{text}}"))) != digest
        assert task_digest(read(task(metrics=["acc"]))) != digest  # another way to score

    def test_a_metric_that_the_task_lacks(self, task):
        with pytest.raises(UsageError, match=r"^`task\.metric` must be acc_bytes; got 'acc'"):
            read(task(metrics=["acc_bytes"]))
        assert len(read(task(metrics=["acc_bytes"]), metric="acc_bytes").test) == 14

    def test_no_such_task(self, tmp_path):
        (tmp_path / "a.yaml").write_text("task: a\n")
        with pytest.raises(InputError, match=r"^`task.*a\.yaml.*lm_eval ls tasks"):
            read(str(tmp_path / "a.yaml"))
