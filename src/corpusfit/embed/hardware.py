"""Resolve device, precision and batch size on this machine, and seed torch."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from corpusfit.core.errors import MissingDependencyError, bad_setting

BATCH_TOKENS = {"cpu": 1_024, "cuda": 32_768}


class Wanted(Protocol):
    """A plan's settings: `auto`, `cpu` or `cuda`, and `auto`, `fp32` or `bf16`."""

    @property
    def device(self) -> str: ...  # noqa: D102
    @property
    def precision(self) -> str: ...  # noqa: D102


class Hardware(NamedTuple):
    """A plan's device, precision and batch size, resolved on this machine."""

    device: str
    precision: str
    batch_tokens: int

    @property
    def attention(self) -> str:
        """Attention implementation for training; SDPA is slower than `eager` on a CPU in bf16."""
        return "eager" if (self.device, self.precision) == ("cpu", "bf16") else "sdpa"


def resolve(wanted: Wanted, group: str = "embed", batch_tokens: int = 0) -> Hardware:
    """Resolve a plan's device (`cpu` or `cuda`), precision (`bf16` or `fp32`) and batch size."""
    # `auto` takes bf16 only where the hardware multiplies it: elsewhere bf16 doubles the time. On
    # CPUs only what Linux reports for x86 counts (the flags avx512_bf16 and amx_bf16).
    device = resolve_device(wanted.device, group)
    if wanted.precision != "auto":
        precision = wanted.precision
    elif device == "cuda":
        import torch

        precision = "bf16" if torch.cuda.is_bf16_supported(including_emulation=False) else "fp32"
    else:
        precision = "bf16" if cpu_has_bf16() else "fp32"
    return Hardware(device, precision, batch_tokens or BATCH_TOKENS[device])


def resolve_device(wanted: str, group: str) -> str:
    """Resolve `auto`, `cpu` or `cuda` of a group of settings; raises as `resolve`."""
    try:
        import torch
    except ImportError as e:
        raise MissingDependencyError(*_NEEDS[group]) from e
    available = wanted != "cpu" and torch.cuda.is_available()
    if wanted == "cuda" and not available:
        raise bad_setting(
            f"`{group}.device`", "auto or cpu here", "cuda", "torch sees no CUDA device."
        )
    return "cuda" if available else "cpu"


# what needs torch, and the extra that installs it, by the group of settings
_NEEDS = {
    "embed": ("A transformer as `embed.embedder`", "models"),
    "train": ("Training a model", "train"),
    "finetune": ("Evaluating a model", "models"),
}


def may_have_cuda() -> bool:
    """Whether a CUDA or ROCm device is possible: on Linux, if a driver's device file exists."""
    # torch, which knows for certain, takes over a second to import
    return sys.platform != "linux" or any(Path("/dev", name).exists() for name in _DRIVERS)


# device files of NVIDIA's driver, of the ones for WSL and Jetson (two names), and of AMD's
_DRIVERS = ("nvidiactl", "dxg", "nvhost-ctrl", "nvmap", "kfd")


def cpu_has_bf16(cpuinfo: Path = Path("/proc/cpuinfo")) -> bool:
    """Whether the processor multiplies bf16 natively, according to Linux."""
    try:
        lines = cpuinfo.read_text("utf-8", "replace").splitlines()
    except OSError:
        return False
    flags = next((line for line in lines if line.startswith("flags")), "").split()
    return "avx512_bf16" in flags or "amx_bf16" in flags


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Seed torch's random generators inside the context, and restore their state after it."""
    import torch

    devices = [torch.cuda.current_device()] if torch.cuda.is_available() else []
    with torch.random.fork_rng(devices):
        seed_generators(seed)
        yield


def seed_generators(seed: int) -> None:
    """Seed torch's random generators of the CPU and of the GPUs in use."""
    # the numbers are those after `torch.manual_seed`, which keeps three stack traces for devices
    # that do not exist: a millisecond or more of every step of a training
    import torch

    torch.default_generator.manual_seed(seed)
    cuda: Any = torch.cuda
    if cuda.is_initialized():
        cuda.manual_seed_all(seed)
