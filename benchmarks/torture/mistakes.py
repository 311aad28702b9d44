"""Give commands what a user may give them by mistake, and check that they end in a sentence.

A kind is a line of `MISTAKES`. Its command ends with the stated status and a message that names
the mistake, without a traceback, and changes no file but in `--out` and the cache.
"""

from __future__ import annotations

import gzip
import io
import json
import random
import re
import shutil
import zipfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import zstandard

from commands import environment
from forks import Fork
from ledger import Outcome
from promises import listing
from running import drawn, end, whole

AT_ONCE = 10


@dataclass(frozen=True)
class Mistake:
    """A command line with a mistake.

    Attributes:
        words: its arguments, apart by spaces; `{w}` is the folder of inputs.
        status: how it ends; 0 after a warning.
        says: what the message matches.
        files: what is written before, by path in `{w}`; None makes a folder.
    """

    words: str
    status: int
    says: str
    files: dict[str, bytes | None] = field(default_factory=dict)


_TEXTS = [f"shares of the bank sold at a café for {i} pounds" for i in range(30)]
_ROWS = "".join(json.dumps({"text": text}, ensure_ascii=False) + "\n" for text in _TEXTS).encode()
_LABELED = [{"text": text, "label": "ab"[i % 2]} for i, text in enumerate(_TEXTS)]
_SELECT = "select --target {w}/target.jsonl --out {w}/out --no-report"
_WHOLE = f"{_SELECT} --corpus {{w}}/corpus --embedder static"
_ADAPT = "adapt --model {w}/model --data {w}/corpus --out {w}/out --max-steps 2"
_EVALUATE = "evaluate --model {w}/model --out {w}/out --seeds 1 --epochs 1 --length 16"
_RUN = "run {w}/own.toml --out {w}/out"


def _corpus(
    name: str, content: bytes | None, says: str, status: int = 1, more: str = ""
) -> Mistake:
    """A file, or a folder, that is a bad corpus."""
    words = f"{_SELECT} --method random --corpus {{w}}/{name} {more}"
    return Mistake(words, status, says, {name: content})


def _task(says: str, status: int = 1, **splits: list[dict[str, object]]) -> Mistake:
    """A folder that is a bad task; a split that is not given is well."""
    rows = {"train": _LABELED, "dev": _LABELED, "test": _LABELED} | splits
    files: dict[str, bytes | None] = {
        f"task/{name}.jsonl": "".join(json.dumps(row) + "\n" for row in of).encode()
        for name, of in rows.items()
        if of
    }
    return Mistake(f"{_EVALUATE} --task {{w}}/task", status, says, files)


def _recipe(says: str, *changes: tuple[str, str], status: int = 2) -> Mistake:
    """A recipe with some lines changed."""
    text = _OWN
    for old, new in changes:
        if old not in text:
            raise ValueError(f"no {old!r} in the recipe")
        text = text.replace(old, new)
    return Mistake(_RUN, status, says, {"own.toml": text.encode()})


_OWN = """name = "own"
model = "model"
corpus = ["corpus"]
seeds = 1
fractions = [0.3]
selectors = ["base", "dsir"]
adapt = {train = {max_steps = 2}}
[[tasks]]
name = "task"
path = "split"
"""


def _parquet(**columns: list[object]) -> bytes:
    file = io.BytesIO()
    pq.write_table(pa.table(columns), file)
    return file.getvalue()


def _zip() -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("a.jsonl", _ROWS)
    return file.getvalue()


_CSV = "id;text\n" + "".join(f"{i};{text}\n" for i, text in enumerate(_TEXTS))
_NOISE = random.Random(0).randbytes(3000)
MISTAKES = {
    "an empty file": _corpus("a.jsonl", b"", "empty"),
    "empty lines": _corpus("a.jsonl", b"\n\n\n", "empty"),
    "an empty folder": _corpus("folder", None, "folder"),
    "a folder without texts": _corpus("folder/notes.rst", b"notes", r"folder|\.rst"),
    "no such file": Mistake(f"{_SELECT} --corpus {{w}}/missing.jsonl", 1, "missing"),
    "another field": _corpus("a.jsonl", _ROWS.replace(b'"text"', b'"body"'), "body"),
    "numbers as text": _corpus("a.jsonl", b'{"text": 5}\n' * 9, "string"),
    "NaN as text": _corpus("a.jsonl", b'{"text": NaN}\n' * 9, "JSON|string"),
    "lists as text": _corpus("a.jsonl", b'{"text": ["a"]}\n' * 9, "string"),
    "single quotes": _corpus("a.jsonl", b"{'text': 'a'}\n" * 9, "JSON"),
    "a JSON list": _corpus("a.json", json.dumps(_LABELED).encode(), "json.load"),
    "plain text as JSON": _corpus("a.jsonl", "\n".join(_TEXTS).encode(), "JSON"),
    "bytes as text": _corpus("a.txt", _NOISE, "UTF-8"),
    "bytes as JSON": _corpus("a.jsonl", _NOISE, "UTF-8|JSON"),
    "an image": _corpus("a.png", b"\x89PNG\r\n\x1a\n" + _NOISE, r"\.png|format|read"),
    "Latin-1": _corpus("a.txt", "\n\n".join(_TEXTS).encode("latin-1"), "iconv"),
    "UTF-16": _corpus("a.jsonl", _ROWS.decode().encode("utf-16"), "UTF-16"),
    "UTF-16 CSV": _corpus("a.csv", _CSV.encode("utf-16"), "UTF-16"),
    "gzip without its ending": _corpus("a.jsonl", gzip.compress(_ROWS), "gz"),
    "an ending without gzip": _corpus("a.jsonl.gz", _ROWS, "gz"),
    "zstd named gzip": _corpus("a.jsonl.gz", zstandard.compress(_ROWS), "zst"),
    "torn gzip": _corpus("a.jsonl.gz", gzip.compress(_NOISE)[:900], "archive|gz|cut|trunc"),
    "torn zstd": _corpus("a.jsonl.zst", zstandard.compress(_ROWS)[:20], "archive|zst|cut|trunc"),
    "torn Parquet": _corpus("a.parquet", _parquet(text=_TEXTS)[:300], "Parquet|parquet"),
    "Parquet without texts": _corpus("a.parquet", _parquet(body=_TEXTS), "body"),
    "Parquet without rows": _corpus("a.parquet", _parquet(text=pa.array([], "string")), "empty"),
    "Parquet of numbers": _corpus("a.parquet", _parquet(text=list(range(30))), "text|string"),
    "semicolons": _corpus("a.csv", _CSV.encode(), "separator"),
    "tabs": _corpus("a.csv", _CSV.replace(";", "\t").encode(), "separator|tsv"),
    "a CSV of one header": _corpus("a.csv", b"id,text\n", "empty|rows"),
    "an open quote": _corpus("a.csv", b'text\n"' + "\n".join(_TEXTS).encode(), "quote|rejected"),
    "a zip": _corpus("a.zip", _zip(), "zip"),
    "a spreadsheet": _corpus("a.xlsx", _zip(), "xlsx"),
    "a document": _corpus("a.docx", _zip(), "pandoc"),
    "a PDF": _corpus("a.pdf", b"%PDF-1.4\n", "pdftotext"),
    "a database": _corpus("a.sqlite", b"SQLite format 3\0", "sqlite3"),
    "a template without its field": _corpus("a.jsonl", _ROWS, "x", 1, "--text-field {{x}}-{{y}}"),
    "a pair of other lengths": Mistake(
        f"{_SELECT} --method random --corpus pair:{{w}}/a.de,{{w}}/a.en", 1, "lines",
        {"a.de": b"eins\nzwei\n", "a.en": b"one\n"},
    ),
    "half a pair": Mistake(f"{_SELECT} --method random --corpus pair:{{w}}/a", 2, "pair"),
    "the target as corpus": Mistake(
        f"{_SELECT} --method random --corpus {{w}}/target.jsonl", 0, "target"
    ),
    "a target of one text": Mistake(
        "select --target {w}/a.txt --corpus {w}/corpus --out {w}/out --method dsir --no-report",
        0, "target", {"a.txt": b"one text"},
    ),
    "an empty target": Mistake(
        "select --target {w}/a.txt --corpus {w}/corpus --out {w}/out", 1, "empty", {"a.txt": b""}
    ),
    "nothing on standard input": Mistake(f"{_SELECT} --method random --corpus -", 1, "empty"),
    "standard input twice": Mistake("select --target - --corpus - --out {w}/out", 1, "standard"),
    "an unknown command": Mistake("selct", 2, "selct"),
    "an unknown option": Mistake(f"{_WHOLE} --fractoin 0.1", 2, "fractoin"),
    "an option without its value": Mistake(f"{_WHOLE} --fraction", 2, "fraction"),
    "a missing option": Mistake("select --target {w}/target.jsonl --out {w}/out", 2, "--corpus"),
    "an unknown method": Mistake(f"{_WHOLE} --method dsri", 2, "dsir"),
    "an unknown setting": Mistake(f"{_WHOLE} --set choose.fractoin=1", 2, "fraction"),
    "a setting of no group": Mistake(f"{_WHOLE} --set fraction=1", 2, "fraction"),
    "a setting without its value": Mistake(f"{_WHOLE} --set choose.fraction", 2, "KEY=VALUE|="),
    "a word for a number": Mistake(f"{_WHOLE} --fraction tenth", 2, "tenth"),
    "a fraction above one": Mistake(f"{_WHOLE} --fraction 10", 2, "--fraction 0.2"),
    "NaN as fraction": Mistake(f"{_WHOLE} --fraction nan", 2, "fraction"),
    "tokens below zero": Mistake(f"{_WHOLE} --tokens -5", 2, "tokens"),
    "two amounts": Mistake(f"{_WHOLE} --tokens 5 --fraction 0.1", 2, "--tokens"),
    "no workers": Mistake(f"{_WHOLE} --workers 0", 2, "workers"),
    "a word for a seed": Mistake(f"{_WHOLE} --seed one", 2, "seed"),
    "a seed below zero": Mistake(f"{_WHOLE} --seed -1", 2, "seed"),
    "an unknown engine": Mistake(f"{_WHOLE} --engine spark", 2, "ray"),
    "an unknown encoder": Mistake(f"{_WHOLE} --embedder minilmm", 1, "minilm"),
    "an encoder without files": Mistake(
        f"{_WHOLE} --method knn --embedder {{w}}/folder", 1, "folder", {"folder": None}
    ),
    "a cascade, which is gone": Mistake(f"{_WHOLE} --cascade dsir>knn", 2, "run:OUT"),
    "a balance of nothing": Mistake(f"{_WHOLE} --balance cluster", 2, "--clusters"),
    "clusters that are none": Mistake(
        f"{_WHOLE} --balance cluster --clusters {{w}}/split", 1, "split"
    ),
    "a plan that is missing": Mistake(f"{_WHOLE} --plan {{w}}/plan.toml", 2, "plan.toml"),
    "a plan that is no TOML": Mistake(
        f"{_WHOLE} --plan {{w}}/plan.toml", 2, "plan.toml", {"plan.toml": b"fraction: 0.1\n"}
    ),
    "a plan of unknown settings": Mistake(
        f"{_WHOLE} --plan {{w}}/plan.toml", 2, "fractoin", {"plan.toml": b"[choose]\nfractoin=1\n"}
    ),
    "a file as --out": Mistake(f"{_WHOLE} --out {{w}}/target.jsonl", 2, "target.jsonl"),
    "a folder of something else as --out": Mistake(f"{_WHOLE} --out {{w}}/split", 2, "split"),
    "another command's --out": Mistake(
        "split --data {w}/labeled.jsonl --dev 5 --test 5 --out {w}/run", 2, "another command"
    ),
    "another run's --out": Mistake(f"{_WHOLE} --method tfidf --out {{w}}/run", 1, "--overwrite"),
    "a file as --cache": Mistake(f"{_WHOLE} --cache {{w}}/target.jsonl", 2, "target.jsonl"),
    "choose from nothing": Mistake("choose {w}/split --fraction 0.1", 1, "split"),
    "explain an empty text": Mistake("explain {w}/run --text=", 2, "text"),
    "explain a row that is not there": Mistake("explain {w}/run --row a.jsonl:9", 2, "a.jsonl"),
    "audit an unknown domain": Mistake("audit {w}/run --domain x*", 2, "x"),
    "report nothing": Mistake("report {w}/split --out {w}/out.html", 1, "split"),
    "a folder as a report's file": Mistake("report {w}/run --out {w}/split", 1, "directory"),
    "no clusters": Mistake("clusters --corpus {w}/corpus --k 0 --out {w}/out", 2, "--k"),
    "more clusters than texts": Mistake(
        "clusters --corpus {w}/target.jsonl --k 900 --embedder static --out {w}/out", 2, "--k"
    ),
    "more held out than there is": Mistake(
        "split --data {w}/labeled.jsonl --dev 900 --test 900 --out {w}/out", 2, "120 rows"
    ),
    "an unknown composition": Mistake(
        "compose {w}/own.toml --out {w}/out", 2, "composition",
        {"own.toml": b'composition = "X"\nbudget = 10\n'},
    ),
    "a composition without sources": Mistake(
        "compose {w}/own.toml --out {w}/out", 2, "sources",
        {"own.toml": b'composition = "E_D"\nbudget = 10\n'},
    ),
    "a model without weights": Mistake(
        f"{_ADAPT} --model {{w}}/bare", 1, "bare", {"bare/config.json": b'{"model_type": "bert"}'}
    ),
    "a model of no files": Mistake(f"{_ADAPT} --model {{w}}/bare", 1, "bare", {"bare": None}),
    "a file as a model": Mistake(f"{_ADAPT} --model {{w}}/target.jsonl", 2, "name its folder"),
    "torn weights": Mistake(
        f"{_ADAPT} --model {{w}}/torn", 1, "torn",
        {"torn/config.json": b'{"model_type": "bert"}', "torn/model.safetensors": b"\0" * 20},
    ),
    "no steps": Mistake(f"{_ADAPT} --max-steps 0", 2, "max_steps"),
    "a rate below zero": Mistake(f"{_ADAPT} --learning-rate -1", 2, "learning_rate"),
    "a length beyond the model's": Mistake(f"{_ADAPT} --length 100000", 2, "length"),
    "an unknown objective": Mistake(f"{_ADAPT} --objective mml", 2, "mlm"),
    "nothing to train on": Mistake(
        "adapt --model {w}/model --data {w}/a.txt --out {w}/out", 1, "empty", {"a.txt": b""}
    ),
    "no labels": _task("label", train=[{"text": "a"}] * 9),
    "one label": _task("label", **dict.fromkeys(("train", "dev", "test"), [_LABELED[0]] * 9)),
    "NaN as labels": _task("label", train=[{"text": "a", "label": float("nan")}] * 9),
    "lists as labels": _task("label", train=[{"text": "a", "label": ["a", {}]}] * 9),
    "a label of the test only": _task("label", 0, test=[{"text": "a", "label": "c"}] * 9),
    "no training split": _task("train", train=[]),
    "no test split": _task("No test split", 0, test=[]),
    "no task": Mistake(f"{_EVALUATE} --task {{w}}/missing", 1, "missing"),
    "an unknown kind of task": Mistake(f"{_EVALUATE} --task {{w}}/split --kind x", 2, "kind"),
    "an unknown metric": Mistake(f"{_EVALUATE} --task {{w}}/split --metric f2", 2, "f2"),
    "an unknown key of a recipe": _recipe("sedes", ("seeds", "sedes")),
    "a recipe that is no TOML": _recipe("own.toml", ("seeds = 1", "seeds: 1")),
    "a recipe without tasks": _recipe("tasks", (_OWN[_OWN.index("[[") :], "")),
    "an unknown selector": _recipe("dsri", ('"dsir"', '"dsri"')),
    "a number as text in a recipe": _recipe("seeds", ("seeds = 1", 'seeds = "1"')),
    "a recipe's task that is missing": _recipe("nowhere", ('"split"', '"nowhere"'), status=1),
    "two tasks of one name": _recipe("task", ("[[tasks]]", _OWN[_OWN.index("[[") :] + "[[tasks]]")),
    "no recipe": Mistake("run {w}/missing.toml --out {w}/out", 2, "missing.toml"),
    "pairs that are missing": Mistake(
        "retrieval --model static --pairs {w}/news.de-en", 2, "news.de-en"
    ),
    "a forecast of no selection": Mistake(
        "forecast --data {w}/split --model {w}/model", 2, "split"
    ),
    "a tokenizer without files": Mistake(
        "tokenizers --tokenizer {w}/folder --specific {w}/target.jsonl --general {w}/corpus",
        1, "folder", {"folder": None},
    ),
    "a method's settings without a method": Mistake("methods dsri", 2, "dsir"),
    "what a cache does not do": Mistake("cache clean", 2, "clean|clear"),
}  # fmt: skip
"""Kinds of mistakes, in words."""


def mistake(seed: int, root: Path, only: str | None) -> Outcome:
    """A case: `AT_ONCE` kinds of mistakes, in the order of the table.

    Args:
        seed: which ones.
        root: folder with `base/model`.
        only: name of a kind, instead of those of the seed.
    """
    names = list(MISTAKES)
    first = seed * AT_ONCE
    some = [only] if only else [names[i % len(names)] for i in range(first, first + AT_ONCE)]
    _, world = drawn(0, random.Random(0), root, "dsir", 1)
    whole(world, "dsir")
    outcome = Outcome(Counter(mistakes=len(some)), only or "kinds in turn")
    for name in some:
        here = root / "mistaken"
        shutil.rmtree(here, ignore_errors=True)
        inner = shutil.ignore_patterns("whole", "cache")
        shutil.copytree(world, here, symlinks=True, ignore=inner)
        shutil.copytree(world / "whole/dsir", here / "run")
        outcome.broken += [f"{name}: {fault}" for fault in _faults(MISTAKES[name], here)]
    return outcome


def _faults(given: Mistake, here: Path) -> Iterator[str]:
    for name, content in given.files.items():
        path = here / name if content is None else (here / name).parent
        path.mkdir(parents=True, exist_ok=True)
        if content is not None:
            (here / name).write_bytes(content)
    own = {name: here / name for name in ("cache", "home", "tmp", "out")}
    for folder in ("home", "tmp"):
        own[folder].mkdir()
    before = listing(here, (own["cache"], own["tmp"]))
    variables = {
        "CORPUSFIT_CACHE": own["cache"], "XDG_CACHE_HOME": own["cache"], "HOME": own["home"],
        "TMPDIR": own["tmp"],
    }  # fmt: skip
    words = [word.format(w=here) for word in given.words.split()]
    used = {name: str(folder) for name, folder in variables.items()}
    code, said, _ = end(Fork(words, {**environment(), **used}, here / "tmp/said"))
    message = said[max(said.find("Error: "), said.find("Warning: "), 0) :]
    if code != given.status:
        yield f"it ends with {code}, not {given.status}: {said[-300:]}"
    if "Traceback" in said or "nternal error" in said:
        yield f"a traceback: {said[-600:]}"
    elif not re.search(given.says, message) or not message.startswith(("Error: ", "Warning: ")):
        yield f"no message of {given.says}: {said[-300:]}"
    after = listing(here, (own["cache"], own["tmp"], own["out"]))
    changed = sorted(name for name in before | after if before.get(name) != after.get(name))
    changed = [name for name in changed if not name.endswith(".corpusfit/lock")]
    if changed:
        yield f"it changes {', '.join(changed)}"
