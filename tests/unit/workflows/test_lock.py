"""One command at a time in a folder."""

import subprocess
import sys

import pytest

from corpusfit.errors import OutputFolderError
from corpusfit.workflows.lock import exclusive

pytest.importorskip("fcntl", reason="the system has no such locks")

HOLDING = """
import sys
from pathlib import Path
from corpusfit.workflows.lock import exclusive
with exclusive(Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
"""


def test_a_second_command_is_rejected_and_a_dead_one_holds_no_lock(tmp_path):
    work = tmp_path / "out/.corpusfit"
    command = [sys.executable, "-c", HOLDING, str(work)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout.readline() == b"held\n"
        refused = pytest.raises(OutputFolderError, match=r"lock.*another out\b")
        with refused, exclusive(work):
            pass
        other.kill()
    with exclusive(work):
        pass
    with exclusive(work):
        pass
