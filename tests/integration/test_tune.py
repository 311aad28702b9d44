"""`tune` from end to end: what it finds and leaves, how it resumes, and what it refuses."""

import dataclasses
import json
from types import SimpleNamespace

import pytest
from journeys import digests, kill_at, prose, stamps

import corpusfit
from corpusfit.core.engine import Progress
from corpusfit.core.errors import ChangedInputError, InputError, TrainingError, UsageError
from corpusfit.evaluation.decontamination.report import find_contaminated
from corpusfit.training import adapting
from corpusfit.training.phases import PhaseRunner
from corpusfit.tuning import search

pytest.importorskip("accelerate", reason="the extra train is not installed")
pytestmark = pytest.mark.slow
ON_CPU = ["train.device=cpu", "train.precision=fp32", "search.least=3", "search.evaluations=2"]
ONE_UNIT = "cut.pieces=256"  # for each row
SIZE = {"train.batch": 4, "train.length": 32, "train.learning_rate": 1e-2}
KEPT = ("selection/scores", "selection/selected")
ONE = {"budget": "8 steps", "fractions": [0.3], "weights": ["off"]}
"""A search of one setting beside the baseline."""


@pytest.fixture
def tune(tmp_path, inline, tiny_lm, task, pile):
    """`tune` in this process: five settings, with trials of a few steps of four sequences."""

    def tune(out="out", **words):
        given = {"target": task, "corpus": pile, "budget": "54 steps", "methods": ["moore_lewis"]}
        given |= {"model": str(tiny_lm), "batch": 4, "length": 32, "learning_rate": 1e-2}
        given |= {"fractions": [0.2, 0.5], "machine": inline}
        settings = [*ON_CPU, ONE_UNIT, *words.pop("settings", ())]
        return corpusfit.tune(out=tmp_path / out, settings=settings, **(given | words))

    return tune


def outcome(run):
    """What must be equal in two folders: every trial without its time, and the selection."""
    timed = ("seconds", "training")
    trials = [{k: v for k, v in t.items() if k not in timed} for t in run.manifest["trials"]]
    return trials, run.manifest["conclusions"], digests(run.path, *KEPT)


def test_it_leaves_the_winners_selection_model_and_every_trial(tune):
    """The corpus has a third of texts like the task, which a fifth of it can be made of."""
    run = tune(train=True, max_steps=4)
    found = run.manifest
    assert found == json.loads((run.path / "manifest.json").read_text("utf-8"))
    assert [(r["trials"], r["steps"]) for r in found["rungs"]] == [(5, 5), (2, 13)]
    won = {"method": "moore_lewis", "fraction": 0.2, "weights": "off", "then_task": False}
    assert run.winner == won
    rows = run.trials()
    assert len(rows) == 7
    plain = (str, float, int, bool, type(None))
    assert all(isinstance(value, plain) for row in rows for value in row.values())
    assert rows[0]["change"] == pytest.approx(rows[0]["loss"] - found["base"], abs=1e-6)
    assert min(row["loss"] for row in rows if row["rung"] == 2) == rows[0]["loss"]
    first = [row for row in rows if row["rung"] == 1]
    assert [r["method"] for r in first].count("random") == 1
    bases = {trial["losses"][0][1] for trial in found["trials"]}
    assert bases == {found["base"]}, "the same text and masks for all"
    assert all((t["losses"][-1][0] == t["steps"]) != t["stopped"] for t in found["trials"])
    assert found["steps"] == sum(t["losses"][-1][0] for t in found["trials"]) <= 54
    assert len(list((run.path / "trials").glob("*.json"))) == 7
    counts = found["counts"]
    assert counts["fit"] + counts["heldout"] == counts["target"] == 40
    assert found["given"]["target"] == [s["url"] for s in run.selection.manifest["target"]]
    sources = {row["source"] for row in run.selection}
    assert sources == {"task.jsonl"}
    assert run.model.manifest["training"]["max_steps"] == 4
    assert not (run.path / ".corpusfit/selections").exists()
    again = tune()
    assert (again.manifest, again.model) == (found, None)


class Killing(Progress):
    """Ends a command when it has reported so much."""

    def __init__(self, after):
        self.left = after

    def _report(self, *_, **__):
        self.left -= 1
        if not self.left:
            raise KeyboardInterrupt

    begin = advance = note = _report


@pytest.mark.long
def test_interrupted_anywhere_it_ends_the_same(tune, inline):
    whole = outcome(tune("whole"))
    kills, after = 0, 3
    while True:
        machine = dataclasses.replace(inline, progress=Killing(after))
        try:
            run = tune("resumed", machine=machine)
        except KeyboardInterrupt:
            kills, after = kills + 1, after + 11
        else:
            break
    assert kills > 3
    assert outcome(run) == whole


@pytest.mark.long
def test_killed_after_some_trials_it_ends_the_same(tune, start, cli, tmp_path, tiny_lm, task, pile):
    expected = tune("killed")
    whole = outcome(expected)
    words = ["tune", "--model", tiny_lm, "--target", task, "--corpus", pile, "--budget", "54"]
    words += ["--methods", "moore_lewis", "--fractions", "0.2,0.5", "--no-report"]
    for setting in [*ON_CPU, ONE_UNIT, *(f"{name}={value}" for name, value in SIZE.items())]:
        words += ["--set", setting]
    again = tmp_path / "again"
    assert kill_at(start(*words, "--out", again), again, "trials/*.json", 3)
    kept = stamps(again / "trials", "*.json")
    assert 3 <= len(kept) < 7
    done = cli(*words, "--out", again, "--json")
    assert done.code == 0, done.err
    assert kept.items() <= stamps(again / "trials", "*.json").items()
    manifest = {k: v for k, v in json.loads(done.out).items() if k not in ("out", "model")}
    found = dataclasses.replace(expected, path=again, manifest=manifest)
    assert outcome(found) == whole


def test_guarded_texts_are_neither_selected_by_nor_measured_nor_trained_on(tune, jsonl, pile):
    """Texts of dev are in the target and in the corpus."""
    guarded = prose("task", 6)  # the first texts of the target
    guard = jsonl("dev.jsonl", guarded)
    with (pile / "task.jsonl").open("a") as file:
        for text in guarded:
            file.write(json.dumps({"text": text}) + "\n")
    run = tune(guard=guard, train=True, max_steps=2, **ONE)
    counts = run.manifest["counts"]
    assert counts["guarded"] == 6
    assert counts["fit"] + counts["heldout"] == 34
    texts = {
        name: {json.loads(line)["text"] for line in lines}
        for name in ("fit", "heldout", "guard", "target")
        for lines in [(run.path / f".corpusfit/texts/{name}.jsonl").read_bytes().splitlines()]
    }
    assert not set(guarded) & (texts["fit"] | texts["heldout"] | texts["target"])
    assert texts["guard"] == {*guarded, *texts["heldout"]}
    assert [s["name"] for s in run.selection.manifest["target"]] == ["target.jsonl"]
    assert run.model.manifest["counts"]["guard"]["texts"] == 6
    assert 0 < run.model.manifest["counts"]["guard"]["data"]["held"] <= 6


def test_a_target_with_a_field_of_its_own(tune, jsonl):
    """Also a guard, which has the target's field unless it is named."""
    rows = [{"abstract": text, "text": "of no use"} for text in prose("task", 40)]
    words = {"guard": jsonl("dev.jsonl", rows[:6]), "train": True, "max_steps": 2, **ONE}
    run = tune(target=jsonl("own.jsonl", rows), target_field="abstract", **words)
    plain = tune("plain", guard=jsonl("d.jsonl", prose("task", 6)), train=True, max_steps=2, **ONE)
    assert outcome(run)[0] == outcome(plain)[0]
    assert run.manifest["counts"] == plain.manifest["counts"]
    assert digests(run.path, *KEPT) == digests(plain.path, *KEPT)


def test_a_held_out_text_in_the_corpus_is_not_trained_on(tune, pile, task, monkeypatch):
    """A corpus that has the target itself."""
    (pile / "copy.jsonl").write_bytes(task.read_bytes())
    seen = []

    def find(splits, *rest, **more):
        found = find_contaminated(splits, *rest, **more)
        seen.append(found[1]["data"]["held"])
        return found

    monkeypatch.setattr("corpusfit.training.adapting.find_contaminated", find)
    run = tune(**ONE | {"fractions": [0.4]})
    assert len(seen) == 2
    assert run.manifest["counts"]["heldout"] == 10
    assert 5 < max(seen) <= 10, "moore_lewis selects most of the copy"


def test_a_method_that_selects_too_little_fails_alone(tune, monkeypatch):
    def adapt(plan, data, *rest, **words):
        if "random" in data[0]:
            raise TrainingError("The loss is not finite.")
        return adapting.adapt(plan, data, *rest, **words)

    monkeypatch.setattr(search, "adapt", adapt)
    failed = [row for row in tune(**ONE).trials() if row["error"]]
    assert [(row["method"], row["loss"]) for row in failed] == [("random", None)]


@pytest.mark.long
def test_a_budget_in_time_is_one_in_steps_by_the_speed_of_a_first_trial(tune, monkeypatch):
    measured = []

    def steps_within(plan, settings, **speeds):
        measured.append((plan.seconds, settings, *speeds.values()))
        return 8

    monkeypatch.setattr(search, "steps_within", steps_within)
    found = tune("time", **{**ONE, "budget": "1h"})
    assert outcome(found)[0] == outcome(tune("steps", **ONE))[0]
    assert measured[0][:2] == (3600, 2)
    assert min(measured[0]) > 0
    assert len(measured) == 1


@pytest.mark.long
def test_a_time_that_scoring_uses_up_is_refused_and_the_scores_are_kept(tune, tmp_path):
    with pytest.raises(UsageError, match=r"`search\.budget"):
        tune(**{**ONE, "budget": "0.01s"})
    kept = {p: p.stat().st_mtime_ns for p in tmp_path.glob("out/scores/*/scores/*")}
    assert kept
    found = tune(**ONE)
    assert {p: p.stat().st_mtime_ns for p in kept} == kept
    assert outcome(found) == outcome(tune("other", **ONE))


@pytest.mark.long
def test_a_second_phase_trains_on_the_texts_that_were_selected_by(tune, monkeypatch):
    """It shares the selection, starts at the loss of the first, and never sees a held-out text."""
    phases = []

    def run(self, ready, folder):
        if ready.then is not None:
            tokens, chunks = ready.then.text.tokens[0], ready.then.text.train
            measured, held = ready.text.heldout["task"]
            phases.append((set(tokens.keys[chunks.text]), set(measured.keys[held.text])))
        return plain(self, ready, folder)

    plain = PhaseRunner.run
    monkeypatch.setattr(PhaseRunner, "run", run)
    words = {**ONE, "budget": "24 steps", "then_task": ["no", "yes"]}
    found = tune(**words, train=True, max_steps=2)
    by_label = {row["label"]: row for row in found.trials()}
    assert set(by_label) == {"random 0.3", "moore_lewis 0.3", "moore_lewis 0.3 then task"}
    (trained, measured), *_ = phases
    assert len(trained) == found.manifest["counts"]["fit"]
    assert len(measured) == found.manifest["counts"]["heldout"]
    assert not trained & measured
    (steps,) = (
        [step for step, _ in t["losses"]]
        for t in found.manifest["trials"]
        if t["setting"]["then_task"]
    )
    assert steps == [0, 3, 6, 7, 8]
    assert {t["losses"][0][1] for t in found.manifest["trials"]} == {found.manifest["base"]}
    won = found.winner["then_task"]
    assert found.model.manifest["plan"]["then_task"]["on"] == won
    begin = PhaseRunner._phase
    kills = iter([KeyboardInterrupt])

    def phase(self, ready, folder, earlier):
        for kill in kills if earlier else ():
            raise kill
        return begin(self, ready, folder, earlier)

    monkeypatch.setattr(PhaseRunner, "_phase", phase)
    with pytest.raises(KeyboardInterrupt):
        tune("killed", **words)
    assert outcome(tune("killed", **words)) == outcome(found)


@pytest.mark.long
def test_methods_with_fewest_held_out_bits_are_tried(tune, monkeypatch):
    bits = {"moore_lewis": 9.0, "cynical": 8.0, "dsir": 8.5}
    ranked = [SimpleNamespace(method=method, bits=of) for method, of in bits.items()]
    monkeypatch.setattr(search, "rank", lambda *_, **__: ranked)
    words = {**ONE, "budget": "12 steps", "methods": ()}
    run = tune(**words, settings=["search.keep=2"])
    assert {row["method"]: row["bits"] for row in run.trials()} == {
        "random": None,
        "cynical": 8.0,
        "dsir": 8.5,
    }


def test_only_named_methods_are_tried_for_a_target_of_the_corpus(tune, jsonl):
    """Nothing of it can be held out to compare methods."""
    known = {**ONE, "target": jsonl("known.jsonl", prose("task", 40, seed=1))}
    with pytest.raises(InputError, match="Add other texts"):
        tune(**known, methods=())
    run = tune(**known)
    assert {row["method"]: row["bits"] for row in run.trials()} == {
        "random": None,
        "moore_lewis": None,
    }


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ({"budget": "5 steps"}, "at least 6 steps: 3 for one trial and 3 for its baseline"),
        ({"budget": "0.01s"}, "to score the corpus and for a first trial"),
        ({"budget": "soon"}, "'soon'"),
        ({"budget": "1.5"}, "a whole number of steps"),
        ({"methods": ["moore_louis"]}, "Did you mean 'moore_lewis'?"),
        ({"methods": ["oracle"]}, "without labels"),
        ({"fractions": [0.1, 1.5]}, "'1.5'"),
        ({"weights": ["lambda"]}, "off,resample"),
        ({"model": None}, "model"),
        ({"corpus": "-"}, "standard input"),
        ({"settings": ["model.init=tiny"]}, "model.init=tiny"),
        ({"settings": ["fit.shares=a:1"]}, "a:1"),
    ],
)
def test_what_cannot_be_is_named(tune, words, said):
    with pytest.raises(UsageError) as refused:
        tune(**words)
    assert said in str(refused.value)


def test_a_small_target_and_another_search_in_the_folder_are_named(tune, jsonl):
    with pytest.raises(InputError, match="at least 8 different texts"):
        tune(target=jsonl("few.jsonl", prose("task", 5)))
    tune(budget="6 steps")
    with pytest.raises(ChangedInputError, match=r"search\.budget was '6 steps', is '7 steps'"):
        tune(budget="7 steps")


@pytest.mark.long
def test_the_table_and_the_report(tune, cli, tmp_path, tiny_lm, task, pile):
    """The command prints what the function returns; the page has the picture and the selection."""
    words = ["tune", "--model", tiny_lm, "--target", task, "--corpus", pile, "--out"]
    words += [tmp_path / "out", "--budget", "12", "--methods", "moore_lewis", "--fractions", "0.2"]
    for setting in [*ON_CPU, ONE_UNIT, *(f"{name}={value}" for name, value in SIZE.items())]:
        words += ["--set", setting]
    done = cli(*words)
    assert done.code == 0, done.err
    assert "moore_lewis" in done.out
    assert "Winner: " in done.err
    page = (tmp_path / "out/report.html").read_text("utf-8")
    for part in ("search-1-loss", "selection-1", "Winner: "):
        assert part in page
    dry = cli(*words, "--dry-run", "--json")
    assert dry.code == 0, dry.err
    planned = json.loads(dry.out)
    assert planned["rungs"] == [{"trials": 3, "steps": 4, "passed": 1}]
    assert planned["seconds"] > 0
