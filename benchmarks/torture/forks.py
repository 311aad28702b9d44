"""Run commands in forks of a process that has imported everything, which takes seconds each time.

As a script it is that process: of a line of JSON with a command's words, its variables and the
file for what it says it makes a fork, writes the fork's id and, when that has ended, its status.
"""

from __future__ import annotations

import atexit
import gc
import importlib
import json
import os
import pkgutil
import runpy
import select
import signal
import subprocess
import sys
from collections.abc import Mapping
from functools import cache
from pathlib import Path

_ALSO = (
    *("accelerate", "datasets", "peft", "sklearn.ensemble", "sklearn.mixture"),
    *("transformers.models.auto.modeling_auto", "transformers.models.bert.modeling_bert"),
)
"""What commands import when they need it."""


class Fork:
    """A command in a group of its own, as `subprocess.Popen` has it; the last one has ended.

    Args:
        words: the command's arguments.
        environment: its variables, which are added to those of the first fork.
        said: file for its standard error, in whose folder it runs.
    """

    def __init__(self, words: list[str], environment: Mapping[str, str], said: Path) -> None:
        self._server, self._said = _server(), said
        self.returncode: int | None = None
        line = json.dumps([words, dict(environment), str(said)]) + "\n"
        self._server.stdin.write(line.encode())  # type: ignore[union-attr]
        self.pid = self._next()

    def communicate(self, timeout: float | None = None) -> tuple[str, str]:
        """Wait for its end; returns nothing, and what it said.

        Raises:
            TimeoutExpired: it has not ended.
        """
        self.wait(timeout)
        return "", self._said.read_text("utf-8", "replace")

    def wait(self, timeout: float | None = None) -> int:
        """Wait for its end, and return its status; raises as `communicate`."""
        if self.returncode is None:
            ready, _, _ = select.select([self._server.stdout], [], [], timeout)
            if not ready:
                raise subprocess.TimeoutExpired("corpusfit", timeout or 0)
            self.returncode = self._next()
        return self.returncode

    def send_signal(self, number: int) -> None:
        """Send it a signal, unless it has ended."""
        if self.returncode is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        """Send SIGKILL."""
        self.send_signal(signal.SIGKILL)

    def terminate(self) -> None:
        """Send SIGTERM."""
        self.send_signal(signal.SIGTERM)

    def _next(self) -> int:
        return int(self._server.stdout.readline())  # type: ignore[union-attr]


@cache
def _server() -> subprocess.Popen[bytes]:
    words = [sys.executable, "-W", "ignore", __file__]
    pipe, none = subprocess.PIPE, subprocess.DEVNULL
    variables = {**os.environ, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
    return subprocess.Popen(words, stdin=pipe, stdout=pipe, stderr=none, bufsize=0, env=variables)


def _serve() -> None:
    """Import everything, then make forks; returns in each of them, never here."""
    import corpusfit

    own = (m.name for m in pkgutil.walk_packages(corpusfit.__path__, "corpusfit."))
    for name in (*own, *_ALSO):
        if not name.endswith("__main__") and importlib.util.find_spec(name):
            importlib.import_module(name)
    from numba.core.registry import cpu_target

    cpu_target.target_context.refresh()  # what the first kernel of a process waits for
    gc.freeze()
    for line in sys.stdin:
        words, variables, said = json.loads(line)
        pid = os.fork()
        if not pid:
            return _become(words, variables, said)
        os.setpgid(pid, pid)
        print(pid, flush=True)
        print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)
    os._exit(0)


def _become(words: list[str], variables: dict[str, str], said: str) -> None:
    os.setpgid(0, 0)
    for handle, place in enumerate((os.devnull, os.devnull, said)):
        os.dup2(os.open(place, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o600), handle)
    os.chdir(Path(said).parent)
    sys.argv = ["corpusfit", *words]
    os.environ.update(variables)


if __name__ == "__main__":
    _serve()
    try:
        runpy.run_module("corpusfit", run_name="__main__", alter_sys=True)
    except SystemExit as end:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        atexit._run_exitfuncs()
        os._exit(end.code or 0)  # to take down five thousand modules would take a second
