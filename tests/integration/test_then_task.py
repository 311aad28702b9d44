"""`adapt --then-task` against the two commands run by hand, and how it resumes and refuses."""

import dataclasses
import json
import random
import time

import pytest
from journeys import killed, prose

import corpusfit
from corpusfit.core.errors import ChangedInputError, EmptyInputError, UsageError
from listening import StoppingTraining

pytestmark = pytest.mark.slow

pytest.importorskip("accelerate", reason="the extra train is not installed")
SETTINGS = ["train.device=cpu", "train.precision=fp32", "train.evaluations=2"]
SECOND = {"max_steps": 5, "learning_rate": 3e-3}
THEN = [f"then_task.{name}={value}" for name, value in SECOND.items()]
OFTEN = "train.checkpoint_minutes=1e-9"


@pytest.fixture
def data(jsonl):
    return jsonl("data.jsonl", prose("task", 80) + prose("market", 40))


@pytest.fixture
def own(jsonl):
    """The task's texts, none of them in the data."""
    return jsonl("own.jsonl", prose("task", 40, seed=7))


@pytest.fixture
def adapt(tmp_path, inline, tiny_lm, data):
    """`adapt` in this process, four steps for the first phase."""

    def adapt(out="out", settings=(), machine=inline, **words):
        plain = {"model": tiny_lm, "data": data, "max_steps": 4, "batch": 4, "length": 32}
        return corpusfit.adapt(
            out=tmp_path / out,
            machine=machine,
            settings=[*SETTINGS, *settings],
            **{**plain, **words},
        )

    return adapt


@pytest.mark.slow
@pytest.mark.parametrize("words", [{"replay": True}, {"lora": True}])
def test_both_phases_are_the_two_commands_run_by_hand(adapt, jsonl, own, words):
    """The reference: `adapt`, then `adapt --data task` on the model that it leaves."""
    words, settings = dict(words), []
    if words.pop("replay", False):
        words |= {"replay": jsonl("general.jsonl", prose("kitchen", 60)), "replay_share": 0.3}
    if words.pop("lora", False):
        words["adapter"], settings = "lora", ["adapter.save=merged"]
    both = adapt("both", [*settings, *THEN], task=own, then_task=True, **words)
    first = adapt("first", settings, task=own, **words)
    by_hand = {"data": "task", "task": own, "model": first.path}
    by_hand |= {"batch": None, **SECOND}
    after = adapt("second", [*settings, "train.evaluations=20"], **{**words, **by_hand})
    found, phases = both.manifest, both.manifest["phases"]
    assert found["weights"] == after.manifest["weights"]
    assert phases[0]["weights"] == first.manifest["weights"]
    assert phases[0]["losses"]["after"]["data"] == first.manifest["losses"]["after"]["data"]
    for when in ("before", "after"):
        assert phases[1]["losses"][when]["task"] == after.manifest["losses"][when]["task"]
    assert phases[1]["training"] == after.manifest["training"]
    assert found["losses"]["before"] == phases[0]["losses"]["before"]
    assert found["losses"]["after"] == phases[1]["losses"]["after"]
    assert phases[0]["losses"]["after"] == phases[1]["losses"]["before"]  # the same held-out text
    records = [(r["phase"], r["step"], r.get("loss")) for r in both.history()]
    plain = [("data", r["step"], r.get("loss")) for r in first.history()]
    plain += [("task", 4 + r["step"], r.get("loss")) for r in after.history()]
    assert records == plain
    assert not (both.path / ".corpusfit/first").exists()


@pytest.mark.slow
def test_a_selection_needs_no_task_and_its_sample_is_measured_in_both_phases(
    adapt, inline, own, pile, tmp_path, cli
):
    """Its target is the task; the output has the losses after each phase."""
    out = tmp_path / "selection"
    corpusfit.select(target=own, corpus=pile, out=out, method="dsir", fraction=0.3, machine=inline)
    run = adapt("both", THEN, data=out, then_task=True)
    for phase in run.manifest["phases"]:
        assert phase["losses"]["after"].keys() == {"task", "data", "general"}
    named = adapt("named", THEN, data=out, task=own, then_task=True)
    assert named.manifest["weights"] == run.manifest["weights"]
    words = run.manifest["repeat"][1:]
    again = cli(*words, "--out", tmp_path / "again", "--json")
    assert again.code == 0, again.err
    assert json.loads(again.out)["weights"] == run.manifest["weights"]
    shown = cli(*words, "--out", tmp_path / "again")
    for phase in run.manifest["phases"]:
        for loss in phase["losses"]["after"].values():
            assert f"{loss:.3f}" in shown.out


@pytest.mark.slow
def test_stopped_in_either_phase_it_ends_with_the_same_bytes(adapt, inline, own):
    words = {"task": own, "then_task": True, "settings": [*THEN, OFTEN]}
    whole = adapt("whole", **words)
    stamps = []
    for after in (2, 3, 3, 2):  # in the first phase, at its end, and twice in the second
        machine = dataclasses.replace(inline, progress=StoppingTraining(after))
        with pytest.raises(InterruptedError):
            adapt("stopped", machine=machine, **words)
        first = whole.path.parent / "stopped/.corpusfit/first/manifest.json"
        stamps.append(first.stat().st_mtime_ns if first.exists() else None)
    assert stamps[0] is None
    assert stamps[-1] is not None
    with pytest.raises(ChangedInputError):
        adapt(
            "stopped",
            task=own,
            then_task=True,
            settings=[*THEN, OFTEN, "then_task.learning_rate=1e-5"],
        )
    with pytest.raises(ChangedInputError):
        adapt("stopped", task=own, settings=[OFTEN])
    again = adapt("stopped", **words)
    for name in ("model.safetensors", "losses.jsonl"):
        assert (again.path / name).read_bytes() == (whole.path / name).read_bytes()
    assert again.manifest["phases"] == whole.manifest["phases"]
    assert adapt("stopped", **words).manifest == again.manifest  # finished: nothing runs again


@pytest.mark.long
def test_killed_in_both_phases_it_ends_with_the_same_bytes(
    start, cli, tiny_lm, data, own, tmp_path
):
    """SIGKILL at a random moment of each phase."""

    def command(out):
        settings = [*SETTINGS, OFTEN, "then_task.max_steps=60"]
        return (
            *("adapt", "--model", tiny_lm, "--data", data, "--task", own, "--then-task"),
            *("--out", tmp_path / out, "--max-steps", 60, "--batch", 4, "--length", 32),
            *("--workers", 1, *(word for each in settings for word in ("--set", each))),
        )

    assert cli(*command("whole")).code == 0
    chance, work = random.Random(7), tmp_path / "killed/.corpusfit"
    for folder in (work / "first/.corpusfit/checkpoints", work / "checkpoints"):
        process = start(*command("killed"))
        goal = f"step-{chance.randint(1, 30):08d}"
        while process.poll() is None:
            if max((p.name for p in folder.glob("step-*")), default="") >= goal:
                break
            time.sleep(0.002)
        time.sleep(chance.random() * 0.05)
        assert killed(process)
    done = cli(*command("killed"))
    assert done.code == 0, done.err
    for name in ("model.safetensors", "losses.jsonl"):
        files = [(tmp_path / out / name).read_bytes() for out in ("whole", "killed")]
        assert files[0] == files[1]


@pytest.mark.slow
def test_a_tasks_dev_and_test_are_never_trained_on(adapt, jsonl, tmp_path):
    """Of a task's folder only train is used, without the texts that dev, test or a guard have."""
    texts = prose("task", 60, seed=7)
    train, dev, test, guard = texts[:40], texts[40:45], texts[45:50], texts[50:55]
    copies = [dev[0], f"{test[0].upper()} !", guard[0]]
    jsonl("folder/train.jsonl", [*train, *copies])
    jsonl("folder/dev.jsonl", dev)
    jsonl("folder/test.jsonl", test)
    only = jsonl("only.jsonl", train)
    held = jsonl("guard.jsonl", guard)
    words = {"then_task": True, "settings": THEN, "guard": held}
    run = adapt("folder_run", task=tmp_path / "folder", **words)
    plain = adapt("plain", task=only, **words)
    assert run.manifest["weights"] == plain.manifest["weights"]
    counts = run.manifest["counts"]["guard"]
    assert counts["task"]["holders"] == 3
    assert counts["task"]["texts"] == 43
    assert plain.manifest["counts"]["guard"]["task"]["holders"] == 0
    assert counts["texts"] == 15
    assert sum(s["size"] > 0 for s in run.manifest["task"]) == 1


def test_held_out_texts_are_in_neither_phase(adapt, own):
    """With the same texts in both phases, both leave the same ones out."""
    run = adapt(settings=THEN, data=own, task=own, then_task=True)
    first, second = run.manifest["phases"]
    assert run.manifest["heldout"] == {"task": 4, "data": 2}
    assert (first["chunks"], first["tokens"]) == (second["chunks"], second["tokens"])
    assert 0 < first["tokens"] < run.manifest["counts"]["task"]["tokens"]


@pytest.mark.parametrize(
    ("words", "error", "said"),
    [
        ({"data": "task"}, UsageError, "`then_task.on"),
        ({"task": ()}, UsageError, "`task"),
        ({"adapter": "lora"}, UsageError, r"adapter\.save=merged"),
        ({"then_task": None, "settings": ["then_task.max_steps=3"]}, UsageError, "`then_task.on"),
        ({"one": True}, EmptyInputError, "`task"),
        ({"all": True}, EmptyInputError, "`guard"),
    ],
)
def test_what_cannot_be_trained_is_said_before_the_first_phase(
    adapt, jsonl, own, tmp_path, words, error, said
):
    words = {"task": own, "then_task": True, **words}
    if words.pop("one", False):
        words["task"] = jsonl("one.jsonl", prose("task", 1, seed=7))
    if words.pop("all", False):
        words["guard"] = own
    with pytest.raises(error, match=said):
        adapt(**words)
    assert not (tmp_path / "out/.corpusfit/first").exists()


@pytest.mark.slow
def test_a_dry_run_counts_both_phases(cli, data, own, tiny_lm, tmp_path, adapt):
    words = [
        *("adapt", "--model", tiny_lm, "--data", data, "--task", own, "--then-task", "--dry-run"),
        *("--out", tmp_path / "dry", "--max-steps", 4, "--batch", 4, "--length", 32),
        *(word for each in [*SETTINGS, *THEN] for word in ("--set", each)),
    ]
    done = cli(*words, "--json")
    assert done.code == 0, done.err
    found = json.loads(done.out)
    assert [phase["max_steps"] for phase in found["phases"]] == [4, 5]
    assert found["max_steps"] == 9
    assert found["seconds"] == pytest.approx(sum(phase["seconds"] for phase in found["phases"]))
    run = adapt(settings=THEN, task=own, then_task=True)
    counts = [run.manifest["counts"][kind]["tokens"] for kind in ("data", "task")]
    assert [phase["tokens"] for phase in found["phases"]] == counts
    assert cli(*words).code == 0
    assert not (tmp_path / "dry").exists()
