"""Every command where no extra, or one alone, is installed: it works, or names what is missing.

An environment is imitated in a process of its own: every library is hidden but those that pip
installs with the core and the extra, by the requirements of what is installed here.
"""

import importlib.metadata
import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from journeys import prose, write_rows
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

pytestmark = pytest.mark.slow

PROJECT = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
LONG = ("models", "train")
"""A process each takes a minute; .github/workflows/ci.yml installs every extra by itself."""

HIDE = """
import os, sys
from importlib.machinery import PathFinder

class Finder(PathFinder):
    def find_spec(name, path=None, target=None):
        hidden = name.split(".")[0] in os.environ["HIDDEN"].split()
        return None if hidden else PathFinder.find_spec(name, path, target)

    def find_distributions(*args, **words):  # nor are its entry points seen
        found, hidden = PathFinder.find_distributions(*args, **words), os.environ["HIDDEN"].split()
        return (d for d in found if d.name.replace("-", "_") not in hidden)

sys.meta_path[sys.meta_path.index(PathFinder)] = Finder
"""
"""`sitecustomize.py`, which every process reads first, workers too."""

CHILD = """
import contextlib, io, json, sys
from corpusfit.cli import main

if __name__ == "__main__":  # not in a worker
    for words in json.load(sys.stdin):
        sys.argv, out, err = ["corpusfit", *words], io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            try:
                main()
            except SystemExit as e:
                code = e.code
            except BaseException as e:
                code, _ = repr(e), err.write(repr(e))
        print(json.dumps([code, err.getvalue()]), flush=True)
"""

INLINE = "--engine inline"
SELECT = f"select --target target.jsonl --corpus pile --fraction 0.2 {INLINE} --out"
TRAIN = "--set train.max_steps=1 --length 32 --set mix.heldout=8 --set train.device=cpu"
FINETUNE = "--seeds 1 --epochs 1 --set finetune.device=cpu"

FIRST = f"{SELECT} words --method dsir"  # its folder is that of other lines
FIT = "fit --task task --corpus pile --model lm --out fitted"
LINES = [  # in this order; the extras that a line needs, and what it is
    ((), "methods"),
    ((), "--version"),
    ((), "cache"),
    ((), FIRST),
    ((), f"{SELECT} vectors --method domain_classifier"),
    (("models",), f"{SELECT} by_minilm --method knn --embedder minilm"),
    (("models",), f"{SELECT} network --method knn --embedder lm"),
    (("fasttext",), f"{SELECT} filter --method fasttext:target.jsonl#hq"),
    (("ray",), f"{SELECT} ray --method dsir --engine ray"),
    (("html",), f"{SELECT.replace('pile', 'pages')} of_pages --method dsir"),
    (("hub",), f"select --target target.jsonl --corpus hub:me/none --out hub {INLINE}"),
    (("hub",), f"select --target target.jsonl --corpus hf://datasets/me/a --out hf {INLINE}"),
    ((), f"{SELECT} scored --method moore_lewis"),
    ((), "choose scored --fraction 0.1 --out chosen"),
    ((), "rank --target target.jsonl --corpus pile --method dsir --method isolation_forest"),
    ((), "explain words --text kinase"),
    ((), f"clusters --corpus pile --k 2,3 --out domains {INLINE}"),
    ((), "split --data target.jsonl --dev 10 --test 10 --near --out splits"),
    ((), "contamination --task splits --data words"),
    (("train",), f"adapt --model lm --data words --out adapted {TRAIN}"),
    (("train",), f"adapt --init tiny --data words --out new {TRAIN}"),
    (("train",), f"adapt --model minilm --objective tsdae --data words --out e {TRAIN}"),
    (("models",), f"evaluate --model lm --task task --out scores {FINETUNE}"),
    (("models",), f"evaluate --model minilm --task task --out other {FINETUNE}"),
    (("models",), "evaluate --frozen --model lm --task task --seeds 1 --out frozen"),
    (("train",), FIT),
    (("report",), "report words"),
    ((), "demo"),
]
ELSEWHERE = ("hub", "ray", "demo", FIT)
"""What has tests of its own with the hub, a cluster, or minutes: not run where it would work."""


def installed_with(extras):
    """Names of the distributions that pip installs with the core and some extras."""
    found, todo = set(), [Requirement(r) for r in PROJECT["dependencies"]]
    todo += [Requirement(f"corpusfit[{','.join(extras)}]")] if extras else []
    seen = set()
    while todo:
        wanted = todo.pop()
        name = canonicalize_name(wanted.name)
        if (name, *sorted(wanted.extras)) in seen:
            continue
        seen.add((name, *sorted(wanted.extras)))
        if name == "corpusfit":
            more = [r for e in wanted.extras for r in PROJECT["optional-dependencies"][e]]
            todo += map(Requirement, more)
            continue
        found.add(name)
        for line in importlib.metadata.requires(name) or ():
            needed = Requirement(line)
            asked = [{"extra": extra} for extra in wanted.extras or [""]]
            if needed.marker is None or any(map(needed.marker.evaluate, asked)):
                todo.append(needed)
    return found


def hidden_without(found):
    """Top-level modules of every other distribution."""
    owners = importlib.metadata.packages_distributions().items()
    kept = {*found, "corpusfit", "setuptools", "pip"}
    return sorted(m for m, own in owners if not kept & set(map(canonicalize_name, own)))


@pytest.fixture(scope="module")
def folder(tmp_path_factory, tiny_lm):
    """A folder with all that the lines name."""
    folder = tmp_path_factory.mktemp("extras")
    rows = {topic: prose(topic, 60, most=30) for topic in ("task", "market", "kitchen")}

    for topic, texts in rows.items():
        write_rows(folder / f"pile/{topic}.jsonl", texts)
    (folder / "pages").mkdir()
    for number, text in enumerate(rows["market"]):
        (folder / f"pages/{number}.html").write_text(f"<p>{text}")
    write_rows(folder / "target.jsonl", prose("task", 40, seed=1))
    for split in ("train", "dev", "test"):
        labeled = [(t, topic) for topic in rows for t in prose(topic, 8, seed=split)]
        labeled = [{"text": t, "label": x} for t, x in labeled]
        write_rows(folder / f"task/{split}.jsonl", labeled)
    for side in ("en", "de"):
        (folder / f"{side}.txt").write_text("\n".join(rows["task"]) + "\n")
    (folder / "sitecustomize.py").write_text(HIDE)
    (folder / "child.py").write_text(CHILD)
    (folder / "lm").symlink_to(tiny_lm)
    return folder


@pytest.mark.parametrize(
    "extra",
    [pytest.param("", id="none"), *(pytest.param(e, marks=pytest.mark.long) for e in LONG)],
)
def test_a_command_works_or_names_the_extra_that_is_missing(extra, folder, tmp_path):
    have = installed_with([extra] if extra else [])
    lacking = [{e for e in needs if not installed_with([e]) <= have} for needs, _ in LINES]
    lines = [
        (missing, words)
        for missing, (needs, words) in zip(lacking, LINES, strict=True)
        if missing or extra in needs or not (needs or extra) or words == FIRST  # works: run once
        if missing or not {*needs, words} & {*ELSEWHERE}
        # asks the hub
        if not (re.search("hf://|minilm|_finetune", words) and "huggingface-hub" in have)
    ]
    done = subprocess.run(
        [sys.executable, "child.py"],
        cwd=shutil.copytree(folder, tmp_path / "work", symlinks=True),
        env={
            **os.environ,
            "HIDDEN": " ".join(hidden_without(have)),
            "PYTHONPATH": os.pathsep.join([str(folder), *filter(None, sys.path)]),
            "CORPUSFIT_CACHE": str(tmp_path / "cache"),
            "HF_HUB_OFFLINE": "1",
        },
        input=json.dumps([words.split() for _, words in lines]),
        capture_output=True,
        text=True,
        check=False,
    )
    found = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(found) == len(lines), (done.returncode, done.stderr)
    wrong = [
        (words, missing, code, said)
        for (missing, words), (code, said) in zip(lines, found, strict=True)
        if (code == 0) == bool(missing) or named(said if missing else "") != missing
    ]
    assert not wrong, "\n".join(map(str, wrong))


def named(said):
    """The extras in the command that the last line of a message names."""
    last = (said.strip().splitlines() or [""])[-1]
    return {
        e
        for names in re.findall(r"pip install 'corpusfit\[([\w,]+)\]'", last)
        for e in names.split(",")
    }
