"""`corpusfit doctor`: what is installed here."""

from __future__ import annotations

import dataclasses
from typing import Annotated

import typer

import corpusfit
from corpusfit.cli import options as o
from corpusfit.cli.show import answer, say, table


def doctor(
    *,
    warm: Annotated[
        bool,
        typer.Option(
            "--warm",
            help="Compile the kernels of `select` now, once per environment",
        ),
    ] = False,
    workers: o.Workers = None,
    cache: o.Cache = None,
    json: o.Json = False,
) -> None:
    """Show what is installed on this machine.

    Example:
      corpusfit doctor
      corpusfit doctor --warm

    Prints versions, the extras with the command that installs each missing one, the device and
    precision of networks, cores, memory and the cache. Writes nothing without --warm.
    """
    found = corpusfit.doctor(warm=warm, workers=workers, cache=cache)
    facts = dataclasses.asdict(found)
    for extra, known in zip(facts["extras"], found.extras, strict=True):
        extra["cure"] = known.cure
    answer(json, facts, _show, found)


def _show(found: corpusfit.Health) -> None:
    rows = [[name, text] for name, text in found.versions.items()]
    table("Versions", ["library", "version"], rows, words=["version"])
    rows = [[e.name, ", ".join(e.missing) or "none", e.cure or "–"] for e in found.extras]
    table("Extras", ["extra", "missing", "to install"], rows, words=["missing", "to install"])
    memory = f", {found.memory / 1e9:.0f} GB of memory" if found.memory else ""
    say(f"Workers: {found.cores}{memory}.")
    precision = found.precision or "networks need the extra models"
    say(f"Device: {found.device} ({precision}).")
    say(f"Cache: {found.cache}, {found.cache_size / 1e6:,.0f} MB; see corpusfit cache.")
    if found.compiled is None:
        say("To compile the kernels now, once per environment: corpusfit doctor --warm")
    else:
        say(f"The kernels are compiled ({found.compiled:,.0f} s).")
