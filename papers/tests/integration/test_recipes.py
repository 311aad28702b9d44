"""`run` from end to end: what it leaves, what it shares, that it goes on, what a failure costs."""

import csv
import dataclasses
import json
import re
import shutil
import time

import numpy as np
import pytest
import safetensors.numpy
from journeys import chats, killed, prose, write_rows

import corpusfit
import corpusfit_papers
from corpusfit.core.errors import ChangedInputError, InputError
from corpusfit_papers import experiments
from corpusfit_papers.experiments.folder import RecipeFolder

pytestmark = pytest.mark.slow

pytest.importorskip("accelerate", reason="the extra train is not installed")
TOPICS = ("task", "market", "kitchen")
RECIPE = """
name = "{title}"
model = "{model}"
corpus = ["pile"]
seeds = {seeds}
fractions = [0.3]
selectors = {selectors}
pairs = [{pairs}]
{more}
[select.cut]
gamma = 2
[adapt.train]
max_steps = 4
batch = 4
length = 32
evaluations = 1
device = "cpu"
precision = "fp32"
[adapt.mix]
heldout = 8
[evaluate.finetune]
epochs = 1
length = 32
device = "cpu"
precision = "fp32"
[[tasks]]
name = "science"
path = "science"
oracle = ["task*"]
other = "cooking"
[[tasks]]
name = "cooking"
path = "cooking"
oracle = ["kitchen*"]
other = "science"
"""
SELECTORS = '["base", "random", "dsir"]'
BASE_AND_DSIR = {"selectors": '["base", "dsir"]', "pairs": ""}


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """A pile of three topics, and two tasks that tell two of them apart."""
    folder = tmp_path_factory.mktemp("recipes")

    for topic in TOPICS:
        write_rows(folder / f"pile/{topic}.jsonl", prose(topic, 60, seed=1))
    for name, topics in (("science", TOPICS[:2]), ("cooking", TOPICS[1:])):
        for nth, (split, n) in enumerate((("train", 24), ("dev", 8), ("test", 12))):
            rows = [
                {"text": text, "label": topic}
                for topic in topics
                for text in prose(topic, n, seed=f"{name}{nth}", most=12)
            ]
            write_rows(folder / name / f"{split}.jsonl", rows)
    return folder


@pytest.fixture(scope="module")
def recipe(data, tiny_lm):
    """Write a recipe beside the data; returns its path."""

    def write(selectors=SELECTORS, more="", after="", **words):
        given = {"title": "small", "seeds": 2, "pairs": '["dsir", "random"]', **words}
        text = RECIPE.format(model=tiny_lm, selectors=selectors, more=more, **given) + after
        (data / "recipe.toml").write_text(text, "utf-8")
        return data / "recipe.toml"

    return write


@pytest.fixture(scope="module", autouse=True)
def inline_steps(inline):
    """What steps give to workers of their own is done in this process too."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("corpusfit_papers.experiments.steps.Machine", type(inline))
        yield


@pytest.fixture
def run(inline, tmp_path):
    """Run a recipe in this process."""

    def run(path, out="out", **words):
        return corpusfit_papers.run(path, out=tmp_path / out, machine=inline, **words)

    return run


@pytest.fixture(scope="module")
def done(recipe, inline, tmp_path_factory):
    """Folders of two runs that are finished: the recipe, and one of base and dsir alone."""
    folder = tmp_path_factory.mktemp("done")
    corpusfit_papers.run(recipe(), out=folder / "small", machine=inline)
    corpusfit_papers.run(recipe(**BASE_AND_DSIR), out=folder / "two", machine=inline)
    return folder


@pytest.fixture
def copied(done, tmp_path):
    """Copy a finished run to `out`; returns the copy."""

    def copied(name):
        return shutil.copytree(done / name, tmp_path / "out")

    return copied


def finished(out):
    """What steps left, with what changes when a file is written anew."""
    patterns = ("scores/*.json", "models/*/manifest.json", "selections/*/manifest.json")
    return {
        p: {f.parent.name + f.name: f.stat().st_mtime_ns for f in out.glob(p)} for p in patterns
    }


@pytest.mark.slow
def test_from_tasks_and_a_pile_to_the_tables(recipe, run, copied):
    """Every cell has its scores; the files say the same; a second run makes nothing anew."""
    inputs = finished(copied("small"))
    ran = run(recipe())
    assert finished(ran.path) == inputs
    results = ran.judged.results
    assert [(r.cell.task, r.column) for r in results] == [
        (task, column) for task in ("science", "cooking") for column in ("base", "random", "dsir")
    ]
    assert all(len(r.scores) == 2 and 0 <= r.mean <= 1 for r in results)
    assert all(r.mean == pytest.approx(sum(r.scores) / 2) for r in results)
    assert [len(found) for found in inputs.values()] == [12, 3, 3]  # random is shared by the tasks
    plain = json.loads((ran.path / "table.json").read_text("utf-8"))
    assert [r["scores"] for r in plain["results"]] == [r.scores for r in results]
    rows = list(csv.DictReader((ran.path / "table.csv").read_text("utf-8").splitlines()))
    assert [float(row["mean"]) for row in rows] == [r.mean for r in results]
    against = [(p.row[0], p.column, p.base) for p in ran.judged.pairs if not p.named]
    assert len(against) == 4
    assert all(base == "base" for *_, base in against)
    assert [(p.column, p.base) for p in ran.judged.pairs if p.named] == [("dsir", "random")] * 2
    page = (ran.path / "table.md").read_text("utf-8")
    assert all(p.verdict in page.replace("\\", "") for p in ran.judged.pairs)
    gains = {g.column: g.mean for g in ran.judged.gains}
    mean = {c: sum(r.mean for r in results if r.column == c) / 2 for c in ("base", "dsir")}
    assert gains["dsir"] == pytest.approx(mean["dsir"] - mean["base"])
    assert (ran.path / "manifest.json").exists()
    kept = [found["guard"] for found in plain["adapted"]]
    assert [found["texts"] for found in kept] == [80, 40, 40]  # dev and test; random: of both tasks
    again = run(recipe())
    assert finished(again.path) == inputs
    assert again.judged == ran.judged
    with pytest.raises(InputError, match=r"table\.md"):
        corpusfit.report(ran.path)


@pytest.mark.slow
def test_a_recipe_that_grows_keeps_what_it_has(recipe, run, copied):
    """Another selector and a third seed: only what is new is made; another recipe is refused."""
    before = finished(copied("two"))
    first = run(recipe(**BASE_AND_DSIR))
    assert finished(first.path) == before
    grown = run(recipe(more="adaptations = 2", seeds=3))
    after = finished(grown.path)
    assert all(after[p].items() >= files.items() for p, files in before.items())
    assert [len(files) for files in after.values()] == [20, 6, 4]  # random is drawn twice
    scores = {(r.cell, r.column): r.scores for r in grown.judged.results}
    for r in first.judged.results:
        assert scores[r.cell, r.column][0] == r.scores[0]
    with pytest.raises(ChangedInputError, match=r"recipe.*small.*other"):
        run(recipe(title="other"))
    other = run(recipe('["base"]', pairs="", title="other"), overwrite=True)
    assert [len(files) for files in finished(other.path).values()] == [4, 0, 0]


def test_cells_that_are_kept_need_no_models_elsewhere(recipe, run, done, tmp_path, inline):
    """A folder of cells gives the whole table without a selection or a model; it takes new ones."""
    cells, path = tmp_path / "cells", recipe(**BASE_AND_DSIR)
    first = run(path, shutil.copytree(done / "two", tmp_path / "first"), cells=cells)
    kept = {f.relative_to(cells): f.read_bytes() for f in cells.rglob("*.json")}
    assert {f.parts[0] for f in kept} == {"scores", "costs"}
    elsewhere = tmp_path / "elsewhere"
    count = experiments.missing(path, out=elsewhere, cells=cells, machine=inline).steps
    assert {left for _, left in count.values()} == {0}
    second = run(path, "elsewhere", cells=cells)
    assert second.judged == first.judged
    assert not (second.path / "models").exists()
    for name in ("table.md", "table.csv"):
        assert (second.path / name).read_bytes() == (first.path / name).read_bytes()
    run(recipe('["base"]', pairs="", seeds=3), "more", cells=cells)
    after = {f.relative_to(cells): f.read_bytes() for f in cells.rglob("*.json")}
    assert kept.items() < after.items()


@pytest.mark.long
def test_every_kind_of_cell(recipe, run):
    """Baselines, weights, companions, an adapter, sizes and fractions, each made once."""
    selectors = '["base", "general", "task", "oracle", "random", "dsir"]'
    own = """
[selector.base]
augment = ["", "tfidf"]
adapters = ["", "lora"]
[selector.dsir]
fractions = [0.2, 0.4]
weights = ["off", "lambda"]
"""
    more = "adaptations = 2\ntrain_sizes = [10, 30]"
    ran = run(recipe(selectors, more, own))
    assert not ran.judged.failed
    columns = list(dict.fromkeys(r.column for r in ran.judged.results))
    assert columns == [
        *("base", "base + tfidf", "base lora", "base lora + tfidf"),
        *("general", "task", "oracle", "random", "dsir 0.2", "dsir 0.4", "dsir lambda"),
    ]
    assert len(ran.judged.results) == 2 * 2 * len(columns)
    assert [(t["name"], t["size"], t["examples"]) for t in tasks(ran)] == [
        (name, size, size) for name in ("science", "cooking") for size in (10, 30)
    ]
    selections = list((ran.path / "selections").iterdir())
    # random for each adaptation, oracle once a domain, dsir for each task and size at three amounts
    assert len(selections) == 2 + 2 + 4 * 3
    scored = {
        json.loads((p / ".corpusfit/run.json").read_text("utf-8"))["choose"]["policy"]
        for p in selections
    }
    assert scored == {"top", "continuous"}
    models = [json.loads(p.read_text("utf-8")) for p in ran.path.glob("models/*/manifest.json")]
    # by two adaptations: general and random for all, oracle for each domain; task and three of dsir
    # for each row
    assert len(models) == 2 * (1 + 1 + 2 + 4 * (1 + 3))
    assert {m["plan"]["seed"] for m in models} == {0, 1}
    assert len(list((ran.path / "companions").iterdir())) == 4
    gains = {(g.column, g.size) for g in ran.judged.gains}
    assert ("dsir 0.2", 10) in gains
    assert ("dsir 0.2", 30) in gains
    assert ("base + tfidf", 30) in gains
    assert ("base", 30) not in gains


def tasks(ran):
    """The tasks as the JSON has them."""
    return json.loads((ran.path / "table.json").read_text("utf-8"))["tasks"]


@pytest.fixture(scope="module")
def adapted(recipe, inline, tmp_path_factory):
    """A run with the oracle, and with an adapter on random text."""
    own = '[selector.random]\nadapters = ["pfeiffer"]\n'
    path = recipe('["base", "oracle", "random"]', after=own, pairs="", seeds=1)
    return corpusfit_papers.run(
        path, out=tmp_path_factory.mktemp("adapted") / "out", machine=inline
    )


@pytest.mark.slow
def test_the_oracle_takes_its_domain_and_nothing_else(adapted):
    ran = adapted
    assert not list((ran.path / "failures").glob("*"))  # the oracle keeps no sample
    taken = [
        {segment["source"] for segment in corpusfit.Selection(folder, {})}
        for folder in (ran.path / "selections").iterdir()
        if json.loads((folder / "manifest.json").read_text("utf-8"))["method"]["name"] == "oracle"
    ]
    assert sorted(taken, key=str) == [{"kitchen.jsonl"}, {"task.jsonl"}]


@pytest.mark.slow
def test_a_control_is_adapted_on_the_other_domain(recipe, run):
    """mDAPT, Table 5: the other task's selection, without held-out texts of both tasks."""
    own = '[selector.other]\nof = "dsir"\n'
    ran = run(recipe('["base", "dsir", "other"]', after=own, pairs='["dsir", "other"]'))
    assert not ran.judged.failed
    assert [r.column for r in ran.judged.results] == ["base", "dsir", "other"] * 2
    assert [(p.column, p.base) for p in ran.judged.pairs if p.named] == [("dsir", "other")] * 2
    assert len(list((ran.path / "selections").iterdir())) == 2
    plain = json.loads((ran.path / "table.json").read_text("utf-8"))
    models = {found["label"]: found for found in plain["adapted"]}
    assert models.keys() == {
        *("dsir 0.3 for science", "other 0.3 for science (dsir for cooking)"),
        *("dsir 0.3 for cooking", "other 0.3 for cooking (dsir for science)"),
    }
    watched = {label.split()[0]: found["guard"]["texts"] for label, found in models.items()}
    assert watched == {"dsir": 40, "other": 80}


@pytest.mark.slow
def test_an_adapter_is_trained_on_and_fine_tuned_as_one(adapted):
    """An adapted adapter is opened with its model, for fine-tuning; it is not looked at before."""
    ran = adapted
    assert [r.column for r in ran.judged.results] == ["base", "oracle", "random pfeiffer"] * 2
    assert not ran.judged.failed
    assert len(list(ran.path.glob("models/*/adapter.safetensors"))) == 1


@pytest.mark.slow
def test_a_cell_that_fails_costs_no_other(recipe, cli, tmp_path, data):
    """A training that diverges is told of in its cells; the exit code says so."""
    own = """
[selector.wild.method]
name = "dsir"
[selector.wild.adapt.train]
learning_rate = 1e30
warmup_steps = 0.0
"""
    path = recipe('["base", "random", "dsir", "wild"]', "", own)
    done = cli("run", path, "--out", tmp_path / "out", "--json")
    assert done.code == 1
    results = json.loads(done.out)["results"]
    failed = [r for r in results if r["error"]]
    assert {r["column"] for r in failed} == {"wild"}
    assert len(failed) == 2
    assert all(len(r["scores"]) == 2 for r in results if not r["error"])
    assert all("loss" in r["error"] for r in failed)
    page = (tmp_path / "out/table.md").read_text("utf-8")
    assert page.count("failed: ") == 2
    assert not (tmp_path / "out/manifest.json").exists()
    assert re.search(r"\b2\b.*failed", done.err)
    report = json.loads(next((tmp_path / "out/failures").iterdir()).read_text("utf-8"))
    assert "Traceback" in report["trace"]


def test_a_dry_run_writes_nothing_and_counts(recipe, cli, copied, tmp_path):
    path, out = recipe(), tmp_path / "out"
    done = cli("run", path, "--out", out, "--dry-run", "--json")
    found = json.loads(done.out)
    assert found["steps"] == {
        "selections": [3, 3],
        "adaptations": [3, 3],
        "companions": [0, 0],
        "fine-tunings": [12, 12],
    }
    assert found["seconds"] is None
    assert not out.exists()
    copied("small")
    found = json.loads(cli("run", path, "--out", out, "--dry-run", "--json").out)
    assert {left for _, left in found["steps"].values()} == {0}
    assert found["seconds"] == 0
    next((out / "scores").iterdir()).unlink()
    found = json.loads(cli("run", path, "--out", out, "--dry-run", "--json").out)
    assert found["steps"]["fine-tunings"] == [12, 1]
    assert found["seconds"] > 0
    other = recipe(title="other")
    done = cli("run", other, "--out", out, "--dry-run")
    assert done.code != 0
    assert str(out) in done.err
    done = cli("run", other, "--out", out, "--dry-run", "--overwrite", "--json")
    assert json.loads(done.out)["steps"]["fine-tunings"] == [12, 12]  # all is thrown away
    assert len(list((out / "scores").iterdir())) == 11


def test_a_folder_of_something_else_is_refused(recipe, cli, tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out/mine.txt").write_text("mine")
    done = cli("run", recipe(), "--out", tmp_path / "out")
    assert done.code == 2
    assert "--out" in done.err


@pytest.mark.long
def test_killed_it_goes_on_and_repeats_nothing(recipe, run, start, tmp_path):
    """SIGKILL while it adapts, and after some fine-tunings: it ends with the same scores."""
    own = "[selector.random.adapt.train]\nmax_steps = 60\n"
    path, out = recipe('["base", "random"]', after=own, pairs=""), tmp_path / "killed"

    def begun(workers):
        return start("run", path, "--out", out, "--workers", workers, "--json")

    for pattern, count in (("models/*/.corpusfit/settled.json", 1), ("scores/*.json", 2)):
        process = begun(1)
        while len(list(out.glob(pattern))) < count:
            assert process.poll() is None, process.communicate()
            time.sleep(0.01)
        assert killed(process)
        inputs = finished(out)
        assert [len(found) for found in inputs.values()][1:] == [int(count > 1), 1]
    scores = len(inputs["scores/*.json"])
    recorded = sum((out / "costs" / score.name).exists() for score in out.glob("scores/*.json"))
    assert 2 <= scores < 8
    process = begun(2)
    printed, err = process.communicate()
    assert process.returncode == 0, err
    after = finished(out)
    assert all(after[p].items() >= files.items() for p, files in inputs.items())
    assert len(after["scores/*.json"]) == 8
    assert re.search(rf"\b{8 - scores}\b", err)
    whole = run(path, "whole")
    assert json.loads(printed)["results"] == [
        json.loads(json.dumps(dataclasses.asdict(r))) for r in whole.judged.results
    ]
    found = json.loads((out / "table.json").read_text("utf-8"))
    assert found["costs"]["unrecorded"] == scores - recorded  # a cost is written after its score


@pytest.mark.slow
def test_a_planted_test_text_is_not_trained_on(recipe, run, data):
    """A test text in the pile is left out of what a model is trained on, unless that is off."""
    (data / "planted").mkdir(exist_ok=True)
    planted = json.loads((data / "science/test.jsonl").read_text("utf-8").splitlines()[0])["text"]
    rows = [*prose("market", 40, seed=3), planted]
    text = "".join(json.dumps({"text": text}) + "\n" for text in rows)
    (data / "planted/market.jsonl").write_text(text, "utf-8")
    path = recipe('["base", "general"]', pairs="", seeds=1)
    path.write_text(path.read_text("utf-8").replace('["pile"]', '["planted"]'), "utf-8")

    def tokens(ran):
        (found,) = json.loads((ran.path / "table.json").read_text("utf-8"))["adapted"]
        return found["tokens"], found["guard"]

    kept, guard = tokens(run(path))
    assert guard["data"]["holders"] == guard["data"]["held"] == 1
    whole, off = tokens(run(path, "with", keep_overlap=True))
    assert off is None
    assert kept < whole


def test_chats_guide_the_selection_and_are_left_out_as_what_is_said(run, tiny_chat, tmp_path):
    """Target and held-out texts are conversations, so a planted test one is found."""
    for split, n in (("train", 24), ("dev", 6), ("test", 8)):
        write_rows(tmp_path / f"wanted/{split}.jsonl", chats("task", n, split))
    corpus = [*chats("task", 40, 9), *chats("market", 40), chats("task", 8, "test")[0]]
    write_rows(tmp_path / "chats.jsonl", corpus)
    text = """
name = "chats"
model = "{model}"
corpus = ["chats.jsonl"]
selectors = ["base", "dsir"]
fractions = [1.0]
seeds = 1
select.read.text_field = "messages"
select.cut.unit = "document"
adapt.objective = {{ name = "causal", loss_on = "assistant" }}
adapt.train = {{ max_steps = 1, batch = 2, length = 256, device = "cpu", precision = "fp32" }}
evaluate.finetune.device = "cpu"
[evaluate.task]
kind = "language_modeling"
text_field = "{field}"
loss_on = "assistant"
[[tasks]]
name = "wanted"
path = "wanted"
"""
    path = tmp_path / "recipe.toml"
    path.write_text(text.format(model=tiny_chat, field="turns"))
    with pytest.raises(corpusfit.CorpusfitError, match="text_field"):
        run(path)
    path.write_text(text.format(model=tiny_chat, field="messages"))
    ran = run(path)
    (adapted,) = json.loads((ran.path / "table.json").read_text("utf-8"))["adapted"]
    assert adapted["guard"]["data"]["held"] == 1
    (target,) = ran.path.glob("tasks/*/train.jsonl")
    assert list(map(json.loads, target.read_text().splitlines())) == chats("task", 24, "train")


def test_what_a_table_was_made_of_may_be_thrown_away(recipe, run, copied):
    """Without selections and models the same tables come of the outcomes, and nothing is made."""
    path = recipe(**BASE_AND_DSIR)
    copied("two")
    ran = run(path)
    for folder in ("selections", "models"):
        shutil.rmtree(ran.path / folder)
    again = run(path)
    assert again.judged == ran.judged
    assert not (ran.path / "selections").exists()
    assert not (ran.path / "models").exists()


@pytest.mark.long
def test_on_ray_it_gives_the_same(recipe, run, own_ray, tmp_path):
    """Adaptations and fine-tunings as Ray's actors: the same scores."""
    path = recipe('["base", "random"]', pairs="", seeds=1)
    machine = corpusfit.Machine("ray", workers=2)
    there = corpusfit_papers.run(path, out=tmp_path / "ray", machine=machine)
    assert not there.judged.failed
    assert there.judged.results == run(path, "here").judged.results


COMPOSITION = """
composition = "E_D"
budget = 40
[[sources]]
name = "market"
kind = "specific"
language = "en"
path = "pile/market.jsonl"
"""
COLUMNS = """
[selector.mono]
model = "{other}"
[selector.E_D]
compose = "market.toml"
[search]
selector = "mono"
batch = [4, 8]
[[tasks]]
name = "cooking in German"
path = "cooking"
models = {{ mono = "{model}" }}
compose = {{ E_D = "kitchen.toml" }}
evaluate = {{ finetune.length = 24 }}
"""


@pytest.mark.slow
def test_models_compositions_and_a_search(recipe, run, data, tiny_lm, tmp_path):
    """The parts of mDAPT's Table 4: models of one language as a column, compositions as steps,
    and settings that dev chooses for each task."""
    pytest.importorskip("langcodes", reason="the extra languages is not installed")
    other = shutil.copytree(tiny_lm, tmp_path / "other")
    weights = safetensors.numpy.load_file(other / "model.safetensors")
    weights["bert.embeddings.word_embeddings.weight"] *= np.float32(0.5)
    safetensors.numpy.save_file(weights, other / "model.safetensors", {"format": "pt"})
    for name in ("market", "kitchen"):
        text = COMPOSITION.replace("market", name)
        (data / f"{name}.toml").write_text(text, "utf-8")
    after = COLUMNS.format(other=other, model=tiny_lm)
    path = recipe(selectors='["base", "mono", "E_D"]', pairs="", seeds=1, after=after)
    ran = run(path)
    assert [r.error for r in ran.judged.results] == [""] * 9
    found = json.loads((ran.path / "table.json").read_text("utf-8"))["found"]
    assert {entry["task"] for entry in found} == {"science", "cooking", "cooking in German"}
    folder = RecipeFolder(ran.path)
    tuned = [json.loads(f.read_text("utf-8")) for f in folder.scores.glob("*.json")]
    assert {o["tune"]["batch"] for o in tuned} == {4, 8}
    assert {o["tune"]["length"] for o in tuned} == {24, 32}
    assert len(list(folder.selections.glob("*/composed"))) == 2
    assert len(list(folder.models.glob("*/manifest.json"))) == 2
    again = run(path)
    assert again.judged == ran.judged
    assert len(list(folder.scores.glob("*.json"))) == len(tuned)
