"""Every recipe of `papers/recipes` passes `corpusfit run --dry-run`, and each `paper` one runs.

So does each command of its README for the tables without a recipe.

On tiny data in the forms in which the papers' are published, with texts of our own, and on tiny
models of the named architectures.
"""

import json
import os
import random
import re
import subprocess
import sys
import tomllib
import warnings
from pathlib import Path

import pytest
import zstandard
from journeys import prose

import corpusfit
import corpusfit_papers
from corpusfit_papers import experiments
from corpusfit_papers.mixing.plan import read_recipe as read_composition
from translating import built

pytest.importorskip("accelerate", reason="the extra train is not installed")
pytest.importorskip("datasets", reason="the extra hub is not installed")
PAPERS = Path(__file__).parents[2] / "recipes"
FILES = sorted(PAPERS.glob("*.toml"))
RECIPES = [file for file in FILES if "[separation]" not in file.read_text("utf-8")]
ALWAYS_RUN = ("textgram_table3_paper",)
"""Recipes that run to their end in CI; `make long` runs all, six minutes."""
COMPOSITIONS = sorted(PAPERS.glob("compositions/*.toml"))
COMMANDS = dict(
    re.findall(
        r"^\*\*(.+?):.*?```bash\n(.+?)```",
        (PAPERS / "README.md").read_text("utf-8").split("## Tables without")[1].split("\n## ")[0],
        re.DOTALL | re.MULTILINE,
    )
)
"""The README's commands by the tables and figures that they make."""
assert len(COMMANDS) == 6
GERMAN = ["Der", "Satz", "handelt", "nicht", "von", "über", "dem", "Haus", "wir", "heute", "schön"]
DOMAINS = ["it", "law", "medical", "koran", "captions", "news", "subtitles"]


def texts(of):
    """Thirty texts, others for each split and source, as training leaves out those of a task."""
    return prose("task", 30, seed=of, most=20)


def tagged(split):
    """Sentences of words and tags, as CoNLL."""
    lines = (
        f"colon\tB-X\ncancer\tI-X\n{text.split()[0]}{i}{split}\tO\n"
        for i, text in enumerate(texts(split))
    )
    return "\n".join(lines)


def annotated(split):
    """A text and its annotations, as brat."""
    words = [f"un cas {i} {split} de" for i in range(20)]
    text, places = "", ""
    for i, line in enumerate(words):
        begin = len(text) + len(line) + 1
        text += f"{line} diabete\n"
        places += f"T{i}\tDISO {begin} {begin + 7}\tdiabete\n"
    return {"a.txt": text, "a.ann": places}


def rows(path, fields):
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = [json.dumps({k: v[i % len(v)] for k, v in fields.items()}) for i in range(30)]
    path.write_text("\n".join(lines) + "\n", "utf-8")


def write_pairs(folder, *stems):
    """Line-aligned German and English files by their names without suffix."""
    folder.mkdir(parents=True, exist_ok=True)
    for stem in stems:
        english = texts(f"{folder.name} {stem}")
        chance = random.Random(f"{folder.name} {stem}")
        german = [f"{' '.join(chance.choices(GERMAN, k=9))} {i}." for i in range(30)]
        for language, side in (("de", german), ("en", english)):
            (folder / f"{stem}.{language}").write_text("\n".join(side) + "\n", "utf-8")


def write_task(path):
    """The data set that a recipe names, by its path."""
    if path.suffix == ".csv":
        header = "" if "phrasebank" in path.name else "text,label\n"
        mark = "," if header else "@"
        lines = [
            f"{text}{mark}{('good', 'bad')[i % 2]}\n" for i, text in enumerate(texts(path.name))
        ]
        path.write_text(header + "".join(lines), "utf-8")
    elif path.name in ("corpus", "bioro"):
        for split in ("train", "dev", "test") if path.name == "corpus" else (".",):
            for name, text in annotated(split.strip(".")).items():
                (path / split).mkdir(parents=True, exist_ok=True)
                (path / split / name).write_text(text, "utf-8")
    else:
        for split in ("train", "dev", "test"):
            if path.parent.name == "ner":
                path.mkdir(parents=True, exist_ok=True)
                (path / f"{split}.conll").write_text(tagged(split), "utf-8")
            else:
                labels = ["a", "b"] if path.name in ("imdb", "sst2") else ["a", "b", "c"]
                rows(
                    path / f"{split}.jsonl",
                    {"text": texts(f"{path.name} {split}"), "label": labels},
                )


@pytest.fixture(scope="module")
def data(tmp_path_factory, word_pieces, inline):
    """All data that the recipes name, and a model that translates."""
    folder = tmp_path_factory.mktemp("data")
    pairs = folder / "pairs"
    write_pairs(pairs / "train", *DOMAINS)
    for name in (*DOMAINS, *(f"kk_{domain}" for domain in DOMAINS)):
        write_pairs(pairs / name, "dev", "test")
    built(pairs / "de-en", word_pieces, "marian", 1, longest=128)
    corpusfit.adapt(
        data=[f"pair:{pairs}/train/{d}.de,{pairs}/train/{d}.en" for d in DOMAINS],
        out=pairs / "untrained",
        objective="translation",
        init="tiny",
        max_steps=1,
        settings=["model.tokenizer_characters=0", "model.vocabulary=400"],
        machine=inline,
    )
    for name in (
        "bio_a",
        "bio_asreview",
        "books_a",
        "cs_a",
        "finance_a",
        "it_a",
        "legal_a",
        "reviews_a",
        "news_allsides",
        "wiki_en",
    ):
        rows(folder / "pile" / f"{name}.jsonl", {"text": texts(name)})
    rows(folder / "wiki" / "articles.jsonl", {"text": texts("wiki")})
    news = folder / "pile" / "news_allsides.jsonl"
    news.with_name("news_allsides.jsonl.zst").write_bytes(zstandard.compress(news.read_bytes()))
    others = ["fr", "es", "de", "it", "pt", "ru", "ro", "zh", "da", "nl", "ja", "no", "sv", "tr"]
    languages = [language for other in others for language in ("en", other)]
    for name in ("pile/wiki_en", "pile_multi/wiki_de"):
        rows(folder / f"{name}.jsonl", {"text": texts(name), "title": texts("titles")})
        path = folder / f"{name}.jsonl.zst"
        path.write_bytes(zstandard.compress((folder / f"{name}.jsonl").read_bytes()))
    for name in ("biomedical", "financial", "wikipedia"):
        fields = {"text": texts(name), "language": languages, "wikidata": texts("items")}
        rows(folder / "mdapt" / name / "all.jsonl", fields)
    for recipe in FILES:
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
NAMED = re.compile(r"(?<![\w/])((?:distil)?(?:ro)?berta?-(?:base|large)[\w-]*|gpt2|xlnet-[\w-]+)")
"""Names of models of a hub in a command."""
WITHOUT_JSON = ("biobert", "portuguese", "romanian")
"""Parts of names of models whose tokenizer is a vocab.txt alone."""
FORMATS = {"quaero", "bioro", "pharmaconer", "clinpt", "omp-9", "finnews", "financial_phrasebank"}
"""Tasks of mDAPT that differ in format, or in what is done with them."""
TINY = {
    r"^seeds = \d+": "seeds = 1",
    r"^adaptations = \d+": "adaptations = 1",
    r"^fractions = .*": "fractions = [0.5]",
    r"^train_sizes = [^\]]*\]": "train_sizes = [20]",
    r"\b(warmup|max)_steps = \d+": r"\1_steps = 2",
    r"\bbatch = \[.*\]": "batch = [2, 4]",
    r"\bbatch = \d+": "batch = 4",
    r"\bepochs = \[.*\]": "epochs = [1]",
    r"\bepochs = \d+": "epochs = 1",
    r"\blength = \d+": "length = 32",
    r"\bpair_tokens = \d+": "pair_tokens = 256",
    r"\bevaluations = \d+": "evaluations = 1",
    r"^max_new_tokens = \d+": "max_new_tokens = 20",
    r"^texts = \d+": "texts = 10",
    r"^documents = \d+": "documents = 10",
    r"^budget = .*": "budget = 8",
    r"^en = \d+": "en = 1",
}
"""Settings of a `paper` recipe for a run of seconds."""


@pytest.fixture(scope="module")
def stand_in(tmp_path_factory, word_pieces):
    """The tiny model in the place of a model of the hub, by its name."""
    import transformers

    folder = tmp_path_factory.mktemp("stand-ins")
    built(folder / "marian", word_pieces, "marian", 1, longest=128)
    trained = folder / "trained.json"
    word_pieces.save(str(trained))
    tokenizer = transformers.BertTokenizerFast(tokenizer_file=str(trained), model_max_length=512)
    shape = {"vocab_size": len(tokenizer), "max_position_embeddings": 512}
    bert = transformers.BertConfig(
        hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=48, **shape
    )
    distilbert = transformers.DistilBertConfig(
        dim=32, hidden_dim=48, n_layers=2, n_heads=4, **shape
    )
    for name, model in (
        ("bert", transformers.BertForPreTraining(bert)),
        ("vocabulary", transformers.BertForPreTraining(bert)),
        ("distilbert", transformers.DistilBertForMaskedLM(distilbert)),
    ):
        model.save_pretrained(folder / name)
        tokenizer.save_pretrained(folder / name)
    sized = {"vocab_size": len(tokenizer)}
    gpt2 = transformers.GPT2Config(n_embd=32, n_layer=2, n_head=4, n_positions=512, **sized)
    xlnet = transformers.XLNetConfig(d_model=32, n_layer=2, n_head=4, d_inner=48, **sized)
    roberta = transformers.RobertaConfig(**bert.to_diff_dict() | {"pad_token_id": 0})
    for name, model, roles in (  # GPT-2 has no token for padding
        ("gpt2", transformers.GPT2Model(gpt2), {"eos_token": "[SEP]"}),
        ("xlnet", transformers.XLNetModel(xlnet), {"pad_token": "[PAD]", "padding_side": "left"}),
        ("roberta", transformers.RobertaModel(roberta), {"pad_token": "[PAD]"}),
    ):
        model.save_pretrained(folder / name)
        own = transformers.PreTrainedTokenizerFast(tokenizer_file=str(trained), **roles)
        own.save_pretrained(folder / name)
    tokens = sorted((vocabulary := word_pieces.get_vocab()), key=vocabulary.__getitem__)
    (folder / "vocabulary" / "vocab.txt").write_text("\n".join(tokens) + "\n", "utf-8")
    (folder / "vocabulary" / "tokenizer.json").unlink()

    def found(name):
        kinds = {"opus-mt": "marian"} | {
            kind: kind for kind in ("distilbert", "roberta", "gpt2", "xlnet")
        }
        kinds |= dict.fromkeys(WITHOUT_JSON, "vocabulary")
        return folder / next((kind for part, kind in kinds.items() if part in name), "bert")

    return found


@pytest.fixture
def at_hand(data, stand_in, tmp_path, monkeypatch):
    """Writes a recipe with models that are at hand; returns its path and its text."""
    monkeypatch.setenv("CORPUSFIT_DATA", str(data))
    monkeypatch.setenv("CORPUSFIT_MODELS", str(tmp_path))
    monkeypatch.setenv("CORPUSFIT_PAIRS", str(data / "pairs"))
    for model in ("bert-mini-wiki", "finbert-trc2"):
        (tmp_path / model).symlink_to(stand_in(model))
    (tmp_path / "compositions").symlink_to(PAPERS / "compositions")

    def write(recipe):
        text = recipe.read_text("utf-8")
        if '"nltk"' in text:
            pytest.importorskip("nltk", reason="the extra nltk is not installed")
        text = HUB.sub(lambda name: f'"{stand_in(name[1])}"', text)
        return tmp_path / recipe.name, text

    return write


@pytest.mark.slow
@pytest.mark.parametrize(
    "recipe",
    [
        pytest.param(path, id=path.stem, marks=[] if path.stem in ALWAYS_RUN else pytest.mark.long)
        for path in RECIPES
    ],
)
def test_a_dry_run_counts_the_steps(recipe, at_hand, tmp_path, inline):
    """It opens every model, and none has a fault."""
    path, text = at_hand(recipe)
    path.write_text(text, "utf-8")
    read = tomllib.loads(text)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = experiments.missing(path, out=tmp_path / "out", machine=inline)
    assert [str(w.message) for w in caught if "would stop" in str(w.message)] == []
    assert found.steps["fine-tunings"][0] > 0
    assert found.steps["adaptations"][0] > 0
    assert {cell["task"] for cell in found.cells} == {task["name"] for task in read["tasks"]}


@pytest.mark.slow
@pytest.mark.parametrize(
    "recipe",
    [
        pytest.param(path, id=path.stem, marks=[] if path.stem in ALWAYS_RUN else pytest.mark.long)
        for path in RECIPES
        if "_paper" in path.stem
    ],
)
def test_a_paper_recipe_runs_to_its_end(recipe, at_hand, tmp_path, inline):
    """Its first task, and those of mDAPT that differ: few steps, short texts, a seed."""
    path, text = at_hand(recipe)
    (tmp_path / "tiny").mkdir()
    places = {path: text.replace('"compositions/', '"tiny/')}
    places |= {tmp_path / "tiny" / own.name: own.read_text("utf-8") for own in COMPOSITIONS}
    for place in places:
        for setting, tiny in TINY.items():
            places[place] = re.sub(setting, tiny, places[place], flags=re.MULTILINE)
        place.write_text(places[place], "utf-8")
    read = tomllib.loads(text)
    names = [task["name"] for task in read["tasks"]]
    only = [n for n in names if n in {names[0], *FORMATS}]
    ran = corpusfit_papers.run(path, out=tmp_path / "out", only=only, machine=inline)
    table = json.loads((ran.path / "table.json").read_text("utf-8"))
    results = table["results"]
    assert [r["error"] for r in results if r["error"]] == []
    assert {r["cell"]["selector"] for r in results} == {*read["selectors"]}
    again = [word for name in only for word in ("--only", name)]
    repeat = json.loads((ran.path / "manifest.json").read_bytes())["repeat"]
    assert repeat == ["corpusfit", "run", str(path), *again]


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["table1", *(pytest.param(n, marks=pytest.mark.long) for n in ("figure4", "figure5"))]
)
def test_a_separation_runs_to_its_end(name, at_hand, tmp_path, inline, monkeypatch):
    monkeypatch.setattr(sys, "path", [*sys.path])
    sys.path.insert(0, str(PAPERS.parents[1] / "papers" / "tables"))
    import separation

    path, text = at_hand(PAPERS / f"tadpole_{name}_paper.toml")
    for setting, tiny in TINY.items():
        text = re.sub(setting, tiny, text, flags=re.MULTILINE)
    path.write_text(text, "utf-8")
    table = json.loads((separation.run(path, tmp_path / "out", inline) / "table.json").read_text())
    assert {r["cell"]["selector"] for r in table["results"]} == {*tomllib.loads(text)["selectors"]}


@pytest.mark.long
@pytest.mark.parametrize("made", COMMANDS)
def test_a_documented_command_runs_to_its_end(made, data, stand_in, tmp_path, cli, monkeypatch):
    """In a folder with the models that it names, with three domains and few steps of adapting."""
    recipe = (PAPERS / "mdapt_table4_paper.toml").read_text("utf-8")
    for name in {*HUB.findall(recipe), *NAMED.findall(COMMANDS[made])}:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).symlink_to(stand_in(name))
    tiny = tmp_path / "papers" / "recipes"
    for path in (*PAPERS.glob("*.py"), *PAPERS.glob("mdapt_*.toml"), *COMPOSITIONS):
        text = path.read_text("utf-8")
        for setting, small in TINY.items() if path in COMPOSITIONS else ():
            text = re.sub(setting, small, text, flags=re.MULTILINE)
        (tiny / path.relative_to(PAPERS)).parent.mkdir(parents=True, exist_ok=True)
        (tiny / path.relative_to(PAPERS)).write_text(text, "utf-8")
    for other in ("es", "pt", "de", "it", "ru"):
        for side in (other, "en"):
            lines = texts(f"{other} {side}")
            (data / f"wmt20.{other}-en.{side}").write_text("\n".join(lines) + "\n", "utf-8")
    for language in ("ro", "es", "en", "pt", "de", "da"):
        rows(data / "wikipedia" / f"{language}.jsonl", {"text": texts(language)})
    # a stand-in of corpusfit writes its arguments down, and this process runs them
    (tmp_path / "bin").mkdir()
    stub = tmp_path / "bin" / "corpusfit"
    stub.write_text('#!/bin/bash\nprintf "%s\\n" "$@" "" >> called\n', "utf-8")
    stub.chmod(0o755)
    command = re.sub(r"(for d in( \w+){3})[\w ]+;", r"\1;", COMMANDS[made])
    places = {
        "DATA": data,
        "PAIRS": data / "pairs",
        "MODELS": tmp_path,
        "CACHE": tmp_path / "cache",
    }
    for name, place in places.items():
        monkeypatch.setenv(f"CORPUSFIT_{name}", str(place))
    path = f"{stub.parent}:{Path(sys.executable).parent}:{os.environ['PATH']}"
    few = re.sub(r"--(max-steps|batch) \d+", r"--\1 2", command)
    shell = ["bash", "-euo", "pipefail", "-c", few]
    monkeypatch.chdir(tmp_path)
    subprocess.run(shell, env=os.environ | {"PATH": path}, check=True)
    called = Path("called").read_text("utf-8").split("\n\n")[:-1] if "corpusfit " in command else []
    assert called or "python " in command
    for words in called:
        assert cli(*words.split("\n")).code == 0, words


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
