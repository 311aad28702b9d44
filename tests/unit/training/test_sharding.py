"""What is refused before a sharded training begins, and how a model is divided."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from corpusfit.core.errors import ModelError, UsageError
from corpusfit.training.plan import AdaptPlan
from corpusfit.training.sharding import launched_sharded, shard

torch = pytest.importorskip("torch", reason="the extra train is not installed")


def test_fsdp_of_accelerate_is_ours(monkeypatch):
    assert not launched_sharded()
    monkeypatch.setenv("ACCELERATE_USE_FSDP", "true")
    monkeypatch.setenv("FSDP_VERSION", "2")
    assert launched_sharded()
    assert not launched_sharded()  # accelerate itself does not see it


@pytest.mark.parametrize(
    ("variables", "named"),
    [
        ({"ACCELERATE_USE_DEEPSPEED": "true"}, "DeepSpeed"),
        ({"ACCELERATE_USE_MEGATRON_LM": "true"}, "Megatron"),
        ({"ACCELERATE_USE_FSDP": "true"}, "fsdp_version"),
        (
            {"ACCELERATE_USE_FSDP": "true", "FSDP_VERSION": "2", "FSDP_OFFLOAD_PARAMS": "true"},
            "offload",
        ),
    ],
)
def test_other_ways_to_launch_are_refused(monkeypatch, variables, named):
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(UsageError, match=named):
        launched_sharded()


def test_one_process_has_nothing_to_share_with():
    with pytest.raises(UsageError, match="torchrun --nproc-per-node"):
        shard(torch.nn.Linear(2, 2), 1, torch.device("cpu"))


def test_a_model_without_the_named_layers_is_refused(monkeypatch):
    monkeypatch.setenv("FSDP_TRANSFORMER_CLS_TO_WRAP", "LlamaDecoderLayer")
    with pytest.raises(ModelError, match="Linear has no LlamaDecoderLayer"):
        shard(torch.nn.Linear(2, 2), 2, torch.device("cpu"))


@pytest.mark.parametrize(
    ("group", "name", "value"),
    [
        ("objective", "name", "tsdae"),
        ("adapter", "kind", "pfeiffer"),
        ("train", "precision", "fp16"),
    ],
)
def test_what_cannot_be_sharded_is_refused(group, name, value):
    settings = {"model.name": "m", "train.shard": True, f"{group}.{name}": value}
    plan = AdaptPlan()
    for setting, given in settings.items():
        plan = plan.with_value(setting, given)
    with pytest.raises(UsageError, match=r"train\.shard"):
        plan.check()


@pytest.mark.slow
def test_a_divided_model_is_the_whole_one():
    script = Path(__file__).with_name("sharded.py")
    launch = ["-m", "torch.distributed.run", "--nproc-per-node", "2", "--standalone", str(script)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}
    done = subprocess.run(
        [sys.executable, *launch], check=False, capture_output=True, text=True, env=environment
    )
    assert done.returncode == 0, done.stderr[-3000:]
