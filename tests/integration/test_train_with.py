"""`fit` with a program of others as its trainer, from end to end."""

import gc
import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pytest
import transformers
from journeys import WORDS, chats, prose, write_rows

import corpusfit
from corpusfit.core.errors import ChangedInputError, ModelError, TrainingError, UsageError
from corpusfit.core.languages import count_words
from corpusfit.fitting import outside, work
from corpusfit.fitting.program import require_model
from corpusfit.fitting.resolving import Request, resolve
from corpusfit.training.models import fingerprint
from listening import Listening

pytestmark = pytest.mark.slow

pytest.importorskip("accelerate", reason="the extra train is not installed")

EXAMPLE = Path(__file__).parents[2] / "examples/train_with.py"
COPY = """
import pathlib, shutil, sys
model, data, out, seed, calls = sys.argv[1:]
out = pathlib.Path(out)
with open(calls, "a") as file:
    print(out.name, seed, *sorted(p.name for p in out.iterdir()), file=file)
{before}
shutil.copytree(model, out, dirs_exist_ok=True)
{after}
"""


@pytest.fixture
def calls(tmp_path):
    """The trainings that the program was started for, each with its seed and what it found."""
    file = tmp_path / "calls.txt"
    return lambda: file.read_text().splitlines() if file.exists() else []


def command_of(folder, before="", after="", name="copy.py"):
    """A program that gives the base as the model, after and before other statements."""
    script = folder / name
    script.write_text(COPY.format(before=before, after=after))
    words = [sys.executable, str(script)]
    return f"{shlex.join(words)} {{model}} {{data}} {{out}} {{seed}} {folder / 'calls.txt'}"


@pytest.fixture
def copying(tmp_path):
    """Such a program in the folder of the test."""
    return partial(command_of, tmp_path)


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    """A task of plain texts."""
    return write_rows(tmp_path_factory.mktemp("task") / "plain.jsonl", prose("task", 60))


@pytest.fixture(scope="module")
def pile(tmp_path_factory, plain):
    """A corpus that contains the whole task."""
    folder = tmp_path_factory.mktemp("pile")
    for topic in WORDS:
        write_rows(folder / f"{topic}.jsonl", prose(topic, 150, seed=1))
    (folder / "leak.jsonl").write_bytes(plain.read_bytes())
    return folder


@pytest.fixture(scope="module", autouse=True)
def short():
    """Short sequences."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(work.BATCH, "cpu", (4, 32))
        yield


@pytest.fixture(scope="module")
def words(inline, tiny_gpt, plain, pile):
    """What `fit` is given by default."""
    words = {"task": plain, "corpus": pile, "model": str(tiny_gpt), "machine": inline}
    return {**words, "method": "moore_lewis", "tokens": 2000}


@pytest.fixture
def fit(tmp_path, words):
    """`fit` in this process."""

    def fit(train_with, **more):
        return corpusfit.fit(train_with=train_with, **{**words, "out": tmp_path / "out", **more})

    return fit


@pytest.fixture(scope="module")
def done(tmp_path_factory, words, inline):
    """A run of three seeds, its command, and what its progress was told; tests copy its folder."""
    folder = tmp_path_factory.mktemp("done")
    command, heard, totals = command_of(folder), Listening(), {}
    begin = heard.begin

    def keep(stage, total, unit="units"):
        totals.setdefault(stage, []).append(total)
        begin(stage, total, unit)

    heard.begin = keep
    machine = type(inline)(progress=heard)
    run = corpusfit.fit(train_with=command, **{**words, "machine": machine, "out": folder / "out"})

    def calls():
        return (folder / "calls.txt").read_text().splitlines()

    return SimpleNamespace(run=run, command=command, heard=heard, totals=totals, calls=calls)


def rows_of(path):
    return [json.loads(row) for row in path.read_text("utf-8").splitlines()]


def test_models_of_a_program_are_measured_as_those_of_adapt(
    fit, done, tmp_path, pile, tiny_gpt, inline
):
    """The program gives the base back, so nothing differs, and every loss is the base's."""
    run = done.run
    assert done.calls()[:6] == [
        f"{name}-{seed} {seed}" for seed in range(3) for name in ("selection", "random")
    ]
    loss, general, score = run.manifest["measures"]
    assert [loss["name"], general["name"], score["name"]] == ["loss", "general loss", "score"]
    for measure in (loss, general, score):
        assert measure["base"] == measure["random"] == measure["selection"]
        assert (measure["replicates"], measure["over_random"]["mean"]) == (3, 0)
    assert run.manifest["kept"] == "base"
    assert run.manifest["train_with"]["command"] == done.command
    assert "seeds" in run.manifest["more"]
    own = corpusfit.adapt(
        data=pile,
        out=tmp_path / "own",
        model=str(tiny_gpt),
        objective="causal",
        task=run.path / "task/heldout.jsonl",
        max_steps=1,
        length=32,
        seed=1,
        machine=inline,
        settings=work.MEASURED["settings"],
    )
    measured = run.manifest["train_with"]["base"]["1"]
    assert measured["task"] == own.manifest["losses"]["before"]["task"]
    assert set(measured) == {"task", "general"}
    assert loss["examples"] == own.manifest["heldout"]["task"]
    # nothing is trained again
    shutil.copytree(run.path, tmp_path / "out")
    before = len(done.calls())
    assert fit(done.command).manifest["measures"] == run.manifest["measures"]
    assert len(done.calls()) == before
    more = fit(done.command, seeds=4)
    assert more.manifest["measures"][0]["replicates"] == 4
    assert len(done.calls()) == before + 2


@pytest.mark.long
def test_no_measured_model_is_in_memory_while_the_program_runs(fit, copying, monkeypatch):
    """It may need the GPU for itself."""
    held = []
    run = outside.run_program

    def models():
        return sum(
            issubclass(type(each), transformers.PreTrainedModel) for each in gc.get_objects()
        )

    def counted(*given, **settings):
        held.append(models())
        run(*given, **settings)

    gc.collect()  # the models of other tests
    known = models()
    monkeypatch.setattr(outside, "run_program", counted)
    fit(copying())
    assert held == [known] * 6


def test_both_sides_have_the_same_words_and_no_held_out_text(done):
    """The corpus contains the whole task."""
    run = done.run
    sides = [run.path / "data" / f"{name}.jsonl" for name in ("selection", "random-0", "random-2")]
    texts = [[row["text"] for row in rows_of(side)] for side in sides]
    counts = [sum(map(count_words, side)) for side in texts]
    assert counts[0] > 800
    assert min(counts) >= 0.99 * max(counts)
    assert all({*row} == {"text"} for side in sides for row in rows_of(side))
    held = {row["text"] for row in rows_of(run.path / "task/heldout.jsonl")}
    assert held
    assert not any(text in whole for side in texts for whole in side for text in held)
    assert set(texts[1]) != set(texts[2])
    assert counts[0] == run.manifest["train_with"]["words"]["selection"]


def test_a_killed_training_is_repeated_in_an_empty_folder_and_a_finished_one_is_not(
    fit, copying, calls, tmp_path
):
    """A time that is over starts no program, and more of it goes on."""
    once = tmp_path / "once"
    partly = (
        f"if out.name == 'random-1' and not pathlib.Path({str(once)!r}).exists():\n"
        f"    pathlib.Path({str(once)!r}).touch()\n"
        "    shutil.copy(model + '/config.json', out)\n"
        "    print('it is lost', flush=True)\n"
        "    sys.exit(9)"
    )
    with pytest.raises(TrainingError, match="time"):
        fit(copying(before=partly), time=0.001)
    assert (tmp_path / "out/selection/manifest.json").exists()
    assert calls() == []
    with pytest.raises(TrainingError, match="it is lost"):
        fit(copying(before=partly))
    assert (tmp_path / "out/models/random-1/config.json").exists()
    fit(copying(before=partly), time="10h")
    began = [call.split()[0] for call in calls()]
    assert began.count("random-1") == 2
    assert len(began) == len({*began}) + 1
    assert all(len(call.split()) == 2 for call in calls())  # each found its folder empty


@pytest.mark.long
def test_another_command_goes_on_only_before_a_training_is_finished(fit, copying, calls, tmp_path):
    with pytest.raises(TrainingError):
        fit(copying(before="sys.exit(1)"))
    selection = (tmp_path / "out/selection/manifest.json").stat().st_mtime_ns
    fit(copying(after="", name="other.py"))
    assert (tmp_path / "out/selection/manifest.json").stat().st_mtime_ns == selection
    with pytest.raises(ChangedInputError, match=r"other\.py"):
        fit(copying())
    # what was run is not taken from the folder
    with pytest.raises(ChangedInputError, match="train_with"):
        fit("", tokens=None)
    done = len(calls())
    fit(copying(), overwrite=True)
    assert len(calls()) == done + 6


def test_a_model_that_has_changed_is_refused_and_one_that_is_deleted_is_trained_again(
    fit, done, tmp_path
):
    shutil.copytree(done.run.path, tmp_path / "out")
    config = tmp_path / "out/models/random-2/config.json"
    before, calls = config.read_text(), len(done.calls())
    config.write_text(before + " ")
    with pytest.raises(ChangedInputError, match="random-2"):
        fit(done.command)
    shutil.rmtree(config.parent)
    fit(done.command)
    assert len(done.calls()) == calls + 1
    assert config.read_text() == before


def test_a_training_is_kept_where_its_measurement_is_stopped(fit, copying, calls, monkeypatch):
    """Unless its model cannot be opened: then another training may write a better one."""
    measure = outside.OutsideParts._losses_of_model

    def stopped(error):
        def loss(self, model, seed):
            if model.endswith("random-0"):
                raise error
            return measure(self, model, seed)

        return loss

    for error, trainings in ((KeyboardInterrupt(), 2), (ModelError("no head"), 2)):
        monkeypatch.setattr(outside.OutsideParts, "_losses_of_model", stopped(error))
        with pytest.raises(type(error)):
            fit(copying())
        assert len(calls()) == trainings
    monkeypatch.setattr(outside.OutsideParts, "_losses_of_model", measure)
    fit(copying())
    assert len(calls()) == 7


def test_a_program_that_writes_no_model_is_named_with_what_it_wrote(fit, copying):
    emptied = "for path in out.iterdir(): path.unlink()\n"
    with pytest.raises(ModelError, match="nothing"):
        fit(copying(after=emptied))
    with pytest.raises(ModelError, match=r"pytorch_model\.bin"):
        fit(copying(after=emptied + "(out / 'pytorch_model.bin').touch()"))


def test_a_model_without_a_tokenizer_has_that_of_the_base(tiny_gpt, tmp_path):
    out = shutil.copytree(tiny_gpt, tmp_path / "out", ignore=shutil.ignore_patterns("tok*"))
    assert not (out / "tokenizer.json").exists()
    require_model(out, tiny_gpt, tmp_path / "log")
    mine, base = (
        json.loads((folder / "tokenizer.json").read_text())["model"] for folder in (out, tiny_gpt)
    )
    assert mine == base


@pytest.mark.long
def test_labeled_tasks_are_probed_and_with_six_seeds_fine_tuned(fit, copying, jsonl, tiny_lm):
    for split, n, seed in (("train", 40, 0), ("test", 20, 1)):
        rows = [
            {"text": text, "label": topic}
            for topic in ("task", "market")
            for text in prose(topic, n // 2, seed, most=12)
        ]
        folder = jsonl(f"labeled/{split}.jsonl", rows).parent
    run = fit(copying(), task=folder, model=str(tiny_lm))
    assert [measure["name"] for measure in run.manifest["measures"]] == [
        "loss",
        "general loss",
        "probe",
    ]
    request = Request(run_plan(tiny_lm), str(folder), (), "random", "text", seeds=6)
    assert outside.schedule_of(resolve(request)).finetunings == 6


def run_plan(model):
    return corpusfit.EvaluatePlan().with_value("model.name", str(model))


def test_conversations_are_written_as_they_are(fit, copying, tiny_chat, jsonl, monkeypatch):
    monkeypatch.setitem(work.BATCH_OF_CHATS, "cpu", (4, 256))
    corpus = [*chats("task", 60, 9), *chats("market", 60, 9)]
    run = fit(
        copying(),
        task=jsonl("wanted.jsonl", chats("task", 30)),
        corpus=jsonl("chats.jsonl", corpus),
        model=str(tiny_chat),
        kind="language_modeling",
        text_field="messages",
        loss_on="assistant",
    )
    written = rows_of(run.path / "data/selection.jsonl")
    assert written
    assert all(row in [{"messages": each["messages"]} for each in corpus] for row in written)
    loss = run.manifest["measures"][0]
    assert loss["base"] == loss["selection"] > 0


def test_what_cannot_be_is_refused_before_anything_is_written(fit, copying, tmp_path, tiny_encoder):
    for words in ({"seeds": 2}, {"tokens": 0}, {"model": str(tiny_encoder)}, {"time": "soon"}):
        with pytest.raises(UsageError):
            fit(copying(), **words)
    with pytest.raises(UsageError, match="tokens"):
        fit("", tokens=5)
    with pytest.raises(UsageError, match="out"):
        fit(f"{sys.executable} {{data}}")
    assert not (tmp_path / "out").exists()


@pytest.fixture
def tiny_encoder(tiny_lm, tmp_path):
    """A model with a pooling."""
    from corpusfit.embed.folders import Pooling, write_pooling

    folder = tmp_path / "encoder"
    folder.mkdir()
    for file in tiny_lm.iterdir():
        (folder / file.name).write_bytes(file.read_bytes())
    write_pooling(folder, Pooling(), 32)
    return folder


def test_a_dry_run_shows_the_first_command_and_runs_nothing(
    cli, copying, calls, tmp_path, plain, pile, tiny_gpt
):
    words = ["fit", "--task", plain, "--corpus", pile, "--model", tiny_gpt, "--out", tmp_path / "o"]
    done = cli(*words, "--train-with", copying(), "--seeds", "5", "--dry-run")
    assert done.code == 0
    assert f"{tmp_path / 'o'}" not in done.err
    assert "OUT/data/selection.jsonl OUT/models/selection-0 0" in done.err
    assert "10 models" in done.err
    assert calls() == []
    assert not (tmp_path / "o").exists()


def test_the_bar_of_the_second_training_expects_the_time_of_the_first(done):
    (trained,) = (each for stage, each in done.totals.items() if stage.startswith("train "))
    took = done.run.manifest["train_with"]["models"]["selection-0"]["seconds"]
    assert trained == [0, *[took] * 5]
    assert any("selection-0.log" in note for note in done.heard.notes)


@pytest.mark.long
@pytest.mark.skipif(os.name == "nt", reason="process groups are POSIX's")
def test_a_terminated_command_ends_the_program_and_resumes(
    start, cli, copying, calls, tmp_path, plain, pile, tiny_gpt
):
    pid = tmp_path / "pid"
    waits = (
        f"import os, time; at = pathlib.Path({str(pid)!r})\n"
        "if not at.exists(): at.write_text(str(os.getpid())); time.sleep(99)"
    )
    words = ["fit", "--task", plain, "--corpus", pile, "--model", tiny_gpt, "--method", "random"]
    words += ["--train-with", copying(before=waits), "--out", tmp_path / "out", "--no-report"]
    begun = start(*words)
    while not (pid.exists() and pid.read_text()):
        assert begun.poll() is None
        time.sleep(0.1)
    begun.send_signal(signal.SIGTERM)
    _, err = begun.communicate()
    assert begun.returncode == 128 + signal.SIGTERM, err
    with pytest.raises(ProcessLookupError):
        os.kill(int(pid.read_text()), 0)
    done = cli(*words)
    assert done.code == 0, done.err
    assert len(calls()) == 7


def test_the_example_trains(tmp_path, jsonl, tiny_gpt):
    data = jsonl("data.jsonl", [{"text": text} for text in prose("task", 200)])
    out = tmp_path / "out"
    out.mkdir()
    subprocess.run([sys.executable, EXAMPLE, tiny_gpt, data, out, "1"], check=True)
    require_model(out, tiny_gpt, tmp_path / "log")
    assert fingerprint(out) != fingerprint(tiny_gpt)
