"""`evaluate` of causal models as they are: bits per byte of plain text."""

import json
import random
import shutil

import pytest
import torch
from typer.testing import CliRunner

import corpusfit
from corpusfit import evaluation
from corpusfit.cli.app import app
from corpusfit.core.errors import UsageError

safetensors = pytest.importorskip("safetensors.torch", reason="the extra train is not installed")

WORDS = ["kinase", "inhibitor", "affinity", "shares", "market", "results"]
SETTINGS = ["finetune.device=cpu"]


@pytest.fixture(scope="module")
def base(tiny_gpt, tmp_path_factory):
    """The model with one layer changed."""
    folder = shutil.copytree(tiny_gpt, tmp_path_factory.mktemp("models") / "base")
    weights = safetensors.load_file(folder / "model.safetensors")
    weights["transformer.h.1.mlp.c_proj.weight"] *= 3
    safetensors.save_file(weights, folder / "model.safetensors", {"format": "pt"})
    return folder


def texts(n, seed):
    chance = random.Random(seed)
    return [" ".join(chance.choices(WORDS, k=chance.randint(2, 9))) for _ in range(n)]


def test_bits_per_byte_are_measured_once_and_compared(tiny_gpt, base, jsonl, tmp_path, inline):
    words = {
        "model": tiny_gpt,
        "base": base,
        "task": jsonl("held.jsonl", [*texts(30, 1), ""]),
        "kind": "language_modeling",
        "settings": SETTINGS,
        "machine": inline,
    }
    with pytest.warns(UserWarning, match="1 of 31 rows of test"):
        run = corpusfit.evaluate(**words, out=tmp_path / "out")
    manifest = run.manifest
    assert (manifest["seeds"], manifest["unit"]) == (1, "bits per byte")
    assert len(list((run.path / "outcomes").iterdir())) == 2
    ours, other = (result["test"]["neg_bits_per_byte"]["mean"] for result in manifest["results"])
    sums = torch.tensor(run.outcomes()[0].sums["test"]).sum(0)
    assert ours == pytest.approx(-float(sums[0, 0] / sums[2, 0]))
    assert sums[2, 0] == sum(len(text.encode()) for text in texts(30, 1))
    (comparison,) = manifest["comparisons"]
    assert comparison["difference"] == pytest.approx(ours - other)
    assert f"{abs(ours - other):.4f} bits per byte" in comparison["verdict"]
    estimate = evaluation.estimate_evaluation(**words | {"seeds": 3})
    assert (estimate["fine_tunings"], estimate["test"]) == (2, 30)


def test_the_table_has_bits_and_not_their_negation(tiny_gpt, jsonl, tmp_path, inline_cli):
    task = str(jsonl("held.jsonl", texts(5, 1)))
    command = ["evaluate", "--kind", "language_modeling", "--task", task, "--set", *SETTINGS]
    done = CliRunner().invoke(
        app, [*command, "--model", str(tiny_gpt), "--out", str(tmp_path / "out")]
    )
    assert done.exit_code == 0
    shown = " ".join(done.stdout.split())
    manifest = json.loads((tmp_path / "out/manifest.json").read_text())
    result = manifest["results"][0]
    assert f"{-result['test']['neg_bits_per_byte']['mean']:.4f}" in shown
    assert f"{-result['high']:.4f} to {-result['low']:.4f}" in shown


@pytest.mark.parametrize(("name", "value"), [("train_sizes", [4]), ("adapter", "lora")])
def test_settings_of_a_training_are_refused(name, value, tiny_gpt, jsonl, tmp_path, inline):
    with pytest.raises(UsageError, match=f"{name}.*language_modeling"):
        corpusfit.evaluate(
            model=tiny_gpt,
            task=jsonl("held.jsonl", texts(3, 1)),
            kind="language_modeling",
            out=tmp_path / "out",
            machine=inline,
            **{name: value},
        )
