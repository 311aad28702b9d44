"""Models of the hub by their revision, through the commands: what is written of the commit."""

import json

import pytest
from journeys import prose

import corpusfit
from corpusfit.contracts import EmbedPlan, open_encoder
from corpusfit.core.errors import ChangedInputError, UsageError
from corpusfit.scoring.registry import build
from corpusfit.selection import embedding
from fake_hub import Hub, commit

pytest.importorskip("accelerate", reason="the extra train is not installed")
NAME = "me/model"


def files_of(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


@pytest.fixture
def model(hub, tiny_lm):
    """A model whose `main` is broken; the tag `v1` works. Returns its repository."""
    works = files_of(tiny_lm)
    broken = {**works, "config.json": b"no JSON"}
    hub[NAME] = {"kind": "model", "private": False, "files": broken, "revisions": {"v1": works}}
    return hub[NAME]


@pytest.fixture
def adapt(jsonl, tmp_path, inline):
    data = jsonl("data.jsonl", prose("task", 40))

    def adapt(out, name, **words):
        sizes = {"max_steps": 1, "batch": 2, "length": 32}
        settings = ["train.device=cpu", "train.precision=fp32"]
        words = {"data": data, "machine": inline, "settings": settings, **sizes, **words}
        return corpusfit.adapt(model=name, out=tmp_path / out, **words)

    return adapt


def test_an_adapter_keeps_the_commit_of_its_base(adapt, model, jsonl, tmp_path, inline):
    works = commit(model["revisions"]["v1"])

    done = adapt("adapter", f"{NAME}@v1", adapter="lora")

    base = done.manifest["base"]
    assert (base["name"], base["commit"]) == (f"{NAME}@v1", works)
    assert f'model.name="{NAME}@v1"' in done.manifest["repeat"]
    assert (
        json.loads((done.path / "adapter.json").read_bytes())["base"]["name"] == f"{NAME}@{works}"
    )
    peft = json.loads((done.path / "adapter_config.json").read_bytes())
    assert (peft["base_model_name_or_path"], peft["revision"]) == (NAME, works)
    assert f'base_model: "{NAME}"\n' in (done.path / "README.md").read_text("utf-8")
    # the tag moves, and the adapter still stands on the commit
    model["revisions"] = {"v1": model["files"], "old": model["revisions"]["v1"]}
    rows = [{"text": text, "label": str(i % 2)} for i, text in enumerate(prose("task", 12))]
    for split in ("train", "test"):
        jsonl(f"labeled/{split}.jsonl", rows)
    scored = corpusfit.evaluate(
        model=done.path,
        base=f"{NAME}@old",
        task=tmp_path / "labeled",
        out=tmp_path / "scores",
        seeds=1,
        machine=inline,
        settings=["finetune.device=cpu", "finetune.epochs=1"],
    )
    models = scored.manifest["models"]
    assert models["base"]["name"] == f"{NAME}@old"
    assert models["base"]["commit"] == works
    assert "commit" not in models["model"]


def test_another_commit_is_another_run(adapt, model):
    model["files"] = model["revisions"]["v1"]
    done = adapt("out", NAME)
    assert done.manifest["base"]["commit"] == commit(model["files"])
    config = json.loads(model["files"]["config.json"])
    changed = json.dumps({**config, "layer_norm_eps": 1e-5}).encode()
    model["files"] = {**model["files"], "config.json": changed}
    with pytest.raises(ChangedInputError, match="base has changed"):
        adapt("out", NAME)


def test_a_revision_that_does_not_exist_is_said_before_anything_is_read(adapt, model):
    with pytest.raises(UsageError, match=r"^`model\.name` must .*'me/model@v2'.* main, v1\."):
        adapt("out", f"{NAME}@v2", data="/no/such/file.jsonl")
    assert not [path for path in Hub.asked if "/resolve/" in path]


def test_scores_are_explained_by_the_commit_that_made_them(model, jsonl, tmp_path, inline):
    works = commit(model["revisions"]["v1"])

    done = corpusfit.select(
        target=jsonl("target.jsonl", prose("task", 20)),
        corpus=jsonl("corpus.jsonl", prose("task", 20) + prose("market", 20)),
        out=tmp_path / "selected",
        method="knn",
        embedder=f"{NAME}@v1",
        fraction=0.5,
        machine=inline,
    )

    assert done.manifest["commits"] == {f"{NAME}@v1": works}
    model["revisions"] = {"v1": model["files"], "old": model["revisions"]["v1"]}  # the tag moves
    assert corpusfit.explain(done.path, text="The kinase binds.", machine=inline).nearest


@pytest.fixture
def loaded(monkeypatch):
    """The names by which workers load embedders."""
    names = []

    def load(plan, load=embedding.load):
        names.append(plan.embedder)
        return load(plan)

    monkeypatch.setattr(embedding, "load", load)
    return names


@pytest.fixture
def texts(jsonl):
    """A target and a corpus, as arguments."""
    corpus = prose("task", 20) + prose("market", 20)
    return {"target": jsonl("target.jsonl", prose("task", 20)), "corpus": jsonl("c.jsonl", corpus)}


def test_clusters_divide_by_the_commit_that_found_them(model, texts, tmp_path, inline, loaded):
    domains = corpusfit.clusters(
        corpus=texts["corpus"], out=tmp_path / "domains", k=2, embedder=f"{NAME}@v1", machine=inline
    )
    works = commit(model["revisions"]["v1"])
    model["revisions"] = {"v1": model["files"], "old": model["revisions"]["v1"]}  # the tag moves
    corpusfit.select(
        **texts,
        out=tmp_path / "out",
        method="random",
        balance="cluster",
        clusters=domains.path,
        fraction=0.5,
        machine=inline,
    )
    assert set(loaded) == {f"{NAME}@{works}"}


def test_an_encoder_is_opened_at_the_commit_that_was_prepared(model, loaded):
    encoder = open_encoder(EmbedPlan(embedder=f"{NAME}@v1"))
    assert set(loaded) == {f"{NAME}@{commit(model['revisions']['v1'])}"}
    assert encoder.encode(["kinase"]).shape == (1, encoder.dim)


def test_the_files_of_a_method_are_of_the_named_commit(model):
    method = build(f"model:{NAME}@v1", {})
    works = commit(model["revisions"]["v1"])
    assert all(f"/snapshots/{works}/" in file for file in method.files)
