"""The same inputs, plan and seed give the same bytes, whatever happens on the way."""

import contextlib
import dataclasses
import os
import random
import re
import shutil
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from journeys import children, digests, kill_at, prose, scores, stamps

import corpusfit
from corpusfit import Machine
from corpusfit.core.engine import Progress
from corpusfit.core.errors import ChangedInputError, InputError, ModelError, UsageError
from corpusfit.core.types import text_array
from corpusfit.scoring.methods.dsir import Dsir
from corpusfit.selection.scoring import ScoreTexts

SHARDS = "read.shard_mb=0.01"
"""About ten shards."""

MANY_SHARDS = "read.shard_mb=0.002"
"""About fifty, so that a process can be killed among them."""

PARTS = "choose.part_mb=0.002"
"""Several shards in a part, and several parts."""


@pytest.fixture
def run(task, pile, tmp_path, inline):
    """`select` with `random` over many shards, in this process."""

    def run(out="out", **words):
        machine = words.pop("machine", inline)
        given = {"target": task, "corpus": pile, "method": "random", "settings": [SHARDS], **words}
        return corpusfit.select(out=tmp_path / out, machine=machine, **given)

    return run


@pytest.fixture
def command_line(task, pile):
    """The same run as a command line."""

    def command_line(out, *more):
        return (
            *("select", "--target", task, "--corpus", pile, "--out", out),
            *("--method", "random", "--set", MANY_SHARDS, "--set", PARTS),
            *("--workers", 1, *more),
        )

    return command_line


@pytest.mark.slow
def test_any_number_of_workers_gives_the_same_bytes(run):
    settings = [SHARDS, PARTS]
    whole = digests(run("inline", settings=settings).path)
    assert len(whole) > 12
    assert len([name for name in whole if name.startswith("selected/")]) > 2
    for workers in (1, 2):
        machine = Machine(workers=workers)
        assert digests(run(f"with {workers}", machine=machine, settings=settings).path) == whole


@pytest.mark.slow
def test_embeddings_give_the_same_bytes_too(run, tmp_path, pile, inline, tiny_encoder):
    """In another process, with an empty cache, and the corpus copied elsewhere."""
    words = {"method": "domain_cosine", "embedder": str(tiny_encoder)}
    shutil.copytree(pile, tmp_path / "elsewhere" / "copy")
    caches = [tmp_path / "cache here", tmp_path / "cache there"]
    with one_thread():
        here = run("here", machine=type(inline)(cache=caches[0]), **words)
    machine = Machine(workers=1, cache=caches[1])
    there = run("there", corpus=tmp_path / "elsewhere" / "copy", machine=machine, **words)
    assert len(digests(here.path)) > 8
    assert digests(here.path) == digests(there.path)
    names = [{p.name for p in (cache / "embeddings").iterdir()} for cache in caches]
    assert names[0] == names[1]


@pytest.mark.slow
def test_texts_and_embeddings_together_give_the_same_bytes(run, tmp_path, tiny_static, inline):
    settings = [SHARDS, "method.weights=1,2,1"]
    words = {"method": "blend", "embedder": str(tiny_static), "settings": settings}
    with one_thread():
        here = run("here", machine=type(inline)(cache=tmp_path / "cache here"), **words)
    there = run("there", machine=Machine(workers=2, cache=tmp_path / "cache there"), **words)
    scores = [segment["score"] for segment in here]
    assert len(set(scores)) > 1
    assert all(0.0 <= score <= 1.0 for score in scores)
    assert digests(here.path) == digests(there.path)


@contextlib.contextmanager
def one_thread():
    """As in a worker."""
    torch = sys.modules.get("torch")
    if torch is None:
        yield
        return
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def test_embeddings_in_the_cache_are_used_and_change_nothing(run, tmp_path, tiny_static, inline):
    words = {"method": "domain_cosine", "embedder": str(tiny_static)}
    machine = type(inline)(cache=tmp_path / "cache")
    first = run("first", machine=machine, **words)
    before = stamps(tmp_path / "cache/embeddings", "*/*")
    assert before
    again = run("again", machine=machine, **words)
    assert stamps(tmp_path / "cache/embeddings", "*/*") == before
    assert digests(first.path) == digests(again.path)
    other = run("other", machine=machine, **{**words, "method": "knn"})
    assert stamps(tmp_path / "cache/embeddings", "*/*") == before
    assert digests(other.path, "scores") != digests(first.path, "scores")


def test_a_copied_corpus_and_another_order_of_inputs(run, pile, tmp_path):
    whole = digests(run("here").path)
    copy = tmp_path / "a" / "longer" / "path"
    shutil.copytree(pile, copy)
    assert digests(run("copied", corpus=copy).path) == whole
    files = sorted(copy.iterdir(), reverse=True)
    assert digests(run("listed", corpus=files).path) == whole
    assert digests(run("globbed", corpus=f"{copy}/*.jsonl").path) == whole


def test_another_seed_is_another_answer(run):
    assert digests(run("a", seed=1).path, "scores") != digests(run("b", seed=2).path, "scores")


@pytest.mark.parametrize("words", [{"workers": 3}, {"cache": "another"}, {"strict": True}])
def test_what_cannot_change_the_result_may_change_on_resuming(run, tmp_path, inline, words):
    before = run()
    strict = words.pop("strict", None)
    if "cache" in words:
        words["cache"] = tmp_path / words["cache"]
    assert run(machine=type(inline)(**words), strict=strict).manifest == before.manifest


def test_running_a_finished_run_again_does_nothing(run):
    before = run()
    stamped = stamps(before.path, "**/part-*") | stamps(before.path, "*.json*")
    again = run()
    assert stamps(before.path, "**/part-*") | stamps(before.path, "*.json*") == stamped
    assert again.manifest == before.manifest


@pytest.mark.slow
def test_killed_at_random_moments_it_ends_the_same(run, start, cli, command_line, tmp_path):
    whole = digests(run("whole", settings=[MANY_SHARDS, PARTS]).path)
    out = tmp_path / "killed"
    marks = out / ".corpusfit/scored"
    chance = random.Random(20)
    moments = [
        (".corpusfit/scored/part-*.json", chance.randint(5, 30)),
        ("selected/part-*.zst", chance.randint(1, 3)),
    ]
    kept = {}
    for workers, (pattern, count) in enumerate(moments, 1):
        process = start(*command_line(out, "--workers", workers))
        assert kill_at(process, out, pattern, count), pattern
        assert not (out / "manifest.json").exists()
        assert kept.items() <= stamps(marks, "part-*.json").items()
        kept = stamps(marks, "part-*.json")
    assert cli(*command_line(out)).code == 0
    assert kept.items() <= stamps(marks, "part-*.json").items()
    assert digests(out) == whole
    assert {p.name for p in out.iterdir()} == {
        "report.html",
        *(p.name for p in (tmp_path / "whole").iterdir()),
    }


@pytest.mark.slow
def test_embeddings_that_were_finished_are_not_made_again(
    run, start, cli, command_line, tmp_path, tiny_static
):
    words = ("--method", "domain_cosine", "--embedder", tiny_static)
    settings = [MANY_SHARDS, PARTS]
    many = {"method": "domain_cosine", "embedder": str(tiny_static), "settings": settings}
    whole = digests(run("whole", **many).path)
    out, cache = tmp_path / "killed", tmp_path / "cache"
    process = start(*command_line(out, *words, "--cache", cache))
    assert kill_at(process, cache, "embeddings/*/part-*.safetensors", 7)
    kept = stamps(cache, "embeddings/*/part-*.safetensors")
    assert cli(*command_line(out, *words, "--cache", cache)).code == 0
    assert kept.items() <= stamps(cache, "embeddings/*/part-*.safetensors").items()
    assert digests(out) == whole


@pytest.mark.slow
def test_workers_end_when_their_parent_is_killed(start, command_line, tmp_path):
    process = start(*command_line(tmp_path / "out", "--workers", 2))
    workers = set()
    while len(workers) < 3:  # two, and the standard library's resource tracker
        assert process.poll() is None
        workers = set(children(process.pid))
        time.sleep(0.002)
    process.kill()
    process.wait()
    deadline = time.monotonic() + 600
    while any(alive(pid) for pid in workers):
        assert time.monotonic() < deadline, "orphans"
        time.sleep(0.01)


def alive(pid):
    """Whether a process still does something (Linux)."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(") ", 1)[1][0] not in "ZX"
    except OSError:
        return False


def test_choose_equals_a_fresh_select(run, inline):
    """And choosing back gives what was there before."""
    first = run(fraction=0.1)
    amounts = [
        {"segments": 33},
        {"tokens": 2000},
        {"threshold": 0.75},
        {"policy": "continuous", "segments": 50, "settings": ["choose.alpha=-1", "choose.c=2"]},
        {"policy": "resample", "fraction": 0.3, "settings": ["choose.alpha=0", "choose.c=1"]},
        {"policy": "top", "fraction": 0.1},
    ]
    before = digests(first.path)
    for i, words in enumerate(amounts):
        chosen = corpusfit.choose(first.path, machine=inline, **words)
        fresh = run(f"fresh {i}", **{**words, "settings": [SHARDS, *words.get("settings", ())]})
        assert digests(chosen.path) == digests(fresh.path), words
        assert chosen.manifest["selected"] == fresh.manifest["selected"]
        assert chosen.manifest["plan"] == fresh.manifest["plan"]
        taken = [s for s in scores(chosen) if s["selected"]]
        assert len(taken) == chosen.manifest["selected"]["segments"]
        assert sum(text.get("segments", 1) for text in chosen) == len(taken)
        if "segments" in words:
            assert len(taken) == words["segments"]
        if "tokens" in words:
            assert 1900 < sum(s["tokens"] for s in taken) <= 2000
        if "threshold" in words:
            assert {s["row"] for s in taken} == {
                s["row"] for s in scores(fresh) if s["score"] >= 0.75 and s["selected"]
            }
    assert digests(first.path) == before


@pytest.mark.slow
def test_choose_killed_in_the_middle_resumes(run, start, cli, tmp_path):
    many = {"settings": [MANY_SHARDS, PARTS]}
    first, fresh = run("first", fraction=0.1, **many), run("fresh", fraction=0.9, **many)
    for part in (first.path / "selected").iterdir():
        part.unlink()
    arguments = ("choose", first.path, "--fraction", 0.9, "--set", PARTS, "--workers", 1)
    assert kill_at(start(*arguments), first.path / ".corpusfit", "pieces/*.zst", 9)
    assert not (first.path / "manifest.json").exists()
    assert cli(*arguments).code == 0
    assert digests(first.path) == digests(fresh.path)


def test_a_changed_file_is_named(run, pile, inline, tmp_path):
    first = run()
    before = digests(first.path)
    path = pile / "market.jsonl"
    path.write_bytes(path.read_bytes().replace(b"shares", b"stocks", 1))
    with pytest.raises(ChangedInputError, match=r"market\.jsonl"):
        run()
    with pytest.raises(ChangedInputError, match=r"^market\.jsonl"):
        corpusfit.choose(first.path, fraction=0.5, machine=inline)
    path.rename(pile / "other.jsonl")
    with pytest.raises(ChangedInputError) as error:
        run()
    assert re.search(r"market\.jsonl.*other\.jsonl", str(error.value))
    with pytest.raises(InputError, match=r"market\.jsonl.*No such file"):
        corpusfit.choose(first.path, fraction=0.5, machine=inline)
    assert digests(first.path) == before
    assert (first.path / "manifest.json").exists()


def test_a_changed_target_is_named(run, jsonl):
    run()
    jsonl("task.jsonl", prose("kitchen", 30))
    with pytest.raises(ChangedInputError, match=r"task\.jsonl"):
        run()


def test_a_touched_file_is_not_a_change(run, pile):
    before = run()
    os.utime(pile / "market.jsonl", (1, 1))
    assert run().manifest == before.manifest


@pytest.mark.parametrize(
    ("words", "what"),
    [
        ({"unit": "sentence"}, r"cut\.unit\b.*window.*sentence"),
        ({"settings": ["read.shard_mb=0.02"]}, r"read\.shard_mb\b.*0\.01.*0\.02"),
        ({"seed": 1, "fraction": 0.3}, r"choose\.fraction\b.*0\.3.*seed\b.*\b0\b.*\b1\b"),
    ],
)
def test_a_changed_setting_is_named(run, words, what):
    first = run()
    before = digests(first.path)
    with pytest.raises(ChangedInputError) as error:
        run(**words)
    assert re.search(what, str(error.value))
    assert digests(first.path) == before
    fresh = run("fresh", **words)
    assert digests(run(overwrite=True, **words).path) == digests(fresh.path)


def test_the_fitted_scorer_is_kept_and_not_fitted_again(task, pile, tmp_path, inline, monkeypatch):
    words = {"target": task, "corpus": pile, "out": tmp_path / "out", "machine": inline}
    with monkeypatch.context() as broken:
        broken.setattr(ScoreTexts, "start", lambda _: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            corpusfit.select(**words, method="dsir")
    monkeypatch.setattr(Dsir, "fit", lambda *_, **__: 1 / 0)
    done = corpusfit.select(**words, method="dsir")
    scores = done.scorer().score(text_array(["kinase inhibits receptor"]))
    assert scores.dtype == np.float32
    assert scores.shape == (1,)


class Rewriting(Progress):
    """Writes to a file when a stage begins."""

    def __init__(self, stage, file):
        self.stage, self.file = stage, file

    def begin(self, stage, total):
        if stage == self.stage:
            self.file.write_bytes(b'{"text": "x"}\n' + self.file.read_bytes())


@pytest.mark.parametrize("stage", ["sample", "score", "choose", "write"])
def test_an_input_that_is_written_to_meanwhile_is_named(task, pile, tmp_path, inline, stage):
    machine = dataclasses.replace(inline, progress=Rewriting(stage, pile / "market.jsonl"))
    words = {"target": task, "corpus": pile, "out": tmp_path / "out", "method": "dsir"}
    with pytest.raises((ChangedInputError, InputError), match=r"market\.jsonl"):
        corpusfit.select(**words, machine=machine)


def test_a_command_that_failed_early_may_be_mended(task, pile, tmp_path, inline):
    words = {"target": task, "corpus": pile, "out": tmp_path / "out", "machine": inline}
    (tmp_path / "bad.arpa").write_text("nonsense")
    with pytest.raises(ModelError):
        corpusfit.select(
            **words,
            method="moore_lewis",
            settings=[f"method.arpa_{side}={tmp_path}/bad.arpa" for side in ("in", "general")],
        )
    done = corpusfit.select(**words, method="dsir")
    with pytest.raises(UsageError, match="nosuch"):
        corpusfit.select(**words, method="dsir", settings=["read.where=nosuch > 1"], overwrite=True)
    assert corpusfit.select(**words, method="dsir").manifest == done.manifest


def test_an_arpa_file_that_changed_under_its_name_is_noticed(task, pile, tmp_path, inline):
    arpa = tmp_path / "model.arpa"
    lines = (Path(__file__).parents[1] / "golden/kneser_ney/order1.arpa").read_text("utf-8")
    arpa.write_text(lines, "utf-8")
    words = {"target": task, "corpus": pile, "out": tmp_path / "out", "machine": inline}
    both = [f"method.arpa_{side}={arpa}" for side in ("in", "general")]
    words |= {"method": "moore_lewis", "settings": both}
    first = corpusfit.select(**words)
    assert corpusfit.select(**words).manifest == first.manifest
    arpa.write_text(lines.replace("-1.", "-2."), "utf-8")
    with pytest.raises(ChangedInputError, match=r"model\.arpa"):
        corpusfit.select(**words)


def test_a_model_that_changed_under_its_name_is_noticed(run, tiny_static, tmp_path):
    from safetensors.numpy import load_file, save_file

    model = tmp_path / "model"
    shutil.copytree(tiny_static, model)
    words = {"method": "domain_cosine", "embedder": str(model)}
    run(**words)
    weights = load_file(model / "model.safetensors")
    save_file({n: w[:, ::-1].copy() for n, w in weights.items()}, model / "model.safetensors")
    with pytest.raises(ChangedInputError, match="encoder"):
        run(**words)
    again = run(**words, overwrite=True)
    assert again.manifest["encoder"]


@pytest.mark.parametrize(
    ("words", "step"),
    [
        ({"method": "dsir"}, "scoring.require_words"),
        ({"method": "dsir"}, "commands._manifest"),
        ({"method": "dsir"}, "commands._finish"),
        ({"method": "dsir", "segments": 10**6}, "commands.write_selection_card"),
        ({}, "scoring.score_in_rounds"),
    ],
)
def test_a_resumed_run_has_the_warnings_of_what_it_skips(
    jsonl, tmp_path, inline, monkeypatch, words, step
):
    jsonl("task.jsonl", [*prose("task", 9), "In the corpus."])  # fewer than 20 texts
    jsonl("pile.jsonl", ["In the corpus.", *["The same words."] * 40, *prose("market", 30)])

    def run(out):
        return corpusfit.select(
            target=tmp_path / "task.jsonl",
            corpus=tmp_path / "pile.jsonl",
            out=tmp_path / out,
            settings=["cut.pieces=256"],  # rows are one unit each, so most units are copies
            machine=inline,
            **words,
        )

    def stop(*_, **__):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(f"corpusfit.selection.{step}", stop)
        with pytest.raises(KeyboardInterrupt):
            run("stopped")
    whole = run("whole").manifest["warnings"]
    assert len(whole) > 1
    assert run("stopped").manifest["warnings"] == whole
