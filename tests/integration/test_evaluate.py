"""`evaluate` from end to end: what it leaves, that it goes on, and what it refuses."""

import json
import random
import re
import shutil

import pytest
from journeys import kill_at, stamps

import corpusfit
from corpusfit import evaluation
from corpusfit.core.errors import ChangedInputError, InputError, OutputFolderError, UsageError
from corpusfit.evaluation import finetune
from corpusfit.evaluation.task import Outcome
from listening import Listening

pytest.importorskip("accelerate", reason="the extra train is not installed")

SETTINGS = [
    "finetune.device=cpu",
    "finetune.precision=fp32",
    "finetune.learning_rate=5e-3",
    "finetune.epochs=3",
]
WORDS = {
    "bio": ["kinase", "inhibitor", "receptor", "affinity", "aspirin", "binding"],
    "money": ["investors", "shares", "quarterly", "results", "market", "sold"],
}


def rows(n, seed):
    """n rows of a text and its topic."""
    chance = random.Random(seed)
    labels = [chance.choice(sorted(WORDS)) for _ in range(n)]
    return [
        {"text": " ".join(chance.choices(WORDS[label], k=6)) + f" {i}.", "label": label}
        for i, label in enumerate(labels)
    ]


@pytest.fixture
def task(jsonl):
    """A task of two topics."""
    for seed, (split, n) in enumerate((("train", 48), ("dev", 16), ("test", 40))):
        folder = jsonl(f"topics/{split}.jsonl", rows(n, seed)).parent
    return folder


@pytest.fixture
def evaluate(tmp_path, inline, tiny_lm, task):
    """`evaluate` in this process, with two seeds."""

    def evaluate(out="out", **words):
        settings = [*SETTINGS, *words.pop("settings", ())]
        given = {"task": task, "model": str(tiny_lm), "seeds": 2, "machine": inline} | words
        return corpusfit.evaluate(out=tmp_path / out, settings=settings, **given)

    return evaluate


@pytest.fixture(scope="module")
def other_model(tmp_path_factory, tiny_lm):
    """A copy of the model with other weights."""
    from safetensors.torch import load_file, save_file

    folder = tmp_path_factory.mktemp("models") / "other"
    shutil.copytree(tiny_lm, folder)
    weights = {n: w.flip(0) for n, w in load_file(folder / "model.safetensors").items()}
    weights = {n: w.contiguous() for n, w in weights.items()}
    save_file(weights, folder / "model.safetensors", {"format": "pt"})
    return folder


def test_a_model_is_held_against_its_base_in_words(evaluate, other_model):
    run = evaluate(base=other_model, train_sizes=[16, 32])
    results, comparisons = run.manifest["results"], run.manifest["comparisons"]
    assert [(r["model"], r["size"]) for r in results] == [
        *(("model", 16), ("base", 16)),
        *(("model", 32), ("base", 32)),
    ]
    assert [c["size"] for c in comparisons] == [16, 32]
    assert all("points" in c["verdict"] for c in comparisons)
    for result in results:
        test = result["test"]["macro_f1"]
        assert result["low"] <= test["mean"] <= result["high"]
        scores = [
            o.scores["test"]["macro_f1"] for o in run.outcomes(result["model"], result["size"])
        ]
        assert test["mean"] == pytest.approx(sum(scores) / 2)
    assert run.manifest["task"]["train"] == 48
    assert run.manifest["metric"] == "macro_f1"


def test_a_model_against_itself_is_judged_once_and_shows_no_difference(evaluate, tiny_lm):
    run = evaluate(base=tiny_lm)
    assert run.manifest["comparisons"][0]["difference"] == 0
    assert "no difference" in run.manifest["comparisons"][0]["verdict"]
    made = stamps(run.path / "outcomes", "*-*.json")
    assert len(made) == 2  # of two seeds: the same files are the same model


def test_more_seeds_and_sizes_add_to_what_is_there(evaluate):
    first = evaluate(seeds=1)
    before = stamps(first.path / "outcomes", "*")
    second = evaluate(seeds=3, train_sizes=[8, 48])
    after = stamps(second.path / "outcomes", "*")
    assert len(before) == 1
    assert before.items() <= after.items()
    assert len(after) == 1 + 6
    assert second.manifest["seeds"] == 3


@pytest.mark.slow
def test_the_command_that_is_kept_makes_it_again(evaluate, cli, other_model, tmp_path):
    done = evaluate(base=str(other_model), train_sizes=[20, 40])
    words = [*done.manifest["repeat"], "--out", tmp_path / "again", "--json"]
    assert words[0] == "corpusfit"
    again = json.loads(cli(*words[1:]).out)
    assert again["comparisons"] == done.manifest["comparisons"]


def test_other_settings_do_not_mix(evaluate):
    evaluate(seeds=1)
    with pytest.raises(ChangedInputError, match=r"finetune\.epochs.*3.*2"):
        evaluate(seeds=1, settings=["finetune.epochs=2"])
    run = evaluate(seeds=1, settings=["finetune.epochs=2"], overwrite=True)
    assert run.manifest["plan"]["finetune"]["epochs"] == 2


def test_a_changed_task_is_noticed(evaluate, task):
    evaluate(seeds=1)
    with (task / "test.jsonl").open("a") as f:
        f.write(json.dumps({"text": "kinase", "label": "bio"}) + "\n")
    with pytest.raises(ChangedInputError, match="topics"):
        evaluate(seeds=1)


def test_another_folder_is_left_alone(evaluate, tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/notes.txt").write_text("keep")
    with pytest.raises(OutputFolderError, match="mine"):
        evaluate(out="mine")


def test_what_is_odd_is_said(evaluate, task, inline):
    lines = (task / "train.jsonl").read_text().splitlines()
    (task / "test.jsonl").write_text(
        lines[0] + "\n" + json.dumps({"text": "zebra", "label": "sports"}) + "\n"
    )
    (task / "dev.jsonl").unlink()
    heard = Listening()
    machine = type(inline)(progress=heard)
    run = evaluate(seeds=1, machine=machine)
    assert any(re.search(r"\bdev\b.*\b5\b.*\b48\b", s) for s in heard.warnings)
    assert any("'sports'" in s for s in heard.warnings)
    assert any(re.search(r"\b1\b.*\b2\b.*50\.0 %", s) for s in heard.warnings)
    assert run.manifest["results"][0]["test"]["accuracy"]["mean"] <= 0.5


def test_words_are_tagged(evaluate, tmp_path):
    chance = random.Random(0)
    folder = tmp_path / "tagged"
    folder.mkdir()
    for split, n in (("train", 40), ("dev", 10), ("test", 20)):
        lines = []
        for _ in range(n):
            for _ in range(6):
                entity = chance.random() < 0.3
                word = chance.choice(WORDS["bio" if entity else "money"])
                lines.append(f"{word}\t{'B-X' if entity else 'O'}")
            lines.append("")
        (folder / f"{split}.conll").write_text("\n".join(lines) + "\n")
    run = evaluate(task=folder, settings=["finetune.batch=8", "finetune.epochs=8"])
    assert run.manifest["task"]["kind"] == "tagging"
    assert run.manifest["metric"] == "micro_f1"
    assert run.manifest["results"][0]["test"]["micro_f1"]["mean"] > 0.5


def test_texts_that_were_cut_off_are_counted_aloud(evaluate, inline):
    heard = Listening()
    evaluate(seeds=1, length=8, machine=type(inline)(progress=heard))
    cut = r"\b8 tokens.*\(`finetune\.length`\).*\b48\b"
    assert any(re.search(cut, said) for said in heard.warnings), heard.warnings


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "sizes"),
    [("lora", {"rank": 2}), ("lora", {"alpha": 32})],
)
def test_against_an_adapters_folder_the_base_trains_such_an_adapter(
    evaluate, inline, tiny_lm, tmp_path, jsonl, kind, sizes
):
    """Against the base with `--adapter`, and against the base whole in the same folder."""
    data = jsonl("data.jsonl", [row["text"] for row in rows(60, 7)])
    settings = ["train.device=cpu", "train.precision=fp32"]
    corpusfit.adapt(
        model=str(tiny_lm),
        data=data,
        out=tmp_path / "adapter",
        max_steps=2,
        batch=2,
        length=32,
        adapter=kind,
        machine=inline,
        settings=[*settings, *(f"adapter.{name}={size}" for name, size in sizes.items())],
    )
    heard = Listening()
    machine = type(inline)(progress=heard)
    words = {
        "seeds": 1,
        "machine": machine,
        "settings": ["task.kind=classification", "finetune.epochs=2"],
    }
    evaluate(model=tiny_lm, base=tiny_lm, **words)
    if "alpha" in sizes:
        with pytest.raises(UsageError, match=r"`base.*alpha.*32"):
            evaluate(model=tmp_path / "adapter", base=tiny_lm, **words)
        return
    run = evaluate(model=tmp_path / "adapter", base=tiny_lm, **words)
    assert not any("fine-tuned" in s for s in heard.warnings)
    ours, base = (outcome for role in ("model", "base") for outcome in run.outcomes(role))
    assert ours.tune == base.tune
    assert base.tune["adapter"]
    assert run.manifest["models"]["base"]["adapter"] == kind
    own = [f"model.{name}={size}" for name, size in sizes.items()]
    words["settings"] = words["settings"] + own
    alone = evaluate(model=tiny_lm, adapter=kind, out="alone", **words).outcomes()[0]
    assert (alone.predicted, alone.history) == (base.predicted, base.history)
    evaluate(model=tiny_lm, base=tmp_path / "adapter", out="other way", **words)
    assert any("fine-tuned" in s for s in heard.warnings)
    with pytest.raises(UsageError, match=r"adapter.*lora"):
        evaluate(model=tmp_path / "adapter", adapter="lora", out="other")


def test_what_it_would_take_is_measured_and_nothing_is_written(task, tiny_lm, inline, tmp_path):
    found = evaluation.estimate_evaluation(
        task=task,
        model=str(tiny_lm),
        base="other",
        seeds=3,
        train_sizes=[8, 16],
        settings=SETTINGS,
        machine=inline,
    )
    assert found["fine_tunings"] == 12
    assert found["seconds"] > 0
    assert (found["train"], found["dev"], found["test"]) == (16, 16, 40)


def test_a_dry_run_names_probes_and_a_wrong_model_once(task, tiny_lm, cli):
    words = ("evaluate", "--task", task, "--frozen", "--dry-run", "--seeds", "3", "--out", "never")

    done = cli(*words, "--model", tiny_lm)
    wrong = cli(*words, "--model", "no/such-model", "--base", "no/such-model")

    assert "for 3 probes" in done.err + done.out
    assert " 0 min" not in done.err + done.out
    assert (wrong.err + wrong.out).count("no/such-model") == 1


@pytest.mark.parametrize(
    ("words", "error", "says"),
    [
        ({"train_sizes": [49]}, UsageError, "^`train_sizes` must .*48.*49"),
        ({"seeds": 0}, UsageError, "`seeds.*1.*0"),
        ({"task": "nowhere"}, (InputError, UsageError), "^`task` must .*nowhere does"),
        ({"augment": "tfidf"}, UsageError, "`corpusfit augment "),
        ({"metric": "f1"}, UsageError, "`task.metric.*auto, accuracy.*f1"),
        ({"model": ""}, UsageError, "`model.name"),
        ({"base": "no where"}, UsageError, "`base"),
    ],
)
def test_wrong_words_are_named(evaluate, words, error, says):
    with pytest.raises(error, match=says):
        evaluate(**words)


@pytest.mark.slow
def test_killed_at_any_moment_it_goes_on_and_repeats_nothing(tmp_path, task, tiny_lm, start):
    command = ["evaluate", "--model", tiny_lm, "--task", task, "--out", tmp_path / "out"]
    command += ["--seeds", 6, *(f"--set={s}" for s in SETTINGS), "--json"]
    outcomes = tmp_path / "out/outcomes"
    assert kill_at(start(*command, "--workers", 1), outcomes, "*-*.json", 2)
    before = stamps(outcomes, "*-*.json")
    assert 2 <= len(before) < 6, "it was killed too late to show anything"
    process = start(*command, "--workers", 2)
    out, err = process.communicate()
    assert process.returncode == 0, err
    after = stamps(outcomes, "*-*.json")
    assert before.items() <= after.items()
    assert len(after) == 6
    assert len(json.loads(out)["results"][0]["best_epochs"]) == 6


def test_one_answer_to_everything_is_named_beside_the_most_frequent_class(evaluate, task, inline):
    """At a rate of next to nothing no fine-tuning moves; the constant is scikit-learn's dummy."""
    from sklearn.dummy import DummyClassifier
    from sklearn.metrics import accuracy_score, f1_score

    train, test = (
        [json.loads(line) for line in (task / f"{split}.jsonl").read_text().splitlines()]
        for split in ("train", "test")
    )
    labels = [[row["label"] for row in split] for split in (train, test)]
    dummy = DummyClassifier(strategy="most_frequent").fit([[0]] * len(train), labels[0])
    answers = dummy.predict([[0]] * len(test))
    heard = Listening()
    still = ["finetune.learning_rate=1e-12", "finetune.epochs=1"]
    run = evaluate(settings=still, seeds=3, machine=type(inline)(progress=heard))
    constant = run.manifest["constant"]
    assert constant["macro_f1"] == pytest.approx(f1_score(labels[1], answers, average="macro"))
    assert constant["accuracy"] == pytest.approx(accuracy_score(labels[1], answers))
    alike = sum(len(set(o.predicted["test"])) == 1 for o in run.outcomes("model"))
    assert run.manifest["results"][0]["one_answer"] == alike > 0
    assert sum(f"{alike} of 3 fine-tunings" in w for w in heard.warnings) == 1
    verdicts = [each["verdict"] for each in run.manifest["comparisons"]]
    assert all(("one answer" in verdict) == (alike == 3) for verdict in verdicts)
    learned = evaluate("other", settings=["finetune.epochs=6"]).manifest
    assert learned["results"][0]["one_answer"] == 0


def test_a_task_in_memory_has_the_outcomes_of_its_files(evaluate):
    """A mapping of splits, as `datasets.DatasetDict` is, or one data frame that is divided."""
    import pandas as pd

    splits = {"train": rows(48, 0), "validation": pd.DataFrame(rows(16, 1)), "test": rows(40, 2)}
    words = {"seeds": 1, "epochs": 1}
    ours, theirs = evaluate(task=splits, **words), evaluate("of-files", **words)
    assert ours.manifest["results"][0]["test"] == theirs.manifest["results"][0]["test"]
    whole = evaluate("whole", task=pd.DataFrame(rows(60, 0)), **words).manifest["task"]
    assert whole["train"] + whole["dev"] + whole["test"] == 60
    assert min(whole["train"], whole["dev"], whole["test"]) > 0


@pytest.mark.parametrize(
    ("works", "tried"), [(9e-5, [None, 9e-5]), (1e-5, [None, 9e-5, 1e-5]), (0, [None, 9e-5, 1e-5])]
)
def test_a_fine_tuning_with_one_answer_is_repeated_at_other_rates(
    tmp_path, inline, tiny_lm, task, monkeypatch, works, tried
):
    """Of the default rate, three times and a third of it, the first that is no failure counts."""
    rates, whole = [], finetune.finetune

    def failing(task, plan, *rest, **more):
        rates.append(plan.finetune.learning_rate)
        outcome = whole(task, plan, *rest, **more)
        for split, answers in outcome.predicted.items():
            n = len(answers)
            outcome.predicted[split] = [0, 1] * (n // 2) if rates[-1] == works else [0] * n
        return outcome

    monkeypatch.setattr(finetune, "finetune", failing)
    heard = Listening()
    run = corpusfit.evaluate(
        task=task, model=str(tiny_lm), seeds=1, out=tmp_path / "out",
        settings=["finetune.epochs=1", *SETTINGS[:2]], machine=type(inline)(progress=heard),
    )  # fmt: skip
    (outcome,) = run.outcomes()
    assert rates == tried
    assert outcome.one_answer is (works == 0)
    assert outcome.tune["failed_rates"][0] == 3e-5
    assert sum("one answer" in warning for warning in heard.warnings) == 1


def test_a_rate_that_was_asked_for_is_not_replaced(evaluate, monkeypatch):
    monkeypatch.setattr(Outcome, "one_answer", True)
    (outcome,) = evaluate(seeds=1).outcomes()
    assert outcome.tune["learning_rate"] == 5e-3
    assert "failed_rates" not in outcome.tune
