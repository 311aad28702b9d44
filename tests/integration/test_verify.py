"""`--verify`: content that changed while size and times stayed is found, by every command."""

import os
import re

import pytest

import corpusfit
from corpusfit.core.errors import ChangedInputError
from corpusfit.text import surveyed


@pytest.mark.parametrize(
    "command",
    [
        lambda out, words: corpusfit.select(out=out, **words),
        lambda out, words: corpusfit.choose(out, fraction=0.3, machine=words["machine"]),
        lambda out, words: corpusfit.explain(out, row="market.jsonl:0", machine=words["machine"]),
        lambda out, words: corpusfit.audit(
            out, truth="id", domain="market-1*", machine=words["machine"]
        ),
    ],
)
def test_a_command_on_an_earlier_run_finds_the_change(
    task, pile, tmp_path, inline, monkeypatch, command
):
    """As on a file system without times of change."""

    def size_and_time(url, lines, state):
        return f"{lines:d} {state.st_size} {state.st_mtime_ns} {url}"

    monkeypatch.setattr(surveyed, "_key", size_and_time)
    monkeypatch.setattr(surveyed, "_LEAST", 1)
    monkeypatch.setattr(surveyed, "_SETTLED", -3_600)  # a change of just now counts as old
    file, out = pile / "market.jsonl", tmp_path / "out"
    words = {"target": task, "corpus": file, "method": "dsir", "machine": inline}
    corpusfit.select(out=out, **words)
    state, content = file.stat(), file.read_bytes()
    file.write_bytes(re.sub(rb'(?<="text": ")[^"]+', lambda text: text[0][::-1], content))
    os.utime(file, ns=(state.st_atime_ns, state.st_mtime_ns))

    command(out, words)
    with pytest.raises(ChangedInputError, match=r"market\.jsonl"):
        command(out, words | {"machine": type(inline)(verify=True)})
