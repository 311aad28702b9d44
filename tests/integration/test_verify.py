"""Content that changed: of which size and times stayed (`--verify`), or while it was read."""

import os
import re

import pytest
from journeys import scores

import corpusfit
from corpusfit.core.errors import ChangedInputError, InputError
from corpusfit.text import surveyed
from corpusfit.text.context import Run


@pytest.mark.parametrize(
    "command",
    [
        lambda out, words: corpusfit.select(out=out, **words),
        lambda out, words: corpusfit.choose(out, fraction=0.3, machine=words["machine"]),
        lambda out, words: corpusfit.explain(out, row="market.jsonl:0", machine=words["machine"]),
        lambda out, words: list(corpusfit.open(out).labeled_scores("id", machine=words["machine"])),
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


@pytest.mark.parametrize("cut", [False, True], ids=["same borders", "another file is cut"])
def test_a_corpus_that_changed_while_it_was_encoded_leaves_no_vectors(
    jsonl, task, tiny_static, tmp_path, inline, monkeypatch, cut
):
    """A later run on the restored files took the vectors of the other content."""
    rows = [{"text": f"{word} {cut} " * 6 + str(i)} for i in range(40) for word in ("ox", "fund")]
    one, other = jsonl("corpus/a.jsonl", rows), jsonl("corpus/b.jsonl", rows[:30])
    words = {
        "target": task,
        "corpus": one.parent,
        "method": "domain_cosine",
        "embedder": str(tiny_static),
        "machine": inline,
    }
    before = {path: path.read_bytes() for path in (one, other)}
    lines = before[one].splitlines(keepends=True)
    stage = Run.stage

    def swapping(self, name, total=0):
        if name == "embed":
            one.write_bytes(b"".join([*lines[2:], *lines[:2]]))  # the same size and borders
            if cut:  # so that reading it fails, behind vectors of the first file
                other.write_bytes(before[other][:-20])
        return stage(self, name, total)

    with monkeypatch.context() as patch:
        patch.setattr(Run, "stage", swapping)
        with pytest.raises((InputError, ChangedInputError), match=r"[ab]\.jsonl"):
            corpusfit.select(out=tmp_path / "one", **words)
    for path, content in before.items():
        path.write_bytes(content)
    again = corpusfit.select(out=tmp_path / "two", **words)
    machine = type(inline)(engine="inline", cache=tmp_path / "fresh")
    fresh = corpusfit.select(out=tmp_path / "three", **words | {"machine": machine})
    assert scores(again) == scores(fresh)
