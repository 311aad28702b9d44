"""Bad input is an event, not a crash: one clear sentence, or a counted, explained reject."""

import gzip
import json
import math
import os
import random
import re
import shutil
import signal
import time
from collections import Counter
from pathlib import Path

import pytest
import zstandard
from journeys import children, digests, prose, rejects, scores, stamps

import corpusfit
from corpusfit.core.errors import (
    EmptyInputError,
    InputError,
    OutputFolderError,
    StorageError,
    StrictError,
)

GOOD = [json.dumps({"text": t}).encode() for t in prose("market", 6)]
BAD = {
    "malformed JSON": b'{"text": "a bracket is missing"',
    "malformed JSON: surrogate": rb'{"text": "half a pair \ud800"}',
    "invalid UTF-8": b'{"text": "caf\xe9"}',
    "text contains NUL": rb'{"text": "before\u0000after"}',
    "malformed JSON: raw NUL": b'{"text": "before\0after"}',
    "text is not a string": b'{"text": ["a", 1]}',
    "text is null": b'{"text": null}',
    "text is empty": b'{"text": " \\n "}',
    "missing field 'text'": b'{"body": "elsewhere"}',
    "row is not an object": b'"only a string"',
    "empty line": b"",
}


@pytest.fixture
def random_run(tmp_path, task, inline):
    """`select` with `random`, in this process."""

    def run(corpus, target=task, out="out", **words):
        return corpusfit.select(
            target=target,
            corpus=corpus,
            out=tmp_path / out,
            machine=inline,
            **{"method": "random", **words},
        )

    return run


def add_up(run, corpus=None):
    """Check that every row is accounted for; returns the rejects."""
    counts = run.manifest["counts"]
    lines = rejects(run.path)
    assert counts["rows"] == counts["documents"] + counts["rejected"]
    assert counts["rejected"] == len(lines) == sum(counts["reasons"].values())
    assert Counter(line["reason"].split(": ")[0] for line in lines) == counts["reasons"]
    assert all(list(line) == ["source", "row", "byte", "reason"] for line in lines)
    assert len({(s["source"], s["row"]) for s in scores(run)}) == counts["documents"]
    return lines


@pytest.mark.parametrize("shard_mb", [4.0, 0.0001])
def test_bad_rows_are_rejected_with_place_and_reason(random_run, tmp_path, shard_mb):
    lines = [line for pair in zip(GOOD * 2, BAD.values(), strict=False) for line in pair]
    corpus = tmp_path / "mixed.jsonl"
    corpus.write_bytes(b"\n".join(lines) + b"\n")
    settings = [f"read.shard_mb={shard_mb}", "cut.pieces=256"]  # a row is one piece
    run = random_run(corpus, settings=settings, fraction=1.0, dedup="none")
    found = add_up(run)
    assert run.manifest["counts"]["rows"] == len(lines)
    assert [line["row"] for line in found] == list(range(1, 2 * len(BAD), 2))
    whole = corpus.read_bytes()
    for line, (reason, raw) in zip(found, BAD.items(), strict=True):
        assert line["source"] == "mixed.jsonl"
        assert line["reason"].startswith(reason.split(": ")[0])
        assert whole[line["byte"] :].startswith(raw + b"\n")
    assert [s["text"] for s in run] == [json.loads(r)["text"] for r in (GOOD * 2)[: len(BAD)]]


@pytest.mark.parametrize("reason", BAD)
def test_strict_makes_the_first_one_an_error(random_run, tmp_path, reason):
    corpus = tmp_path / "mixed.jsonl"
    corpus.write_bytes(b"\n".join([*GOOD, BAD[reason], *GOOD]) + b"\n")
    with pytest.raises(StrictError, match=r"mixed\.jsonl, row 6: .*`read\.strict"):
        random_run(corpus, strict=True)


def test_strict_also_minds_rows_that_were_read_before(task, tmp_path, tiny_static, inline):
    """An earlier run left embeddings, finished shards or a whole result; its rejects remain."""
    corpus = tmp_path / "mixed.jsonl"
    corpus.write_bytes(b"\n".join([*GOOD, b"oops", *GOOD]) + b"\n")

    def run(out, **words):
        corpusfit.select(
            target=task,
            corpus=corpus,
            out=tmp_path / out,
            machine=inline,
            embedder=str(tiny_static),
            method="domain_cosine",
            **words,
        )

    run("lenient")
    for out in ("lenient", "embedded before"):
        with pytest.raises(StrictError, match=r"mixed\.jsonl, row 6: malformed JSON"):
            run(out, strict=True)


def test_strict_in_the_target(random_run, tmp_path, pile):
    target = tmp_path / "target.jsonl"
    target.write_bytes(b"\n".join([*GOOD, b"oops"]))
    with pytest.raises(StrictError, match=r"target\.jsonl, row 6"):
        random_run(pile, target, strict=True)


def test_bad_rows_of_the_target_are_a_warning(random_run, tmp_path, pile):
    target = tmp_path / "target.jsonl"
    target.write_bytes(b"\n".join([*GOOD * 5, b"oops", *GOOD]))
    run = random_run(pile, target)
    assert any(re.search(r"\b1\b.*malformed", w) for w in run.manifest["warnings"])
    assert add_up(run) == []


def packed_line(suffix, mib):
    """A JSON line of so many MiB between two good ones, in as many archive members."""
    text = bytes(random.Random(0).choices(b"abcdefghij ", k=4096)) * 256
    pack = gzip.compress if suffix == "gz" else zstandard.ZstdCompressor().compress
    parts = [GOOD[0] + b'\n{"text": "', *[text] * mib, b'"}\n' + GOOD[1] + b"\n"]
    packed = {part: pack(part) for part in set(parts)}
    return b"".join(packed[part] for part in parts)


@pytest.mark.parametrize("suffix", ["gz", "zst"])
def test_a_line_beyond_the_limit_is_one_reject(random_run, tmp_path, suffix):
    corpus = tmp_path / f"long.jsonl.{suffix}"
    corpus.write_bytes(packed_line(suffix, 40))
    run = random_run(corpus, fraction=1.0)
    (line,) = add_up(run)
    assert line == {
        "source": corpus.name,
        "row": 1,
        "byte": len(GOOD[0]) + 1,
        "reason": "row longer than 32 MiB",
    }
    assert [s["row"] for s in run] == [0, 2]


@pytest.mark.parametrize(
    ("suffix", "pack"), [("gz", gzip.compress), ("zst", zstandard.ZstdCompressor().compress)]
)
def test_a_truncated_archive_keeps_what_came_before(random_run, tmp_path, suffix, pack):
    rows = [json.dumps({"text": t}).encode() + b"\n" for t in prose("task", 3000, seed=1)]
    whole = pack(b"".join(rows))
    corpus = tmp_path / f"cut.jsonl.{suffix}"
    corpus.write_bytes(whole[: len(whole) * 3 // 4])
    lines = add_up(run := random_run(corpus, fraction=1.0, settings=["cut.pieces=256"]))
    assert lines[-1]["reason"] == f"truncated .{suffix} archive"
    (warning,) = run.manifest["warnings"]
    kept = run.manifest["counts"]["documents"]
    assert f"cut.jsonl.{suffix} ({kept:,} usable rows; truncated" in warning
    assert 500 < kept < 3000
    taken = [s["text"] for s in run]
    assert taken == [json.loads(r)["text"] for r in rows[: len(taken)]]


def test_a_bomb_is_cut_off(random_run, tmp_path):
    corpus = tmp_path / "bomb.jsonl.zst"
    bomb = zstandard.ZstdCompressor().compress(b"a" * (80 << 20))
    corpus.write_bytes(zstandard.ZstdCompressor().compress(GOOD[0] + b"\n") + bomb)
    lines = rejects(random_run(corpus, settings=["read.max_ratio=50"]).path)
    assert lines[-1]["reason"].startswith("bomb limit")
    assert "50" in lines[-1]["reason"]


@pytest.mark.parametrize("content", ["", "\n", '{"text": ""}\n'])
def test_an_empty_target(cli, task, pile, tmp_path, content):
    target = tmp_path / "empty.jsonl"
    target.write_text(content)
    done = cli("select", "--target", target, "--corpus", pile, "--out", tmp_path / "o")
    assert done.code == 1
    assert done.err.startswith("Error: ")
    assert "--target" in done.err
    # a field of another name could be the cause only where there are rows
    assert ("--target-field" in done.err) == bool(content)
    assert done.err.count("\n") == 1


def test_a_small_target_works_and_says_what_is_unreliable(jsonl, pile, cli, tmp_path):
    target = jsonl("few.jsonl", [*prose("task", 19), *prose("task", 19)])
    words = ("--corpus", pile, "--method", "random", "--out")
    done = cli("select", "--target", target, *words, tmp_path / "o")
    assert done.code == 0
    assert re.search(r"Warning: .*\b19\b", done.err)
    assert re.search(r"\b20\b", done.err)
    assert done.err.count("Warning") == 1
    enough = jsonl("enough.jsonl", prose("task", 20))
    done = cli("select", "--target", enough, *words, tmp_path / "p")
    assert (done.code, "Warning" in done.err) == (0, False)


def test_a_target_of_one_text_is_selected_by(jsonl, pile, inline, tmp_path):
    run = corpusfit.select(
        target=jsonl("one.jsonl", prose("task", 1)),
        corpus=pile,
        out=tmp_path / "o",
        machine=inline,
    )
    assert len(run) > 0
    assert " 1 " in run.manifest["warnings"][0]


def test_a_tokenizer_that_does_not_cut_as_bert_s_is_named(
    task, pile, inline, tiny_static, tmp_path
):
    own = tmp_path / "own"
    shutil.copytree(tiny_static, own)
    file = own / "tokenizer.json"
    settings = json.loads(file.read_text("utf-8"))
    settings["pre_tokenizer"] = {"type": "Whitespace"}
    file.write_text(json.dumps(settings), "utf-8")
    words = {"target": task, "corpus": pile, "method": "knn", "machine": inline}
    for folder in (own, tiny_static):
        run = corpusfit.select(**words, embedder=str(folder), out=tmp_path / f"out-{folder.name}")
        warned = [w for w in run.manifest["warnings"] if str(folder) in w]
        assert len(warned) == (folder == own)


@pytest.mark.parametrize("embedded", [False, True])
@pytest.mark.parametrize(
    ("content", "why"),
    [
        ("", "it is empty"),
        ("\n\n", r"empty line \(2 rows\)"),
        ('{"text": null}\n', r"text is null \(1 row\)"),
    ],
)
def test_an_empty_corpus(random_run, tmp_path, tiny_static, content, why, embedded):
    corpus = tmp_path / "empty.jsonl"
    corpus.write_text(content)
    words = {"method": "domain_cosine", "embedder": str(tiny_static)} if embedded else {}
    with pytest.raises(EmptyInputError, match=rf"`corpus` .*\({why}\)"):
        random_run(corpus, **words)
    assert not (tmp_path / "out" / "manifest.json").exists()


def test_no_row_with_the_text_field(random_run, jsonl, cli, task, tmp_path):
    corpus = jsonl("other.jsonl", [{"body": "x", "title": "y"}] * 3)
    with pytest.raises(EmptyInputError) as error:
        random_run(corpus)
    for words in ("missing field 'text'", "body, title", "(3 rows)", "`read.text_field"):
        assert words in str(error.value)
    done = cli(
        *("select", "--target", task, "--corpus", corpus, "--out", tmp_path / "o"),
        *("--method", "random", "--dry-run"),
    )
    assert done.code == 1
    assert "body, title" in done.err


def test_another_text_field(random_run, jsonl):
    corpus, target = (
        jsonl(name, [{"body": t} for t in prose(topic, 30)])
        for name, topic in (("c.jsonl", "market"), ("t.jsonl", "task"))
    )
    run = random_run(corpus, target, text_field="body")
    assert add_up(run) == []
    assert run.manifest["counts"]["documents"] == 30


@pytest.mark.parametrize("role", ["target", "corpus"])
def test_inputs_that_are_not_there(cli, task, pile, tmp_path, role):
    (tmp_path / "bare").mkdir()
    (tmp_path / "bare" / "notes.rst").write_text("not text for us")
    for given, why in (
        (tmp_path / "bare", "has none"),
        (tmp_path / "nowhere.jsonl", "does not exist"),
        (tmp_path / "bear", "did you mean 'bare'?"),
        (tmp_path / "bear" / "notes.txt", "did you mean 'bare'?"),
        (tmp_path / "*.nothing", "matches nothing"),
        (tmp_path / "bare" / "notes.rst", "notes.rst"),
    ):
        inputs = {"target": task, "corpus": pile, role: given}
        done = cli(
            *("select", "--target", inputs["target"], "--corpus", inputs["corpus"]),
            *("--out", tmp_path / "o"),
        )
        assert done.code == 1
        assert done.err.startswith("Error: ")
        assert f"--{role}" in done.err
        assert why in done.err
        assert str(given) in done.err
        assert done.out == ""


def test_a_whole_fraction_takes_everything(random_run, pile):
    run = random_run(pile, fraction=1)
    assert all(s["selected"] for s in scores(run))


def test_an_output_folder_with_something_else(cli, random_run, task, pile, tmp_path):
    out = tmp_path / "out"
    out.mkdir()
    (out / "thesis.tex").write_text("years of work")
    with pytest.raises(OutputFolderError, match=str(out)):
        random_run(pile, overwrite=True)
    done = cli("select", "--target", task, "--corpus", pile, "--out", out, "--method", "random")
    assert done.code == 2
    assert str(out) in done.err
    assert [p.name for p in out.iterdir()] == ["thesis.tex"]
    file = tmp_path / "file"
    file.write_text("x")
    with pytest.raises(OutputFolderError, match=str(file)):
        random_run(pile, out="file")
    with pytest.raises(StorageError, match="inside"):
        random_run(pile, out="file/inside")


def test_a_file_as_cache_is_told_before_the_work(cli, task, pile, tmp_path):
    words = ("--target", task, "--corpus", pile, "--method", "random", "--out", tmp_path / "out")
    done = cli("select", *words, "--cache", task)
    assert (done.code, done.err.startswith("Error: `cache` (--cache) ")) == (2, True)
    assert not (tmp_path / "out").exists()


def test_an_empty_output_folder_is_fine(random_run, pile, tmp_path):
    (tmp_path / "out").mkdir()
    assert random_run(pile).manifest["counts"]["rejected"] == 0


def test_choose_in_a_folder_without_scores(tmp_path, inline, cli):
    with pytest.raises(InputError, match=r"corpusfit select"):
        corpusfit.choose(tmp_path, machine=inline, fraction=0.5)
    done = cli("choose", tmp_path / "nowhere", "--fraction", 0.5)
    assert done.code == 1
    assert "nowhere" in done.err


SMALL_SHARDS = ("--method", "random", "--set", "read.shard_mb=0.002")


@pytest.fixture
def arguments(task, pile, tmp_path):
    """A run of about forty shards in two processes, and where it goes."""
    return (
        *("select", "--target", task, "--corpus", pile, "--fraction", 0.5),
        *("--workers", 2, "--out", tmp_path / "out", *SMALL_SHARDS),
        *("--set", "cut.pieces=256"),  # otherwise a sentence says how long units are
    )


@pytest.fixture
def expected(random_run, pile):
    """What that run writes when nothing goes wrong."""
    run = random_run(
        pile, out="whole", fraction=0.5, settings=["read.shard_mb=0.002", "cut.pieces=256"]
    )
    return digests(run.path)


@pytest.mark.slow
def test_a_full_disk_is_one_sentence_and_can_be_resumed(
    command, cli, arguments, expected, tmp_path
):
    largest = max(p.stat().st_size for p in (tmp_path / "whole/selected").iterdir())
    failed = command(*arguments, file_limit=largest - 1)
    assert failed.code == 1
    assert "Traceback" not in failed.err
    last = failed.err.splitlines()[-1]
    assert last.startswith("Error: ")
    assert "File too large" in last
    assert str(tmp_path / "out") in last
    assert failed.out == ""
    assert not (tmp_path / "out/manifest.json").exists()
    before = stamps(tmp_path / "out/.corpusfit/scored", "part-*.json")
    assert cli(*arguments).code == 0
    assert digests(tmp_path / "out") == expected
    after = stamps(tmp_path / "out/.corpusfit/scored", "part-*.json")
    assert before.items() <= after.items()


def sentences(err):
    """The lines but those of progress, which begin with a title; a slow machine has some."""
    return [line for line in err.splitlines() if not re.match(r"[A-Z][a-z]+ing\b|Stage ", line)]


@pytest.mark.slow
def test_ctrl_c_ends_with_130_and_can_be_resumed(start, cli, arguments, expected, tmp_path):
    marks = tmp_path / "out/.corpusfit/scored"
    process = start(*arguments)
    while process.poll() is None and not any(marks.glob("part-*.json")):
        time.sleep(0.002)
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does: to every process of the group
    out, err = process.communicate()
    assert process.returncode == 130
    assert len(sentences(err)) == 1
    assert "Traceback" not in err
    assert out == ""
    before = stamps(marks, "part-*.json")
    assert cli(*arguments).code == 0
    assert digests(tmp_path / "out") == expected
    assert before.items() <= stamps(marks, "part-*.json").items()


@pytest.mark.slow
def test_ctrl_c_while_workers_start_is_quiet_too(start, arguments):
    process = start(*arguments)
    while process.poll() is None and not any(map(imports_numpy, children(process.pid))):
        time.sleep(0.002)
    os.killpg(process.pid, signal.SIGINT)
    _, err = process.communicate()
    assert process.returncode == 130
    assert len(sentences(err)) == 1
    assert "Traceback" not in err


def imports_numpy(pid):
    """Whether a worker is past reading its orders and loads the library now."""
    try:
        return "numpy" in Path(f"/proc/{pid}/maps").read_text()
    except OSError:
        return False


def test_a_disk_that_may_be_too_small_is_warned_of(cli, task, pile, tmp_path, monkeypatch):
    free = shutil.disk_usage(tmp_path)._replace(free=10)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: free)
    words = ("--target", task, "--corpus", pile, "--method", "random", "--fraction", "0.5")
    commands = (("select", *words), ("split", "--data", pile, "--dev", "0.1"))
    for command in commands:
        out = tmp_path / command[0]
        assert "GB" in cli(*command, "--out", out).err
        manifest = json.loads((out / "manifest.json").read_text())
        assert manifest.get("warnings", []) == []


def test_a_file_name_that_is_not_utf8(cli, task, tmp_path):
    folder = tmp_path / "pile"
    folder.mkdir()
    for name in (b"caf\xe9.jsonl", "日本.jsonl".encode()):
        path = os.path.join(os.fsencode(folder), name)  # noqa: PTH118
        with open(path, "wb") as file:
            file.write(b"\n".join([*GOOD, b"oops"]))
    out = tmp_path / "out"
    arguments = ("select", "--target", task, "--corpus", folder, "--out", out, "--fraction", 1)
    done = cli(*arguments, "--method", "random", "--json")
    assert done.code == 0, done.err
    sources = {"caf\N{REPLACEMENT CHARACTER}.jsonl", "日本.jsonl"}
    assert set(json.loads(done.out)["selected"]["by_source"]) == sources
    assert {line["source"] for line in rejects(out)} == sources
    assert cli("choose", out, "--segments", 3).code == 0


MANIFESTS = {  # a change of a manifest, and the command that it stops
    "selected": ("open", lambda found: found.update(selected=7)),
    "counts": ("open", lambda found: found.update(counts="x")),
    "target": ("contamination", lambda found: found.update(target=-1)),
    "plan": ("contamination", lambda found: found.update(plan="x")),
    "texts": ("choose", lambda found: found.update(texts=[{}])),
    "method": ("choose", lambda found: found.update(method={"name": 1})),
}


def test_a_manifest_of_other_types_is_named(jsonl, pile, tmp_path, inline):
    target, whole = jsonl("held.jsonl", prose("task", 30, seed=9)), tmp_path / "whole"
    corpusfit.select(
        target=target, corpus=pile, out=whole, method="dsir", fraction=0.5, machine=inline
    )
    inner = {"texts": "fit/target.json", "method": "scored.json"}
    commands = {
        "open": corpusfit.open,
        "contamination": lambda run: corpusfit.contamination(task=target, data=run, machine=inline),
        "choose": lambda run: corpusfit.choose(run, fraction=0.2, machine=inline),
    }
    for name, (command, change) in MANIFESTS.items():
        folder = shutil.copytree(whole, tmp_path / name)
        file = folder / (f".corpusfit/{inner[name]}" if name in inner else "manifest.json")
        content = json.loads(file.read_bytes())
        change(content)
        file.write_text(json.dumps(content))
        with pytest.raises(InputError, match=str(folder)):
            commands[command](folder)


@pytest.mark.parametrize("method", ["dsir", "moore_lewis", "cynical"])
@pytest.mark.parametrize("texts", [["😀", "👍🏽"], ["...", "!!!"], ["\u200b\u200d", "—"]])
def test_a_target_without_words_is_refused(random_run, jsonl, method, texts):
    target, corpus = jsonl("odd.jsonl", texts), jsonl("corpus.jsonl", prose("market", 40))
    with pytest.raises(InputError, match=r"`target` must have texts with words"):
        random_run(corpus, target, method=method)


@pytest.mark.parametrize(
    "texts", [["1", "2 3", "42"], ["word"], ["same text"] * 5, ["\u0301", "ก่"]]
)
def test_a_target_with_hardly_any_words_is_compared(random_run, jsonl, texts):
    target, corpus = jsonl("odd.jsonl", texts), jsonl("corpus.jsonl", prose("market", 40))
    run = random_run(corpus, target, method="cynical")
    assert all(math.isfinite(row["score"]) for row in scores(run))


def test_signs_are_words_where_the_method_counts_them(random_run, jsonl):
    target, corpus = (
        jsonl("odd.jsonl", ["...", "!!!"]),
        jsonl("corpus.jsonl", ["No!!!", "Yes", "Oh"]),
    )
    settings = ["method.signs=true", "method.order=1"]
    run = random_run(corpus, target, method="dsir", settings=settings)
    found = {row["row"]: row["score"] for row in scores(run)}
    assert found[0] > max(found[1], found[2])
