"""Every campaign of benchmarks/torture in short; the long form is `make torture`."""

from __future__ import annotations

import shutil
import sys

import pytest

import faults
import foes
import kills
from corpusfit.text import context
from running import broken

pytestmark = pytest.mark.long

FOES = (
    *("tables", "messages", "command line", "model: auto_map", "static: a token below zero"),
    "run: files to delete above",
)


@pytest.mark.parametrize(
    ("code", "said", "left"),
    [
        (None, "", 0),
        (-11, "", 0),
        (1, "Traceback (most recent call last):", 0),
        (1, "Error: It is full.", 0),
        (0, "", 1),
    ],
)
def test_what_is_no_plain_message_is_noticed(code, said, left):
    assert len(list(broken(code, said, left))) == 1
    assert not list(broken(1, "Error: It is full. Make room on the disk.", 0))


@pytest.mark.parametrize("of", FOES)
def test_hostile_input_does_nothing(root, of):
    machine = context.Machine
    outcome = foes.foe(0, root, of)
    assert (outcome.broken, outcome.counts["inputs"]) == ([], 1)
    assert context.Machine is machine  # other tests of this process have their own


def test_a_killed_command_goes_on(root, monkeypatch):
    monkeypatch.setattr(kills, "KILLS", 1)
    outcome = kills.kill(0, root, "split")
    assert outcome.broken == []
    assert sum(n for what, n in outcome.counts.items() if "signal" in what) == 1


@pytest.mark.skipif(
    sys.platform != "linux" or not shutil.which("gcc"), reason="needs Linux and a compiler"
)
def test_a_command_on_a_faulty_machine_goes_on_with_the_same_bytes(root, monkeypatch):
    monkeypatch.setattr(faults, "FAULTS", 2)
    kinds = ("disk full", "no more handles")
    monkeypatch.setattr(faults, "KINDS", {kind: faults.KINDS[kind] for kind in kinds})
    outcome = faults.fault(0, root, "dsir")
    assert outcome.broken == []
    assert outcome.counts["resumed"] == 1
    assert sum(outcome.counts[f"fault: {kind}"] for kind in kinds)
