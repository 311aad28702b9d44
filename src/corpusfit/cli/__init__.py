"""The command line: parse, call, print; one short file a command.

Exit codes: 0 done, 1 failed, 2 wrong usage, 130 stopped by Ctrl-C. With `--json` one object goes
to standard output; everything else goes to standard error.
"""

from corpusfit.cli.app import main

__all__ = ["main"]
