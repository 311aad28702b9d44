"""Resolve device, precision and batch size on this machine, and seed torch."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from corpusfit.core.errors import MissingDependencyError, bad_setting
from corpusfit.core.plan import GPUS, kind_of, size_for

if TYPE_CHECKING:
    import torch

BATCH_TOKENS = {"cpu": 1_024, "gpu": 32_768}

# What `auto` takes, by the group of settings: the first that this machine has, else its CPU. To
# encode, it does not take mps or xpu, on which nobody has measured that it is faster.
_PREFERRED = {"embed": ("cuda",), "train": GPUS, "finetune": GPUS}


class Wanted(Protocol):
    """A plan's settings: a device or `auto`, and `auto`, `fp32` or `bf16`."""

    @property
    def device(self) -> str: ...  # noqa: D102
    @property
    def precision(self) -> str: ...  # noqa: D102


class Hardware(NamedTuple):
    """A plan's device, precision and batch size, resolved on this machine."""

    device: str  # as torch names it: `cpu`, `cuda`, `cuda:1`, `mps` or `xpu`
    precision: str
    batch_tokens: int

    @property
    def kind(self) -> str:
        """The device without its number, as all of a kind compute alike."""
        return kind_of(self.device)

    @property
    def attention(self) -> str:
        """Attention implementation for training, unless `cpu_bf16` has a faster one."""
        return "eager" if self.cpu_bf16 else "sdpa"

    @property
    def cpu_bf16(self) -> bool:
        """A CPU in bf16: SDPA is slower than `eager`, and causal attention in blocks is fastest."""
        return (self.device, self.precision) == ("cpu", "bf16")

    @property
    def varlen(self) -> list[str]:
        """Attention implementations that take lengths of packed texts instead of a mask."""
        from transformers.utils import is_flash_attn_2_available, is_flash_attn_3_available

        if (self.kind, self.precision) != ("cuda", "bf16"):
            return []
        found = {3: is_flash_attn_3_available(), 2: is_flash_attn_2_available()}
        return [f"flash_attention_{version}" for version, here in found.items() if here]


def resolve(wanted: Wanted, group: str = "embed", batch_tokens: int = 0) -> Hardware:
    """Resolve a plan's device, precision (`bf16`, `fp32` or `fp16`) and batch size."""
    # `auto` takes bf16 only where the hardware multiplies it: elsewhere bf16 doubles the time. On
    # CPUs only what Linux reports for x86 counts (the flags avx512_bf16 and amx_bf16). Apple's
    # GPUs have it from macOS 14 on, but not all of torch's operators do. CUDA devices without it
    # multiply fp16, whose gradients have to be scaled: `adapt` does, fine-tuning does not.
    device = resolve_device(wanted.device, group)
    if wanted.precision != "auto":
        precision = wanted.precision
    elif _has_bf16(device):
        precision = "bf16"
    else:
        half = kind_of(device) == "cuda" and group.rpartition(".")[2] in ("embed", "train")
        precision = "fp16" if half else "fp32"
    return Hardware(device, precision, batch_tokens or size_for(device, BATCH_TOKENS))


def dtype_of(precision: str) -> torch.dtype:
    """The format that `bf16`, `fp16` or `fp32` names."""
    import torch

    return {"bf16": torch.bfloat16, "fp16": torch.float16}.get(precision, torch.float32)


def multiplied_in(states: torch.Tensor) -> torch.dtype:
    """The format in which a matrix product of a tensor is computed here: autocast's, or its own."""
    import torch

    device = states.device.type
    return torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else states.dtype


def _has_bf16(device: str) -> bool:
    """Whether a device multiplies bf16 natively."""
    import torch

    kind = kind_of(device)
    if kind == "cuda":
        with torch.cuda.device(device) if device != kind else nullcontext():
            return bool(torch.cuda.is_bf16_supported(including_emulation=False))
    if kind == "xpu":
        return torch.xpu.is_bf16_supported()
    return kind == "cpu" and cpu_has_bf16()


def devices() -> list[str]:
    """The devices of this machine that torch can use: the CPU, GPUs by kind and by number."""
    import torch

    found = ["cpu"]
    for kind, module in (("cuda", torch.cuda), ("mps", torch.backends.mps), ("xpu", torch.xpu)):
        if not module.is_available():
            continue
        found.append(kind)
        count = 0 if kind == "mps" else module.device_count()
        found += [f"{kind}:{i}" for i in range(count)]
    return found


def found_devices() -> list[str]:
    """As `devices`, but torch is imported only where it is installed and may find a GPU."""
    possible = may_have_cuda() or Path("/dev/dri").exists()  # an Intel GPU
    return devices() if possible and find_spec("torch") is not None else ["cpu"]


def to_feed(wanted: str) -> tuple[str, ...]:
    """The GPUs of this machine that encode; none if CPUs do.

    All of a kind that are the same model as the first, since another may round otherwise.
    """
    # torch is slow to import, and on most machines without a driver `auto` is the CPU
    if wanted == "cpu" or (wanted == "auto" and not may_have_cuda()):
        return ()
    found = resolve_device(wanted, "embed")
    numbered = [name for name in devices() if name.startswith(f"{found}:")]
    if not numbered:
        return (found,) * (found != "cpu")
    import torch

    model_of = torch.get_device_module(found).get_device_name
    return tuple(name for name in numbered if model_of(name) == model_of(numbered[0]))


def use(device: str) -> None:
    """Make a numbered GPU the one that this thread means by its kind."""
    import torch

    kind, _, number = device.partition(":")
    if number:
        torch.get_device_module(kind).set_device(int(number))


@contextmanager
def fast_products(device: str, precision: str) -> Iterator[None]:
    """Multiply float32 as TF32 on CUDA devices that have it; in `fp16` as float16."""
    import torch

    before = torch.get_float32_matmul_precision()
    try:
        if kind_of(device) == "cuda":
            torch.set_float32_matmul_precision("high")
        half = precision == "fp16"
        with torch.autocast(kind_of(device), torch.float16) if half else nullcontext():
            yield
    finally:
        torch.set_float32_matmul_precision(before)


def resolve_device(wanted: str, group: str) -> str:
    """Resolve the device, or `auto`, of a group of settings; raises as `resolve`."""
    try:
        import torch  # noqa: F401
    except ImportError as e:
        raise MissingDependencyError(*_NEEDS[group]) from e
    if wanted == "cpu":
        return wanted
    here = devices()
    if wanted == "auto":
        preferred = _PREFERRED[group.rpartition(".")[2]]
        return next((kind for kind in preferred if kind in here), "cpu")
    if wanted not in here:
        allowed = f"{', '.join(['auto', *here[:-1]])} or {here[-1]} here"
        cure = f"torch sees no device {wanted}."
        raise bad_setting(f"`{group}.device`", allowed, wanted, cure)
    return wanted


# what needs torch, and the extra that installs it, by the group of settings
_NEEDS = {
    "embed": ("A transformer as `embed.embedder`", "models"),
    "train": ("Training a model", "train"),
    "finetune": ("Evaluating a model", "models"),
}


def memory(device: str, limit: Path = Path("/sys/fs/cgroup/memory.max")) -> int | None:
    """Bytes of memory of the machine, or of the container's limit; of `cuda` those that are free.

    None where it is unknown, as on `xpu`.
    """
    if kind_of(device) == "cuda":
        import torch

        # what torch has reserved and does not use is free for it
        unused = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
        return int(torch.cuda.mem_get_info(device)[0]) + unused
    if kind_of(device) == "xpu":
        return None
    try:
        whole = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):  # Windows
        return None
    with contextlib.suppress(OSError, ValueError):
        return min(whole, int(limit.read_text()))
    return whole


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
    with ExitStack() as stack:
        stack.enter_context(torch.random.fork_rng(devices))
        if torch.xpu.is_available():
            others = [torch.xpu.current_device()]
            stack.enter_context(torch.random.fork_rng(others, device_type="xpu"))
        if torch.backends.mps.is_available():
            stack.callback(torch.mps.set_rng_state, torch.mps.get_rng_state())
        seed_generators(seed)
        yield


def seed_generators(seed: int) -> None:
    """Seed torch's random generators of the CPU and of the GPUs in use."""
    # the numbers are those after `torch.manual_seed`, which keeps three stack traces for devices
    # that do not exist: a millisecond or more of every step of a training
    import torch

    torch.default_generator.manual_seed(seed)
    modules: tuple[Any, ...] = (torch.cuda, torch.xpu)
    for module in modules:
        if module.is_initialized():
            module.manual_seed_all(seed)
    if torch.backends.mps.is_available():
        torch.mps.manual_seed(seed)
