"""`--verify`: content that changed while size and times stayed is found, by every command."""

import os
import re

import pytest
from journeys import digests

import corpusfit
from corpusfit.core.errors import ChangedInputError
from corpusfit.text import surveyed


@pytest.fixture
def changed(task, pile, tmp_path, inline, monkeypatch):
    """A selection whose corpus has changed since, as a disk without times of change may hide it."""

    def sizes_and_times(files, states):
        return [
            [url, state.st_size, state.st_mtime_ns]
            for (url, _), state in zip(files, states, strict=True)
        ]

    monkeypatch.setattr(surveyed, "_described", sizes_and_times)
    file = pile / "market.jsonl"
    words = {"target": task, "corpus": file, "method": "dsir", "machine": inline}
    corpusfit.select(out=tmp_path / "out", **words)
    state, content = file.stat(), file.read_bytes()
    file.write_bytes(re.sub(rb'(?<="text": ")[^"]+', lambda text: text[0][::-1], content))
    assert file.read_bytes() != content
    os.utime(file, ns=(state.st_atime_ns, state.st_mtime_ns))
    return words


@pytest.fixture
def verifying(inline):
    return type(inline)(verify=True)


@pytest.mark.parametrize(
    "command",
    [
        lambda out, words: corpusfit.select(out=out, **words),
        lambda out, words: corpusfit.choose(out, fraction=0.3, machine=words["machine"]),
        lambda out, words: corpusfit.explain(out, row="market.jsonl:0", machine=words["machine"]),
    ],
)
def test_a_command_on_an_earlier_run_finds_the_change(changed, verifying, tmp_path, command):
    command(tmp_path / "out", changed)
    with pytest.raises(ChangedInputError, match=r"market\.jsonl"):
        command(tmp_path / "out", {**changed, "machine": verifying})


def test_a_new_run_surveys_it_anew_and_later_commands_know(changed, verifying, tmp_path):
    stale = corpusfit.select(out=tmp_path / "stale", **changed)
    fresh = corpusfit.select(out=tmp_path / "fresh", **{**changed, "machine": verifying})
    again = corpusfit.select(out=tmp_path / "again", **changed)
    marks = [[s["fingerprint"] for s in run.manifest["corpus"]] for run in (stale, fresh, again)]
    assert marks[0] != marks[1] == marks[2]
    assert digests(again.path) == digests(fresh.path)
