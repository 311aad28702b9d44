"""What is refused before a sharded training begins, and how a model is divided."""

import errno
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from corpusfit.core.errors import ModelError, StorageError, TrainingError, UsageError
from corpusfit.training.plan import AdaptPlan
from corpusfit.training.sharding import launched_sharded, naming_lost_processes, save, shard

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


@pytest.fixture
def group():
    """Processes of which there is one."""
    torch.distributed.init_process_group(
        "gloo", store=torch.distributed.HashStore(), rank=0, world_size=1
    )
    yield
    torch.distributed.destroy_process_group()


UNUSED = SimpleNamespace(state={})
"""An optimizer that has made no step."""


@pytest.mark.usefixtures("group")
def test_a_full_disk_is_named_with_the_checkpoint_that_it_ends(tmp_path):
    """Files may not grow, as if the disk were full."""
    resource = pytest.importorskip("resource")
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (5_000, limits[1]))
    try:
        with pytest.raises(StorageError, match="step-7/shards"):
            save(tmp_path / "step-7/shards", {"a": torch.zeros(9_999)}, UNUSED, main=True)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)


@pytest.mark.usefixtures("group")
def test_an_error_of_the_system_in_a_checkpoint_has_its_cure(tmp_path, monkeypatch):
    def full(*_, **__):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("torch.distributed.checkpoint.filesystem._write_item", full)
    with pytest.raises(StorageError, match=r"shards: No space left.*Make room"):
        save(tmp_path / "shards", {"a": torch.zeros(9)}, UNUSED, main=True)


@pytest.mark.parametrize(
    "error",
    [
        RuntimeError("[/gloo/gloo/transport/tcp/pair.cc:553] Connection closed by peer"),
        torch.distributed.DistBackendError("NCCL error: remote process exited"),
    ],
)
def test_a_process_that_has_ended_is_told_apart_from_other_errors(error):
    with pytest.raises(TrainingError, match="Another process"), naming_lost_processes():
        raise error
    with pytest.raises(RuntimeError, match="shape"), naming_lost_processes():
        raise RuntimeError("shape mismatch")


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


@pytest.mark.long
def test_a_divided_model_is_the_whole_one():
    script = Path(__file__).with_name("sharded.py")
    launch = ["-m", "torch.distributed.run", "--nproc-per-node", "2", "--standalone", str(script)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}
    done = subprocess.run(
        [sys.executable, *launch], check=False, capture_output=True, text=True, env=environment
    )
    assert done.returncode == 0, done.stderr[-3000:]
