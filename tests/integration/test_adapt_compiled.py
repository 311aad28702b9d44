"""`train.compile`: the losses of a training that is not compiled, and what is refused."""

import json

import pytest
from journeys import prose

import corpusfit
from corpusfit.core.errors import UsageError

torch = pytest.importorskip("torch")
pytest.importorskip("accelerate", reason="the extra train is not installed")
SETTINGS = ["train.device=cpu", "train.precision=fp32", "model.dropout=0"]


def trained(tmp_path, inline, data, model, *settings, **words):
    """Losses of three steps and of held-out text, and the names of the weights."""
    from safetensors.torch import load_file

    out = tmp_path / f"out-{len(settings)}"
    words = {"model": str(model), "max_steps": 3, "batch": 4, "length": 32} | words
    corpusfit.adapt(data=data, out=out, machine=inline, settings=[*SETTINGS, *settings], **words)
    records = [json.loads(line) for line in (out / "losses.jsonl").read_text().splitlines()]
    losses = [record.get("loss", record.get("heldout")) for record in records]
    return losses, set(load_file(out / "model.safetensors"))


@pytest.mark.long
@pytest.mark.filterwarnings("ignore")  # of torch, about itself
def test_the_losses_are_those_of_a_training_that_is_not_compiled(tmp_path, inline, jsonl, tiny_lm):
    data = jsonl("data.jsonl", prose("task", 40))
    plain, names = trained(tmp_path, inline, data, tiny_lm)
    compiled, same = trained(tmp_path, inline, data, tiny_lm, "train.compile=true")

    assert same == names
    assert len(compiled) == len(plain) > 3
    for ours, theirs in zip(compiled, plain, strict=True):
        assert ours == pytest.approx(theirs, rel=1e-5)


def test_a_machine_without_a_compiler_is_told_before_training(
    tmp_path, inline, jsonl, tiny_lm, monkeypatch
):
    def missing(_):
        raise RuntimeError("No working C++ compiler found")

    monkeypatch.setattr(torch, "compile", missing)
    data = jsonl("data.jsonl", prose("task", 40))
    with pytest.raises(UsageError, match=r"train.compile.*No working C\+\+ compiler"):
        trained(tmp_path, inline, data, tiny_lm, "train.compile=true")
    assert not (tmp_path / "out-1/.corpusfit/checkpoints").exists()


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        (["objective.name=tsdae"], "objective.name"),
        (["train.shard=true"], "train.compile"),
    ],
)
def test_what_cannot_be_compiled_is_refused(tmp_path, inline, jsonl, tiny_lm, settings, named):
    data = jsonl("data.jsonl", prose("task", 10))
    with pytest.raises(UsageError, match=named):
        trained(tmp_path, inline, data, tiny_lm, "train.compile=true", *settings)
