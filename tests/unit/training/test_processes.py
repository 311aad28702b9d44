"""Accelerate as `adapt` sets it up."""

from importlib.util import find_spec

import pytest

from corpusfit.core.errors import UsageError
from corpusfit.training.trainer import start_accelerator

pytestmark = pytest.mark.skipif(
    not find_spec("accelerate"), reason="the extra train is not installed"
)


def test_a_second_training_may_take_another_device(tmp_path):
    """Accelerate itself refuses it, or silently keeps the first device."""
    import torch
    from accelerate.state import PartialState

    assert start_accelerator("cpu").device == torch.device("cpu")
    PartialState._shared_state["device"] = torch.device("cuda")  # left by an earlier training
    again = start_accelerator("cpu")
    assert (again.device, again.num_processes) == (torch.device("cpu"), 1)


def test_precision_and_accumulation_are_not_left_to_accelerate(tmp_path, monkeypatch):
    monkeypatch.setenv("ACCELERATE_MIXED_PRECISION", "bf16")
    found = start_accelerator("cpu")
    assert found.mixed_precision == "no"
    assert found.gradient_accumulation_steps == 1


@pytest.mark.parametrize("name", ["wandb", "mlflow"])
def test_a_tracker_that_is_not_installed(tmp_path, name):
    try:
        __import__(name)
    except ImportError:
        with pytest.raises(UsageError, match=rf"^`track` must .*'{name}'.*pip install {name}$"):
            start_accelerator("cpu", name)
    else:
        pytest.skip(f"{name} is installed")


def test_no_such_tracker(tmp_path):
    with pytest.raises(UsageError, match=r"track.*tensorboard, wandb, mlflow.*'paper'"):
        start_accelerator("cpu", "paper")
