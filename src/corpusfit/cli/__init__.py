"""The command line: a function of each command prints its result."""

import io
import os
import signal
import sys
from typing import Any

STOPPED = 130
"""Exit code after Ctrl-C, as Typer's."""
TERMINATED = 128 + signal.SIGTERM
"""Exit code after SIGTERM, as a shell's."""


def main() -> None:
    """Run a command line; Ctrl-C while it is being imported ends it without a traceback."""
    _open_closed_streams()
    # a process of a distributed training may wait in a library that no handler interrupts
    if "WORLD_SIZE" not in os.environ:
        signal.signal(signal.SIGTERM, _terminate)
    try:
        from corpusfit.cli.app import run
    except KeyboardInterrupt:
        sys.exit(STOPPED)
    # A stream that is not UTF-8, as of Windows into a file or a pipe, lacks letters of most texts.
    if isinstance(sys.stdout, io.TextIOWrapper) and sys.stdout.errors == "strict":
        sys.stdout.reconfigure(errors="replace")
    run()


def _terminate(number: int, _: Any) -> None:
    """End the command in order, so that its workers and temporary files go too."""
    signal.signal(number, signal.SIG_IGN)
    sys.exit(TERMINATED)


def _open_closed_streams() -> None:
    """Open standard streams that the caller closed (`2>&-`), reading and writing nothing."""
    # else the next file that is opened gets the number, and whoever prints writes to that file
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)
            os.set_inheritable(number, True)
        if number and getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115
