"""Where to compute, in what precision, and from which seed.

What: `auto` settings resolved for this machine; torch's chances under a seed for a while.
Why: bf16 halves the time where the processor multiplies it, and doubles it where it does not.
Trade-off: on CPUs only what Linux reports for x86 counts; elsewhere `auto` means fp32, and
`bf16` has to be asked for.
Reference: torch.cuda.is_bf16_supported; the x86 flags avx512_bf16 and amx_bf16.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple, Protocol

from corpusfit.errors import MissingDependencyError, bad_setting

BATCH_TOKENS = {"cpu": 1_024, "cuda": 32_768}


class Wanted(Protocol):
    """What a plan says of arithmetic: to encode, to train or to fine-tune."""

    @property
    def device(self) -> str:
        """`auto`, `cpu` or `cuda`."""

    @property
    def precision(self) -> str:
        """`auto`, `fp32` or `bf16`."""


class Hardware(NamedTuple):
    """What a plan comes to on this machine: all that it says about arithmetic."""

    device: str
    precision: str
    batch_tokens: int

    @property
    def attention(self) -> str:
        """`eager` or `sdpa` for a model that is trained; a CPU's SDPA is the slower one in bf16."""
        return "eager" if (self.device, self.precision) == ("cpu", "bf16") else "sdpa"


def resolve(wanted: Wanted, group: str = "embed", batch_tokens: int = 0) -> Hardware:
    """Device (`cpu` or `cuda`), precision (`bf16` or `fp32`) and batch of a plan on this machine.

    Args:
        wanted: what was asked for.
        group: of the settings that it came from, for the error.
        batch_tokens: a batch that was asked for; 0 takes the device's own.

    Raises:
        UsageError: cuda was asked for and there is none.
        MissingDependencyError: torch is not installed.
    """
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
    """`cpu` or `cuda`, for `auto`, `cpu` or `cuda` of a group of settings; raises as `resolve`."""
    try:
        import torch
    except ImportError as e:
        raise MissingDependencyError("A transformer as --embedder", "embed") from e
    there = wanted != "cpu" and torch.cuda.is_available()
    if wanted == "cuda" and not there:
        raise bad_setting(
            f"{group}.device", "auto or cpu here", "cuda", "torch sees no CUDA device."
        )
    return "cuda" if there else "cpu"


def cpu_has_bf16(cpuinfo: Path = Path("/proc/cpuinfo")) -> bool:
    """Whether the processor multiplies bf16 itself, as far as Linux says."""
    try:
        lines = cpuinfo.read_text("utf-8", "replace").splitlines()
    except OSError:
        return False
    flags = next((line for line in lines if line.startswith("flags")), "").split()
    return "avx512_bf16" in flags or "amx_bf16" in flags


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Torch draws from this seed; its generators are put back after."""
    import torch

    devices = [torch.cuda.current_device()] if torch.cuda.is_available() else []
    with torch.random.fork_rng(devices):
        torch.manual_seed(seed)
        yield
