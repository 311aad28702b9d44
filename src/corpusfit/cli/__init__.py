"""The command line: one short file per command, which parses, calls and prints."""

import sys

STOPPED = 130
"""Exit code after Ctrl-C, as Typer's."""


def main() -> None:
    """Run a command line; Ctrl-C while it is being imported ends it without a traceback."""
    try:
        from corpusfit.cli.app import run
    except KeyboardInterrupt:
        sys.exit(STOPPED)
    run()
