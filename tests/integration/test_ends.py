"""How a command ends that is told to, and how it runs without its standard streams."""

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from journeys import children, digests, prose, write_rows

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="asks /proc for processes"),
]


def test_sigterm_ends_it_in_words_and_leaves_nothing(start, tmp_path, monkeypatch):
    corpus = write_rows(tmp_path / "corpus.jsonl", prose("market", 400) * 50)
    target = write_rows(tmp_path / "target.jsonl", prose("task", 40))
    own = tmp_path / "tmp"
    own.mkdir()
    monkeypatch.setenv("TMPDIR", str(own))
    line = ["select", "--target", target, "--corpus", corpus, "--method", "dsir", "--tokens", "900"]
    process = start(*line, "--workers", 2, "--out", tmp_path / "out")
    while not list((tmp_path / "out").glob("scores/*")) and process.poll() is None:
        time.sleep(0.01)
    workers = children(process.pid)
    process.send_signal(signal.SIGTERM)
    _, said = process.communicate()
    assert process.returncode == 143
    assert not [line for line in said.splitlines() if "Traceback" in line or "leaked" in line]
    assert list(own.iterdir()) == []
    assert len(workers) >= 2
    while any(Path(f"/proc/{pid}/exe").exists() for pid in workers):
        time.sleep(0.01)


def test_without_standard_streams_it_does_the_same(cli, tmp_path):
    corpus = write_rows(tmp_path / "corpus.jsonl", prose("market", 200))
    target = write_rows(tmp_path / "target.jsonl", prose("task", 40))
    line = f"select --target {target} --corpus {corpus} --method dsir --tokens 900 --workers 2"
    assert cli(*line.split(), "--out", tmp_path / "open").code == 0
    shell = f"{sys.executable} -m corpusfit {line} --out {tmp_path / 'closed'} <&- >&- 2>&-"
    subprocess.run(shell, shell=True, check=True)
    assert digests(tmp_path / "closed") == digests(tmp_path / "open")
