"""Each archive of a paper, in its published layout with texts of our own, by what its docs say.

The block of papers/docs/paper-data.md is typed where the archive was unpacked; then the `paper`
recipe reads the task, with the lines of TOML that stand below the block.
"""

import dataclasses
import json
import os
import re
import shutil
import sqlite3
import subprocess
import sys
import tomllib
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from corpusfit import text as corpora
from corpusfit.core.errors import InputError
from corpusfit.core.plan import ReadPlan
from corpusfit.evaluation.reading import read_task
from corpusfit_papers.experiments.grid import task_plan
from corpusfit_papers.experiments.loader import read_recipe

ROOT = Path(__file__).parents[3]
SPLITS = ("train", "dev", "test")
DOCS = (ROOT / "papers" / "docs" / "paper-data.md").read_text("utf-8")
SECTIONS = dict(re.findall(r"^### (.+?)\n(.*?)(?=^##|\Z)", DOCS, re.DOTALL | re.MULTILINE))

NORMALIZING = re.search(
    r"```bash\n([^`]+sacremoses [^`]+)```",
    (ROOT / "papers" / "recipes" / "README.md").read_text("utf-8"),
)[1]
"""What papers/recipes/README.md does to the pairs of the `paper` recipes."""


@pytest.fixture
def put(tmp_path):
    """Write a file of an archive."""

    def put(name, text, encoding="utf-8"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode(encoding))

    return put


@pytest.fixture
def typed(tmp_path, monkeypatch):
    """Type the block of a section; returns the completed process."""
    for name in ("DATA", "MODELS", "PAIRS"):
        monkeypatch.setenv(f"CORPUSFIT_{name}", str(tmp_path / name.lower()))
    for folder in ("tasks", "ner"):
        (tmp_path / "data" / folder).mkdir(parents=True)
    (tmp_path / "papers").symlink_to(ROOT / "papers")

    def typed(section, change=str):
        block = re.search(r"```bash\n(.+?)```", SECTIONS[section], re.DOTALL)[1]
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        return subprocess.run(
            ["bash", "-euo", "pipefail", "-c", change(block)],
            cwd=tmp_path,
            env=os.environ | {"PATH": path},
            capture_output=True,
            text=True,
            check=False,
        )

    return typed


@pytest.fixture
def read(typed, task_of):
    """The task of a recipe, after the block of its section and with the section's lines."""

    def read(section, recipe, name):
        done = typed(section)
        assert not done.returncode, done.stderr
        return task_of(section, recipe, name)

    return read


@pytest.fixture
def task_of():
    """The task of a recipe with the lines of its section."""

    def task_of(section, recipe, name):
        found = read_recipe(ROOT / "papers" / "recipes" / f"{recipe}_paper.toml")
        entry = found.task(name)
        plan = task_plan(found, entry).task
        if lines := re.search(r"```toml\n(.+?)```", SECTIONS[section], re.DOTALL):
            settings = tomllib.loads(lines[1])["tasks"]["evaluate"]["task"]
            plan = dataclasses.replace(plan, **settings)
        return read_task(entry.path, plan, seed=found.seed)

    return task_of


def sizes(task):
    return [len(getattr(task, split)) for split in SPLITS]


def rows(task, split):
    examples = getattr(task, split)
    return [
        (task.labels[label], text)
        for (text,), (label,) in zip(examples.pieces, examples.labels, strict=True)
    ]


def words(task, split):
    examples = getattr(task, split)
    return [
        " ".join(f"{w}/{task.labels[n]}" if n else w for w, n in zip(words, labels, strict=True))
        for words, labels in zip(examples.pieces, examples.labels, strict=True)
    ]


@pytest.mark.parametrize(
    "recipe", ["tadpole_table6", "tadpole_learning_curve", "dana_continuous", "textgram_table3"]
)
def test_imdb(put, read, recipe):
    """A dev of a fifth, as 5,000 of 25,000 in TADPOLE's Table 2."""
    for split in ("train", "test"):
        for name in ("neg", "pos", *(["unsup"] if split == "train" else [])):
            for i in range(5):
                put(f"aclImdb/{split}/{name}/{i}_7.txt", f"{split} {name} {i}<br />\n")
            put(f"aclImdb/{split}/urls_{name}.txt", "an address\n")
    put("aclImdb/README", "Large Movie Review Dataset v1.0\n")
    task = read("IMDB", recipe, "imdb")
    assert sizes(task) == [8, 2, 10]
    assert rows(task, "test") == [
        (name, f"test {name} {i}<br />") for name in ("neg", "pos") for i in range(5)
    ]


def articles(put, ids, labeled):
    put(
        "articles-training-byarticle-20181122.xml",
        '<?xml version="1.0" encoding="UTF-8"?>\n<articles>\n'
        + "".join(
            f'<article id="{i:07}" published-at="2017-09-10" title="T {i}">\n'
            f'<p>On &#160;<a href="x" type="external">page</a> {i} &amp; so.</p>\n\n<p>End.</p>\n'
            "</article>\n"
            for i in ids
        )
        + "</articles>\n",
    )
    put(
        "ground-truth-training-byarticle-20181122.xml",
        "<articles>\n"
        + "".join(
            f'<article hyperpartisan="{"true" if i % 2 else "false"}" id="{i:07}" '
            'labeled-by="article" url="u"/>\n'
            for i in labeled
        )
        + "</articles>\n",
    )
    put("hp-splits.json", json.dumps({"train": [3, 4, 1, 6], "dev": [2, 7], "test": [4, 7]}))


def test_hyperpartisan(put, read):
    """Texts and labels joined by id; as published, train and dev list articles of test, too."""
    articles(put, range(8), range(7, -1, -1))
    task = read("Hyperpartisan", "tadpole_table3", "hyperpartisan")
    for split, ids in (("train", (3, 5, 1, 6)), ("dev", (2, 0)), ("test", (4, 7))):
        assert rows(task, split) == [
            (str(i % 2 == 1).lower(), f"On page {i} & so.\nEnd.") for i in ids
        ]


ARTICLES = "articles-training-byarticle-20181122.xml"
LABELS = "ground-truth-training-byarticle-20181122.xml"


def cut(path):
    path.write_text(path.read_text()[:300])


def in_another_encoding(path):
    path.write_bytes(path.read_text().replace("T 1", "T \u00e9").encode("latin-1"))


def twice(path):
    path.write_text(path.read_text().replace('id="0000003"', 'id="0000002"'))


@pytest.mark.parametrize(
    ("ids", "labeled", "name", "change", "says"),
    [
        (range(7), range(8), "", None, "lacks 1 of"),
        (range(8), range(3), "", None, "lacks 4 of"),
        (range(99), range(99), "", None, "99 articles where the split has 8"),
        (range(8), range(8), ARTICLES, cut, "unpack its .zip again"),
        (range(8), range(8), ARTICLES, in_another_encoding, "unpack its .zip again"),
        (range(8), range(8), ARTICLES, twice, "unpack its .zip again"),
        (range(8), range(8), LABELS, lambda path: path.unlink(), "is not a file"),
        (range(8), range(8), LABELS, lambda path: path.write_text("PK"), "unpack its .zip"),
        (range(8), range(8), LABELS, lambda p: shutil.copy(p.with_name(ARTICLES), p), "no labels"),
        (range(8), range(8), "hp-splits.json", lambda p: p.write_text("<html>"), "the raw file"),
    ],
)
def test_hyperpartisan_that_is_not_whole(put, typed, tmp_path, ids, labeled, name, change, says):
    articles(put, ids, labeled)
    if change:
        change(tmp_path / name)
    done = typed("Hyperpartisan")
    assert done.returncode
    assert says in done.stderr
    assert not (tmp_path / "data/tasks/hyperpartisan").exists()


SCIBERT = {
    "chemprot": "chemprot",
    "acl_arc": "citation_intent",
    "scierc": "sciie-relation-extraction",
}


@pytest.mark.parametrize("name", SCIBERT)
def test_scibert(put, read, name):
    for folder in (*SCIBERT.values(), "sci-cite"):
        for split in SPLITS:
            lines = (
                json.dumps({"text": f"{folder} [[ {i} ]]", "label": "AB"[i % 2], "metadata": []})
                for i in range(4)
            )
            put(f"data/text_classification/{folder}/{split}.txt", "\n".join(lines) + "\n")
    task = read("ChemProt, ACL-ARC, SciERC", "tadpole_table3", name)
    assert rows(task, "test")[:2] == [
        ("A", f"{SCIBERT[name]} [[ 0 ]]"),
        ("B", f"{SCIBERT[name]} [[ 1 ]]"),
    ]
    assert sizes(task) == [4, 4, 4]


def test_wikipedia_of_the_hub(put, typed, tmp_path):
    """Four of ten files, from all parts, are what the recipe reads."""
    for i in range(10):
        path = tmp_path / f"20231101.en/train-0000{i}-of-00010.parquet"
        path.parent.mkdir(exist_ok=True)
        row = {"id": [str(i)], "url": ["u"], "title": ["T"], "text": [f"Article {i}."]}
        pq.write_table(pa.table(row), path)
    done = typed("Wikipedia")
    assert not done.returncode, done.stderr
    recipe = read_recipe(ROOT / "papers" / "recipes" / "tadpole_table3_paper.toml")
    plan = ReadPlan()
    found = corpora.find(recipe.corpus, plan, role="corpus")
    texts = [row.text for shard in corpora.shards(found, plan) for row in corpora.rows(shard, plan)]
    assert texts == [f"Article {i}." for i in (0, 2, 5, 7)]


def test_ag_news(put, read):
    """A 24th of train as dev, as 5,000 of 120,000 in TADPOLE's Table 2."""
    for split, n in (("train", 96), ("test", 4)):
        lines = (f'"{i % 4 + 1}","Title {i}","AP - ""{split}""\\ {i}"\n' for i in range(n))
        put(f"ag_news_csv/{split}.csv", "".join(lines))
    put("ag_news_csv/classes.txt", "World\nSports\nBusiness\nSci/Tech\n")
    put("ag_news_csv/readme.txt", "AG's News Topic Classification Dataset\n")
    task = read("AG News", "tadpole_table6", "ag_news")
    assert sizes(task) == [92, 4, 4]
    assert rows(task, "test")[1] == ("2", 'Title 1 AP - "test"\\ 1')


def test_ag_news_in_another_encoding(put, read):
    """The rows that are lost are counted, with the command that converts the file."""
    for split in ("train", "test"):
        lines = (f'"{i % 4 + 1}","Title {i}","{"é" * (i == 2)}"\n' for i in range(48))
        put(f"ag_news_csv/{split}.csv", "".join(lines), "latin-1")
    task = read("AG News", "tadpole_table6", "ag_news")
    lost = [note for note in task.notes if note.startswith("1 of 48 rows")]
    assert ["iconv" in note for note in lost] == [True, True]


def test_sst2(put, read):
    for split in ("train", "dev"):
        lines = (f'"a {split} film {i} \t{i % 2}\n' for i in range(10))
        put(f"SST-2/{split}.tsv", "sentence\tlabel\n" + "".join(lines))
    put("SST-2/test.tsv", "index\tsentence\n0\ta film\n")
    put("SST-2/original/README.txt", "Stanford Sentiment Treebank V1.0\n")
    put("SST-2/original/original_rt_snippets.txt", "The Rock\n")
    task = read("SST-2", "tadpole_table6", "sst2")
    assert sizes(task) == [9, 1, 10]
    assert rows(task, "test")[1] == ("1", '"a dev film 1 ')


def test_rct20k(put, read):
    for split in SPLITS:
        put(
            f"PubMed_20k_RCT/{split}.txt",
            f'###24293578\nOBJECTIVE\tTo ask, of {split} .\nRESULTS\tA "good" one, "yes" .\n\n'
            f"###24854809\nOBJECTIVE\tOnce more .\n",
        )
    task = read("RCT-20k", "tadpole_table6", "rct20k")
    assert rows(task, "test") == [
        ("OBJECTIVE", "To ask, of test ."),
        ("RESULTS", 'A "good" one, "yes" .'),
        ("OBJECTIVE", "Once more ."),
    ]
    assert sizes(task) == [3, 3, 3]


@pytest.mark.parametrize("higher", [False, True])
def test_quaero(put, read, tmp_path, higher):
    for split in SPLITS:
        for source in ("EMEA", "MEDLINE"):
            put(f"QUAERO_FrenchMed/corpus/{split}/{source}/1.txt", f"insuline {split}\n")
            put(f"QUAERO_FrenchMed/corpus/{split}/{source}/1.ann", "T1\tCHEM 0 8\tinsuline\n")
    task = read("QUAERO", "mdapt_table4", "quaero")
    if higher:
        task = read_task(str(tmp_path / "data/ner/QUAERO_FrenchMed"), read_plan(), seed=0)
    assert words(task, "test") == ["insuline/B-CHEM test"] * 2


def read_plan():
    found = read_recipe(ROOT / "papers" / "recipes" / "mdapt_table4_paper.toml")
    return task_plan(found, found.task("quaero")).task


def test_pharmaconer(put, read):
    for split in SPLITS:
        inner = f"pharmaconer/{split}-set_1.1/{split}"
        put(f"{inner}/subtrack1/S0004.txt", f"Con atenolol {split}.\n")
        put(f"{inner}/subtrack1/S0004.ann", "T1\tNORMALIZABLES 4 12\tatenolol\n")
        put(f"{inner}/subtrack2/S0004.tsv", "S0004\t387506000\n")
    task = read("PharmaCoNER", "mdapt_table4", "pharmaconer")
    assert [words(task, split) for split in SPLITS] == [
        [f"Con atenolol/B-NORMALIZABLES {split} ."] for split in SPLITS
    ]


def test_pharmaconer_of_which_a_folder_is_too_many(put, read):
    test_split = "pharmaconer/test-set_1.1/test/subtrack1/S0004"
    for name in (test_split, test_split.replace("test", "train")):
        put(f"{name}.txt", "Con atenolol.\n")
        put(f"{name}.ann", "T1\tNORMALIZABLES 4 12\tatenolol\n")
    put("pharmaconer/test-background-set/S1.txt", "Un texto.\n")
    with pytest.raises(InputError, match=r"test-background-set, test-set_1\.1"):
        read("PharmaCoNER", "mdapt_table4", "pharmaconer")


def test_ncbi_disease(put, read):
    for split in ("train", "train_dev", "devel", "test"):
        put(f"NCBI-disease/{split}.tsv", f"Colon\tB\ncancer\tI\n{split}\tO\n\n")
    task = read("NCBI disease", "mdapt_table4", "ncbi_disease")
    assert words(task, "dev") == ["Colon/B-_ cancer/I-_ devel"]
    assert sizes(task) == [1, 1, 1]


def test_clinpt(put, typed, task_of):
    """A sheet a text, volume 2 as train; sheets of another format stand for those of Excel."""
    for volume, sheets in ((2, 6), (1, 2)):
        for i in range(sheets):
            rows = f"Rapaz,prop,rapaz,O\n19,num,19,B-DT\n.,punc,.,O\n{volume},num,2,I-DT\n"
            put(f"Texts SPN {volume} Labeled English/Texto {i} pag 8.xlsx", rows)
    done = typed("clinpt", lambda block: re.sub("pip.*", "", block).replace("excel", "csv"))
    assert not done.returncode, done.stderr
    task = task_of("clinpt", "mdapt_table4", "clinpt")
    assert sizes(task) == [9, 3, 4]
    assert words(task, "test") == ["Rapaz 19/B-DT .", "1/B-DT"] * 2


def test_financial_phrasebank(put, read):
    lines = (f"Café, {i} EUR@{('positive', 'neutral')[i % 2]}\n" for i in range(25))
    put("Sentences_50Agree.txt", "".join(lines), "latin-1")
    task = read("Financial PhraseBank", "mdapt_table4", "financial_phrasebank")
    assert sizes(task) == [16, 4, 5]
    kinds = [(int(text.split()[1]) % 2, label) for label, text in rows(task, "train")]
    assert {*kinds} == {(0, "positive"), (1, "neutral")}
    assert all(text.startswith("Café, ") for _, text in rows(task, "test"))


PATHS = (
    ("Newsroom/Wirtschaft/Unternehmen", 'Bank, "gross"'),
    ("Newsroom/Sport/Fussball", "Tor"),
    ("Newsroom/Kultur", "Oper"),
    ("Newsroom/User/Blog", "Meinung"),
    ("Meinung/Kommentare", "Kommentar"),
)


@pytest.mark.parametrize(
    ("name", "labels"),
    [("omp-2", ("financial", "other")), ("omp-9", ("Kultur", "Sport", "Wirtschaft"))],
)
def test_one_million_posts(read, tmp_path, name, labels):
    """Titles of the newsroom, without those of users."""
    if not shutil.which("sqlite3"):
        pytest.skip("the program sqlite3 is not installed")
    with sqlite3.connect(tmp_path / "corpus.sqlite3") as database:
        database.execute(
            "CREATE TABLE Articles (ID_Article INTEGER PRIMARY KEY, Path TEXT, "
            "publishingDate TIMESTAMP, Title TEXT NOT NULL, Body TEXT)"
        )
        articles = [(path, f"{title} {i}") for i in range(10) for path, title in PATHS]
        database.executemany("INSERT INTO Articles (Path, Title) VALUES (?, ?)", articles)
    task = read("One Million Posts", "mdapt_table4", name)
    assert task.labels == labels
    assert sum(sizes(task)) == 30
    label = labels[0] if name == "omp-2" else "Wirtschaft"
    titles = [text for split in SPLITS for kind, text in rows(task, split) if kind == label]
    assert sorted(titles) == [f'Bank, "gross" {i}' for i in range(10)]


def test_subtitles_of_opus(put, typed, tmp_path):
    """One translation of each text, a number of pairs at random, both sides in one order."""
    pairs = [(f"Satz {i}", f"line {i}") for i in range(40)]
    again = [("Satz 1", "line x"), ("Satz y", "line 2"), *pairs[:3]]
    for side, language in enumerate(("de", "en")):
        lines = (f"{pair[side]}\n" for pair in [*pairs, *again])
        put(f"all/subtitles.{language}", "".join(lines))
    done = typed("Subtitles of OPUS", lambda block: block.replace("500000", "25"))
    assert not done.returncode, done.stderr
    sides = [
        (tmp_path / f"all/subtitles.{language}").read_text("utf-8").splitlines()
        for language in ("de", "en")
    ]
    taken = [*zip(*sides, strict=True)]
    assert len({*taken}) == 25
    assert {*taken} < {*pairs}


def test_the_split_of_domain_clusters(put, typed, tmp_path, monkeypatch):
    """Then punctuation is normalized in all files, and long pairs are left out of train."""
    domains = ["it", "koran", "law", "medical", "subtitles"]
    for domain in domains:
        for split in SPLITS:
            for language in ("de", "en"):
                put(f"{domain}/{split}.{language}", f"{domain} {split} {language}\n")
    put("koran/train.de", f"„kurz“\n{'lang ' * 101}\n„auch“\n")
    put("koran/train.en", f"short\nlong\n{'too ' * 101}\n")
    put("bin/sacremoses", "#!/bin/bash\nsed 's/[„“]/\"/g'\n")
    (tmp_path / "bin/sacremoses").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:{os.environ['PATH']}")
    put("it/dev.de", "„Text“\n")

    done = typed("The paper's split")
    assert not done.returncode, done.stderr
    done = typed("The paper's split", lambda _: NORMALIZING)
    assert not done.returncode, done.stderr

    assert (tmp_path / "it/dev.de").read_text() == '"Text"\n'
    assert (tmp_path / "train/koran.de").read_text() == '"kurz"\n'
    assert (tmp_path / "train/koran.en").read_text() == "short\n"
    domains.remove("koran")
    for domain in domains:
        assert (tmp_path / f"train/{domain}.en").read_text() == f"{domain} train en\n"
        assert not (tmp_path / domain / "train.en").exists()
