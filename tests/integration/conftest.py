"""Whole journeys: small corpora, commands in this process or in one of their own."""

import os
import signal
import subprocess
import sys

import pytest
from journeys import WORDS, Done, prose
from labeled import mixed, select  # noqa: F401 (fixtures)

from corpusfit.cli import main

LIMITED = (
    "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, ({0}, {0})); "
    "from corpusfit.cli import main; main()"
)


def hear_ctrl_c():
    """In a child: undo a SIGINT that the tests' own parent ignores, as nohup and cron do."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@pytest.fixture
def cli(monkeypatch, capsys, inline_cli):
    """Run a command line in this process, its work too; returns code, out, err."""

    def run(*args):
        monkeypatch.setattr(sys, "argv", ["corpusfit", *map(str, args)])
        capsys.readouterr()
        with pytest.raises(SystemExit) as exit:
            main()
        return Done(exit.value.code, *capsys.readouterr())

    return run


@pytest.fixture(scope="session")
def start():
    """Start `python -m corpusfit` in a process group of its own; nothing outlives the session.

    With `file_limit` no file may grow beyond so many bytes, as if the disk were full.
    """
    begun = []

    def start(*args, file_limit=None, **settings):
        code = ["-m", "corpusfit"] if file_limit is None else ["-c", LIMITED.format(file_limit)]
        process = subprocess.Popen(
            [sys.executable, *code, *map(str, args)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
            preexec_fn=hear_ctrl_c,  # noqa: PLW1509  it does nothing but this
            env={**os.environ, "PYTHONWARNINGS": "default"},
            **settings,
        )
        begun.append(process)
        return process

    yield start
    for process in begun:
        if process.poll() is None:
            process.kill()
        process.communicate()


@pytest.fixture(scope="session")
def command(start):
    """Run `python -m corpusfit` to its end; returns code, out, err."""

    def run(*args, **settings):
        process = start(*args, **settings)
        out, err = process.communicate()
        return Done(process.returncode, out, err)

    return run


@pytest.fixture
def task(jsonl):
    """A target of forty texts."""
    return jsonl("task.jsonl", prose("task", 40))


@pytest.fixture
def pile(tmp_path, jsonl):
    """A corpus of three files, one of them like the task; returns its folder."""
    for topic in WORDS:
        rows = [{"text": t, "id": f"{topic}-{i}"} for i, t in enumerate(prose(topic, 150, seed=1))]
        jsonl(f"pile/{topic}.jsonl", rows)
    return tmp_path / "pile"
