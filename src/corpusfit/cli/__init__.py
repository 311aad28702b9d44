"""The command line: one short file per command, which parses, calls and prints."""

import io
import sys

STOPPED = 130
"""Exit code after Ctrl-C, as Typer's."""


def main() -> None:
    """Run a command line; Ctrl-C while it is being imported ends it without a traceback."""
    try:
        from corpusfit.cli.app import run
    except KeyboardInterrupt:
        sys.exit(STOPPED)
    # A stream that is not UTF-8, as of Windows into a file or a pipe, lacks letters of most texts.
    if isinstance(sys.stdout, io.TextIOWrapper) and sys.stdout.errors == "strict":
        sys.stdout.reconfigure(errors="replace")
    run()
