"""`forecast` from end to end: selections of a small pile, and a tiny model."""

import json
import shutil

import numpy as np
import pytest
from journeys import prose, write_rows

import corpusfit
import corpusfit_papers
from corpusfit.core.errors import InputError

pytest.importorskip("accelerate", reason="the extra train is not installed")
pytestmark = pytest.mark.slow


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
        "continuous": {"method": "dsir", "policy": "continuous"},
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
def forecast(tiny_lm, selections):
    """`forecast` of selections by name."""

    def forecast(*names, **words):
        data = [selections / name for name in names]
        return corpusfit_papers.forecast(data=data, **{"model": tiny_lm, "length": 32, **words})

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


def test_losses_are_those_before_adapting(forecast, selections, tiny_lm, inline, tmp_path):
    """Of the same texts, but for the tokens that are masked: the means of several draws agree."""
    before = [
        corpusfit.adapt(
            model=str(tiny_lm),
            data=selections / "top",
            out=tmp_path / f"out{seed}",
            settings=("train.device=cpu", "train.precision=fp32"),
            length=32,
            max_steps=1,
            batch=2,
            seed=seed,
            machine=inline,
        ).manifest["losses"]["before"]["task"]
        for seed in range(6)
    ]
    found = [forecast("top", seed=seed).prospects[0].losses for seed in range(12)]
    draws = [losses["task"] for losses in found]
    error = sum(np.var(losses, ddof=1) / len(losses) for losses in (before, draws)) ** 0.5
    assert abs(np.mean(draws) - np.mean(before)) < 3 * error
    assert len(set(draws)) == len(draws)
    assert all(losses["general"] > 0 for losses in found)


def test_a_causal_model_is_asked_for_what_follows(forecast, tiny_gpt, selections):
    """transformers' own loss, weighted by tokens, on the task's texts with their ends."""
    torch = pytest.importorskip("torch")
    from transformers import AutoModelForCausalLM, AutoTokenizer

    found = forecast("top", model=tiny_gpt, length=512)
    assert found.objective == "causal"
    tokenizer = AutoTokenizer.from_pretrained(tiny_gpt)
    peer = AutoModelForCausalLM.from_pretrained(tiny_gpt, dtype=torch.float32).eval()
    total, tokens = 0.0, 0
    for text in corpusfit.open(selections / "top").samples()["target"]:
        ids = torch.tensor([[*tokenizer(text).input_ids, tokenizer.eos_token_id]])
        with torch.no_grad():
            total += peer(input_ids=ids, labels=ids).loss.item() * (ids.shape[1] - 1)
        tokens += ids.shape[1] - 1
    assert found.prospects[0].losses["task"] == pytest.approx(total / tokens, rel=1e-4)


def test_the_command(cli, selections, tiny_lm):
    given = ["--data", selections / "top", "--data", selections / "random", "--model", tiny_lm]
    given += ["--length", 32]
    done = cli("forecast", *given, "--json")
    assert done.code == 0, done.err
    found = json.loads(done.out)
    assert [p["data"] for p in found["prospects"]] == [str(given[1]), str(given[3])]
    assert found["prospects"][0]["kl"]["falls"] > 0
    done = cli("forecast", *given)
    assert done.code == 0
    assert done.out


def test_what_is_no_selection(forecast, selections, tmp_path):
    with pytest.raises(InputError, match="pile"):
        corpusfit_papers.forecast(data=selections / "pile", model="x")


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
