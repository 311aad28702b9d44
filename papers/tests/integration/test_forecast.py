"""`forecast` from end to end: selections of a small pile, and a tiny model."""

import dataclasses
import json
import shutil

import pytest
from journeys import prose, write_rows

import corpusfit
from corpusfit.core.errors import InputError, UsageError
from listening import Listening

pytest.importorskip("accelerate", reason="the extra train is not installed")
ON_CPU = ("train.device=cpu", "train.precision=fp32")


@pytest.fixture(scope="module")
def selections(tmp_path_factory, inline, tiny_static):
    """Folders of four selections for one task, of one pile, and the target's file."""
    folder = tmp_path_factory.mktemp("forecast")
    for topic in ("task", "market", "kitchen"):
        write_rows(folder / f"pile/{topic}.jsonl", prose(topic, 90, seed=1))
    target = write_rows(folder / "target.jsonl", prose("task", 40))
    for name, words in {
        "top": {"method": "dsir", "fraction": 0.3},
        "random": {"method": "random", "fraction": 0.3},
        "continuous": {"method": "dsir", "weights": "continuous"},
        "near": {"method": "knn", "embedder": str(tiny_static), "fraction": 0.3},
    }.items():
        corpusfit.select(
            target=target,
            corpus=folder / "pile",
            out=folder / name,
            settings=["cut.pieces=256"],
            machine=inline,
            **words,
        )
    return folder


@pytest.fixture
def forecast(inline, tiny_lm, selections):
    """`forecast` in this process, of selections by name."""

    def forecast(*names, machine=inline, **words):
        data = [selections / name for name in names]
        given = {"model": str(tiny_lm), "length": 32, "settings": ON_CPU, **words}
        return corpusfit.forecast(data=data, machine=machine, **given)

    return forecast


def test_a_selection_that_is_near_falls_further_than_chance(forecast):
    found = forecast("random", "top")
    chance, top = found.prospects
    assert top.kl.falls > 0.5 * top.kl.raw > chance.kl.falls
    assert not chance.kl.sure
    assert top.kl.covered > chance.kl.covered
    assert top.kl.sure
    assert (top.method, chance.method) == ("dsir", "random")
    assert top.task == chance.task
    assert any("ranks below" in s and "random" in s.split(" ranks")[0] for s in found.words)


def test_a_selection_of_everything_counts_by_weight(forecast):
    everything = forecast("continuous").prospects[0]
    assert everything.texts == 270
    assert everything.kl.covered > 0.9
    assert everything.kl.falls > 0.05  # unweighted it would be the corpus itself


@pytest.fixture
def losses_before(selections, tiny_lm, inline, tmp_path):
    """The losses before an adaptation on a selection."""

    def losses(name, **words):
        given = {"length": 32, "max_steps": 1, "batch": 2, "settings": ON_CPU, "machine": inline}
        data, out = selections / name, tmp_path / "out"
        adapted = corpusfit.adapt(model=str(tiny_lm), data=data, out=out, **given, **words)
        return adapted.manifest["losses"]["before"]

    return losses


def test_losses_are_those_before_adapting(forecast, losses_before):
    found = forecast("top", seed=3).prospects[0].losses
    assert found["task"] == pytest.approx(losses_before("top", seed=3)["task"], abs=1e-4)
    assert found["general"] > 0


def test_a_selection_by_embeddings_has_general_text_too(forecast, losses_before):
    assert forecast("near").prospects[0].losses.keys() >= {"task", "general"}
    assert losses_before("near").keys() >= {"task", "data", "general"}


def test_a_task_whose_texts_are_gone(forecast, selections, inline, tmp_path):
    moved = selections / "target.jsonl"
    moved.rename(tmp_path / "target.jsonl")
    try:
        heard = Listening()
        found = forecast("top", machine=dataclasses.replace(inline, progress=heard))
    finally:
        (tmp_path / "target.jsonl").rename(moved)
    assert "task" not in found.prospects[0].losses
    assert "task" not in found.prospects[0].losses
    assert found.prospects[0].kl.sure
    assert heard.warnings[0]


def test_the_command(cli, selections, tiny_lm):
    given = ["--data", selections / "top", "--data", selections / "random", "--model", tiny_lm]
    given += ["--length", 32, *(x for s in ON_CPU for x in ("--set", s))]
    done = cli("forecast", *given, "--json")
    assert done.code == 0, done.err
    found = json.loads(done.out)
    assert [p["data"] for p in found["prospects"]] == [str(given[1]), str(given[3])]
    assert found["prospects"][0]["kl"]["falls"] > 0
    done = cli("forecast", *given)
    assert done.code == 0
    assert done.out


def test_what_is_no_selection(forecast, selections, tmp_path):
    with pytest.raises(UsageError, match=r"`data.*corpusfit select"):
        corpusfit.forecast(data=selections / "pile", model="x")
    with pytest.raises(UsageError, match=r"`model\.name"):
        forecast("top", model=None, settings=["model.init=tiny", *ON_CPU])


def test_a_damaged_part_is_named(forecast, selections):
    shutil.copytree(selections / "top", selections / "damaged")
    part = sorted((selections / "damaged/selected").iterdir())[0]
    part.write_bytes(b"no zstd")
    with pytest.raises(InputError, match=f"selected/{part.name}"):
        forecast("damaged")


def test_a_selection_without_a_sample_borrows_one_of_its_corpus(forecast, selections):
    shutil.copytree(selections / "random", selections / "bare")
    (selections / "bare/.corpusfit/fit/background.json").unlink()
    with pytest.raises(InputError, match="sample"):
        forecast("bare")
    bare, top = forecast("bare", "top").prospects
    assert bare.kl.raw == top.kl.raw
    assert bare.losses == top.losses
    assert bare.kl.selected != top.kl.selected


def test_the_oracle_is_forecast_beside_another(forecast, selections, inline):
    corpusfit.select(
        target=selections / "target.jsonl",
        corpus=selections / "pile",
        out=selections / "oracle",
        method="oracle",
        settings=["method.domain=task*"],
        machine=inline,
        fraction=0.3,
    )
    oracle, top = forecast("oracle", "top").prospects
    assert oracle.kl.sure
    assert oracle.kl.falls == pytest.approx(top.kl.falls, rel=0.2)
