"""The command line: one short file per command, which parses, calls and prints."""

from corpusfit.cli.app import main

__all__ = ["main"]
