"""Programs of others: their command lines, their processes, what they leave."""

import json
import os
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

from corpusfit.core.errors import ModelError, OutputFolderError, TrainingError, UsageError
from corpusfit.fitting import program
from corpusfit.fitting.program import Program, Text
from listening import Listening

INF = float("inf")
PLACES = {"model": "/a model", "data": "/d.jsonl", "out": "/out", "seed": 3}
posix = pytest.mark.skipif(os.name == "nt", reason="process groups are POSIX's")


def words_of(text):
    return Program.parsed(text).arguments(**PLACES)


def test_places_are_filled_within_arguments_and_nothing_is_given_to_a_shell():
    text = f"{sys.executable} -c 'a; $(b) | c' --in={{data}} {{out}}/x {{model}} s{{seed}} \"it's\""
    assert words_of(text) == [
        *(sys.executable, "-c", "a; $(b) | c", "--in=/d.jsonl", "/out/x", "/a model", "s3"),
        "it's",
    ]


def test_other_braces_stay():
    text = sys.executable + """ '{"lr": {"a": 1}, "data": "{data}"}' {out}"""
    assert json.loads(words_of(text)[1]) == {"lr": {"a": 1}, "data": "/d.jsonl"}


@pytest.mark.parametrize(
    ("rest", "named"),
    [
        ("{data}", "{out} is missing"),
        ("{out} {model}", "{data} is missing"),
        ("", "{data} and {out} is missing"),
        ("{data} {out} {dataset}", "{dataset}"),
        ("{data!r} {out}", "{data} is missing"),
        ("{data} {out} 'open", "quotation"),
    ],
)
def test_another_command_is_refused_with_one_that_is_right(rest, named):
    with pytest.raises(UsageError) as raised:
        Program.parsed(f"{sys.executable} {rest}")
    assert named in str(raised.value)
    # the command in the message is one that is taken
    assert "python train.py {model} {data} {out}" in str(raised.value)


@pytest.mark.parametrize("name", ["no-such-program", "./train.sh", "{data}"])
def test_a_program_that_is_not_found_is_refused_before_any_work(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.sh").write_text("#!/bin/sh\n")  # not executable
    with pytest.raises(UsageError, match="found"):
        Program.parsed(f"{name} {{data}} {{out}}")


@pytest.fixture
def run(tmp_path):
    """Run a Python script as the program, in this process."""

    def run(code, **settings):
        command = Program.parsed(f"{sys.executable} -c X {{data}} {{out}}")
        settings = {"expected": 0.0, "limit": INF, **settings}
        progress = settings.pop("progress", Listening())
        arguments = [sys.executable, "-c", code]
        log, out = tmp_path / "logs/a.log", tmp_path / "out"
        program.run(command, arguments, out, log, progress, **settings)
        return (tmp_path / "logs/a.log").read_text("utf-8")

    return run


def test_its_output_is_in_a_file(run):
    out = run("import sys; print('one', flush=True); print('two', file=sys.stderr)")
    assert out == "one\ntwo\n"
    assert run("print('again')") == "again\n"  # without that of an earlier attempt


def test_it_waits_for_no_answer_on_the_terminal(run):
    reading, writing = os.pipe()
    os.write(writing, b"an answer")
    os.close(writing)
    before = os.dup(0)
    os.dup2(reading, 0)
    try:
        assert run("import sys; print(repr(sys.stdin.read()))") == "''\n"
    finally:
        os.dup2(before, 0)
        os.close(before)
        os.close(reading)


def test_a_failure_shows_the_end_of_its_output_without_control_characters(run):
    code = "print('early'); [print(i) for i in range(50)]; print('\\x1b[2Jred\\u202e'); exit(3)"
    with pytest.raises(TrainingError) as raised:
        run(code)
    message = str(raised.value)
    assert "exit code 3" in message
    assert "a.log" in message
    assert "49" in message
    assert "early" not in message
    assert not {"\x1b", "\u202e"} & set(message)


@posix
def test_a_signal_is_named(run):
    with pytest.raises(TrainingError, match="SIGKILL"):
        run("import os; os.kill(os.getpid(), 9)")


def alive(pid):
    """Whether a process runs: one that ended and nobody waits for does not."""
    words = ["ps", "-o", "stat=", "-p", str(pid)]
    done = subprocess.run(words, check=False, capture_output=True, text=True)
    return done.stdout.strip()[:1] not in ("", "Z")


CHILD = (
    "import subprocess, sys, time\n"
    "deaf = 'import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); '\n"
    "code = (deaf if {stubborn} else '') + 'import time; time.sleep(99)'\n"
    "child = subprocess.Popen([sys.executable, '-c', code])\n"
    "time.sleep(0.3)\n"
    "open({file!r}, 'w').write(str(child.pid))\n"
)


@pytest.mark.slow
@posix
@pytest.mark.parametrize("stubborn", [False, True])
def test_over_the_time_the_program_and_its_children_are_stopped(
    run, tmp_path, monkeypatch, stubborn
):
    monkeypatch.setattr(program, "_TICK", 0.05)
    monkeypatch.setattr(program, "_GRACE", 0.3)
    file = tmp_path / "pid"

    class Clock:
        """The time is over when the child runs."""

        sleep = time.sleep

        def monotonic(self):
            return time.monotonic() + 1000 * bool(file.exists() and file.read_text())

    monkeypatch.setattr(program, "time", Clock())
    with pytest.raises(TrainingError, match="time"):
        run(CHILD.format(file=str(file), stubborn=stubborn) + "time.sleep(99)", limit=500)
    assert not alive(file.read_text())
    with pytest.raises(TrainingError, match="time"):
        run("raise SystemExit", limit=0)


@pytest.mark.slow
@posix
def test_what_a_finished_program_leaves_running_is_stopped(run, tmp_path):
    """It would keep the GPU, and go on writing; its open output holds nothing up."""
    file = tmp_path / "pid"
    run(CHILD.format(file=str(file), stubborn=False))
    assert not alive(file.read_text())


@pytest.mark.slow
@posix
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_stopped_command_stops_the_program_and_its_children(run, tmp_path, number):
    def stop(*_):
        raise SystemExit(143)

    # a command that runs in the background of a shell may ignore Ctrl-C
    handler = stop if number == signal.SIGTERM else signal.default_int_handler
    before = signal.signal(number, handler)
    file = tmp_path / "pid"

    def send():
        while not (file.exists() and file.read_text()):
            time.sleep(0.05)
        os.kill(os.getpid(), number)

    try:
        threading.Thread(target=send, daemon=True).start()
        with pytest.raises((KeyboardInterrupt, SystemExit)):
            run(CHILD.format(file=str(file), stubborn=False) + "time.sleep(99)")
    finally:
        signal.signal(number, before)
    assert not alive(file.read_text())


@pytest.mark.slow
@posix
def test_a_program_that_outlived_its_killed_command_is_not_joined_by_another(run, tmp_path):
    """Its command was killed and could not stop it: both would write to one folder."""
    log = tmp_path / "logs/a.log"
    command = (
        "from corpusfit.fitting.program import Program, run\n"
        "from corpusfit.core.engine import Progress\n"
        "import sys; from pathlib import Path\n"
        "code = 'import time; print(1, flush=True); time.sleep(99)'\n"
        f"words = [sys.executable, '-c', code, {str(log)!r}]\n"
        "command = Program('x', ('x',))\n"
        f"log, out = Path({str(log)!r}), Path({str(tmp_path / 'out')!r})\n"
        "run(command, words, out, log, Progress(), expected=0, limit=99)\n"
    )
    killed = subprocess.Popen([sys.executable, "-c", command])
    while not (log.exists() and log.read_text()):
        time.sleep(0.05)
    killed.kill()
    killed.wait()
    (tmp_path / "out/half").touch()
    with pytest.raises(OutputFolderError, match="still runs"):
        run("pass")
    assert (tmp_path / "out/half").exists()
    found = subprocess.run(
        ["ps", "-ww", "-eo", "pid,args"], capture_output=True, text=True, check=True
    ).stdout
    (pid,) = (line.split()[0] for line in found.splitlines() if line.endswith(str(log)))
    os.kill(int(pid), signal.SIGKILL)
    while alive(pid):
        time.sleep(0.05)
    assert run("print('free')") == "free\n"
    assert not any((tmp_path / "out").iterdir())


def test_the_time_it_took_is_the_share_of_what_is_expected(run, monkeypatch):
    monkeypatch.setattr(program, "_TICK", 0.05)

    class Shares(Listening):
        done = 0.0

        def begin(self, stage, total, unit="units"):
            self.total = total

        def advance(self, done, units=0):
            self.done += done

    shown = Shares()
    began = time.monotonic()
    run("import time; time.sleep(0.5)", progress=shown, expected=3.0)
    assert shown.total == 3.0
    assert 0 < shown.done <= time.monotonic() - began


@pytest.mark.parametrize(
    ("files", "named"),
    [
        ([], "nothing"),
        (["checkpoint-9"], "checkpoint-9"),
        (["config.json"], r"\*\.safetensors"),
        (["model.safetensors"], "config.json"),
        (["config.json", "pytorch_model.bin"], "pytorch_model.bin"),
        (["adapter_config.json", "adapter_model.safetensors"], "adapter alone"),
        (["config.json", "model.safetensors", "adapter.json"], "adapter"),
    ],
)
def test_what_is_no_model_is_refused_by_its_files(tmp_path, files, named):
    """Nothing is opened, so no pickle is."""
    out, log = tmp_path / "out", tmp_path / "log"
    out.mkdir()
    log.write_text("")
    for name in files:
        (out / name).write_text("{}")
    with pytest.raises(ModelError, match=named):
        program.require_model(out, tmp_path, log)


@posix
def test_a_model_that_is_a_link_is_refused(tmp_path):
    out = tmp_path / "out"
    out.mkdir()
    (out / "model.safetensors").symlink_to(tmp_path)
    with pytest.raises(OutputFolderError, match="link"):
        program.require_model(out, tmp_path, tmp_path)


def test_rows_are_drawn_up_to_so_many_words_and_none_has_a_held_out_text(tmp_path):
    held = "this is a longer text of the task that nobody may train on at all"
    rows = [{"text": " ".join([f"w{i}"] * (1 + i % 7)), "weight": 2.0} for i in range(300)]
    rows[5] = {"text": f"before {held} after"}
    text = Text.of(lambda: iter(rows), [held])
    assert np.flatnonzero(text.words == 0).tolist() == [5]
    every = text.write(tmp_path / "all.jsonl", [], sys.maxsize, 0)
    assert every == text.words.sum()
    half = text.write(tmp_path / "half.jsonl", [], every // 2, 0)
    assert half == every // 2
    written = [json.loads(row) for row in (tmp_path / "half.jsonl").read_text().splitlines()]
    assert sum(len(row["text"].split()) for row in written) == half
    assert {*map(tuple, written)} == {("text",)}
    text.write(tmp_path / "other.jsonl", [], every // 2, 1)
    assert (tmp_path / "other.jsonl").read_bytes() != (tmp_path / "half.jsonl").read_bytes()


def test_conversations_and_pairs_keep_their_fields(tmp_path):
    messages = [{"role": "user", "content": "hello"}, {"role": "assistant", "content": "hi"}]
    rows = [{"text": "hello\nhi", "row_text": "own", "messages": messages, "completion": "b"}]
    text = Text.of(lambda: iter(rows), [])
    for fields, expected in (
        (["messages"], {"messages": messages}),
        (["text", "completion"], {"text": "own", "completion": "b"}),
    ):
        text.write(tmp_path / "a.jsonl", fields, sys.maxsize, 0)
        assert json.loads((tmp_path / "a.jsonl").read_text()) == expected
