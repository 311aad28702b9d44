"""Every recipe of `examples/papers` passes `corpusfit run --dry-run`, on tiny data and models.

The data sets are in the forms in which the papers' are published; their texts are our own.
"""

from __future__ import annotations

import contextlib
import json
import re
import sqlite3
import tomllib
from pathlib import Path

import pytest
import zstandard

from corpusfit import api
from corpusfit.compose.plan import read_recipe as read_composition
from translating import built

pytest.importorskip("accelerate", reason="the extra train is not installed")
pytest.importorskip("datasets", reason="the extra hub is not installed")
PAPERS = Path(__file__).parents[2] / "examples" / "papers"
RECIPES = sorted(PAPERS.glob("*.toml"))
COMPOSITIONS = sorted(PAPERS.glob("compositions/*.toml"))
DOMAINS = ["it", "law", "medical", "koran", "captions", "news", "subtitles"]
TEXTS = [f"text number {i} about nothing in particular" for i in range(30)]
TAGGED = "colon\tB-X\ncancer\tI-X\nhere\tO\n\n" * 20
PLACES = "".join(f"T{i}\tDISO {18 * i + 10} {18 * i + 17}\tdiabete\n" for i in range(20))
QUAERO = {"a.txt": "un cas de diabete\n" * 20, "a.ann": PLACES}


def rows(path, fields):
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = [json.dumps({k: v[i % len(v)] for k, v in fields.items()}) for i in range(30)]
    path.write_text("\n".join(lines) + "\n", "utf-8")


def write_pairs(folder, *stems):
    """Line-aligned German and English files by their names without suffix."""
    folder.mkdir(parents=True, exist_ok=True)
    for stem in stems:
        lines = [f"Der {i}. Satz handelt von gar nichts Besonderem." for i in range(30)]
        for language, side in (("de", lines), ("en", TEXTS)):
            (folder / f"{stem}.{language}").write_text("\n".join(side) + "\n", "utf-8")


def write_task(path):
    """The data set that a recipe names, by its path."""
    if path.name == "corpus.sqlite3":
        with contextlib.closing(sqlite3.connect(path)) as database:
            database.execute("CREATE TABLE IF NOT EXISTS Articles (ID_Article, Path, Title)")
            topics = ("Sport/Ski", "Wirtschaft", "Kultur")
            some = [(i, f"Newsroom/{topics[i % 3]}", text) for i, text in enumerate(TEXTS)]
            database.executemany("INSERT INTO Articles VALUES (?, ?, ?)", some)
            database.commit()
    elif path.suffix == ".csv":
        header = "" if "phrasebank" in path.name else "text,label\n"
        mark = "," if header else "@"
        lines = [f"{text}{mark}{('good', 'bad')[i % 2]}\n" for i, text in enumerate(TEXTS)]
        path.write_text(header + "".join(lines), "utf-8")
    elif path.name in ("corpus", "bioro"):
        for split in ("train", "dev", "test") if path.name == "corpus" else (".",):
            for name, text in QUAERO.items():
                (path / split).mkdir(parents=True, exist_ok=True)
                (path / split / name).write_text(text, "utf-8")
    else:
        for split in ("train", "dev", "test"):
            if path.parent.name == "ner":
                path.mkdir(parents=True, exist_ok=True)
                (path / f"{split}.conll").write_text(TAGGED, "utf-8")
            else:
                labels = ["a", "b"] if path.name in ("imdb", "sst2") else ["a", "b", "c"]
                rows(path / f"{split}.jsonl", {"text": TEXTS, "label": labels})


@pytest.fixture(scope="module")
def data(tmp_path_factory, word_pieces):
    """All data that the recipes name, and a model that translates."""
    folder = tmp_path_factory.mktemp("data")
    pairs = folder / "pairs"
    write_pairs(pairs / "train", *DOMAINS)
    for name in (*DOMAINS, *(f"kk_{domain}" for domain in DOMAINS)):
        write_pairs(pairs / name, "dev", "test")
    built(pairs / "de-en", word_pieces, "marian", 1)
    for name in (
        "bio_a",
        "bio_asreview",
        "cs_a",
        "finance_a",
        "reviews_a",
        "news_allsides",
        "wiki_en",
    ):
        rows(folder / "pile" / f"{name}.jsonl", {"text": TEXTS})
    news = folder / "pile" / "news_allsides.jsonl"
    news.with_name("news_allsides.jsonl.zst").write_bytes(zstandard.compress(news.read_bytes()))
    languages = ["en", "fr", "de", "zh", "da"]
    fields = {"text": TEXTS, "title": TEXTS}
    for name in ("pile/wiki_en", "pile_multi/wiki_de"):
        rows(folder / f"{name}.jsonl", fields)
        path = folder / f"{name}.jsonl.zst"
        path.write_bytes(zstandard.compress((folder / f"{name}.jsonl").read_bytes()))
    for name in ("biomedical", "financial", "wikipedia"):
        fields = {"text": TEXTS, "language": languages, "title": TEXTS}
        rows(folder / "mdapt" / name / "all.jsonl", fields)
    for recipe in RECIPES:
        for task in tomllib.loads(recipe.read_text("utf-8"))["tasks"]:
            if "path" not in task or task["path"].startswith("${CORPUSFIT_PAIRS}"):
                continue
            path = Path(task["path"].replace("${CORPUSFIT_DATA}", str(folder)))
            path.parent.mkdir(parents=True, exist_ok=True)
            if not path.exists():
                write_task(path)
    return folder


HUB = re.compile(r'"((?:[\w-]+/)?[\w.-]*(?:bert|opus-mt)[\w.-]*)"', re.IGNORECASE)
"""Names of models of a hub in a recipe."""


@pytest.mark.slow
@pytest.mark.parametrize("recipe", RECIPES, ids=lambda path: path.stem)
def test_a_dry_run_counts_the_steps(recipe, data, tiny_lm, tmp_path, monkeypatch, inline):
    """With one tiny model in the place of all, and the packaged one in that of its original."""
    monkeypatch.setenv("CORPUSFIT_DATA", str(data))
    monkeypatch.setenv("CORPUSFIT_MODELS", str(tmp_path))
    monkeypatch.setenv("CORPUSFIT_PAIRS", str(data / "pairs"))
    for model in ("bert-mini-wiki", "finbert-trc2"):
        (tmp_path / model).symlink_to(tiny_lm)
    text = recipe.read_text("utf-8")
    assert tomllib.loads(text)["name"]
    text = HUB.sub(lambda name: f'"{tiny_lm}"', text).replace("static:minilm", "static")
    (tmp_path / "compositions").symlink_to(PAPERS / "compositions")
    path = tmp_path / recipe.name
    path.write_text(text, "utf-8")
    found = api.missing(path, out=tmp_path / "out", machine=inline)
    read = tomllib.loads(text)
    if "separation" in read:
        assert found.steps["measurements"][0] == read["seeds"] * len(found.cells) > 0
        return
    assert found.steps["fine-tunings"][0] > 0
    assert found.steps["adaptations"][0] > 0
    assert {cell["task"] for cell in found.cells} == {task["name"] for task in read["tasks"]}


@pytest.mark.parametrize("recipe", COMPOSITIONS, ids=lambda path: path.stem)
def test_compositions_are_read(recipe, data, monkeypatch):
    """mDAPT: ten million sentences in 8 or 14 languages, smoothed by 0.3."""
    pytest.importorskip("langcodes", reason="the extra languages is not installed")
    monkeypatch.setenv("CORPUSFIT_DATA", str(data))
    plan = read_composition(recipe)
    assert plan.alpha == 0.3
    if recipe.stem.endswith("_cpu"):
        return
    assert plan.budget == 10_000_000
    several = {"biomedical": 8, "financial": 14}[plan.sources[0].name]
    assert len(plan.languages) == (1 if plan.composition == "E_D" else several)
