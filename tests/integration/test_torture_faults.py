"""The campaigns of faults and of two commands at once, in short (the long form: make torture)."""

from __future__ import annotations

import shutil
import sys
from importlib import import_module
from pathlib import Path

import pytest

TORTURE = Path(__file__).parents[2] / "benchmarks/torture"


@pytest.fixture(scope="module")
def campaigns():
    """The modules of the campaigns, by name."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "path", [str(TORTURE), *sys.path])
        yield {name: import_module(name) for name in ("faults", "pairs", "running")}


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    """A folder for cases of commands without a model."""
    folder = tmp_path_factory.mktemp("torture")
    (folder / "base/model").mkdir(parents=True)
    return folder


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
def test_what_is_no_plain_message_is_noticed(campaigns, code, said, left):
    broken = campaigns["running"].broken
    assert len(list(broken(code, said, left))) == 1
    assert not list(broken(1, "Error: It is full. Make room on the disk.", 0))


@pytest.mark.slow
@pytest.mark.skipif(
    sys.platform != "linux" or not shutil.which("gcc"), reason="needs Linux and a compiler"
)
def test_a_command_on_a_faulty_machine_goes_on_with_the_same_bytes(campaigns, root, monkeypatch):
    faults = campaigns["faults"]
    monkeypatch.setattr(faults, "FAULTS", 2)
    kinds = ("disk full", "no more handles")
    monkeypatch.setattr(faults, "KINDS", {kind: faults.KINDS[kind] for kind in kinds})
    outcome = faults.fault(0, root, "dsir")
    assert outcome.broken == []
    assert outcome.counts["resumed"] == 1
    assert sum(outcome.counts[f"fault: {kind}"] for kind in kinds)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["one folder", "two versions"])
def test_two_commands_at_once_do_not_mix(campaigns, root, monkeypatch, kind):
    monkeypatch.setattr(campaigns["pairs"], "KINDS", (kind,))
    outcome = campaigns["pairs"].two(0, root, "dsir")
    assert outcome.broken == []
    assert outcome.counts == {kind: 1, "resumed": 1}
