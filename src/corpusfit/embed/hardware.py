"""Where to compute, and in what precision.

What: `auto` settings resolved for this machine.
Why: bf16 halves the time where the processor multiplies it, and doubles it where it does not.
Trade-off: on CPUs only what Linux reports for x86 counts; elsewhere `auto` means fp32, and
`bf16` has to be asked for.
Reference: torch.cuda.is_bf16_supported; the x86 flags avx512_bf16 and amx_bf16.
"""

from __future__ import annotations

from pathlib import Path

from corpusfit.errors import MissingDependencyError, bad_setting
from corpusfit.plan import EmbedPlan

__all__ = ["cpu_has_bf16", "resolve"]


def resolve(plan: EmbedPlan) -> tuple[str, str]:
    """Device (`cpu` or `cuda`) and precision (`bf16` or `fp32`) of a plan on this machine.

    Raises:
        UsageError: cuda was asked for and there is none.
        MissingDependencyError: torch is not installed.
    """
    try:
        import torch
    except ImportError as e:
        raise MissingDependencyError("A transformer as --embedder", "embed") from e
    there = plan.device != "cpu" and torch.cuda.is_available()
    if plan.device == "cuda" and not there:
        raise bad_setting("embed.device", "auto or cpu here", "cuda", "torch sees no CUDA device.")
    if plan.precision != "auto":
        return ("cuda" if there else "cpu"), plan.precision
    if there:
        fast = torch.cuda.is_bf16_supported(including_emulation=False)
        return "cuda", "bf16" if fast else "fp32"
    return "cpu", "bf16" if cpu_has_bf16() else "fp32"


def cpu_has_bf16(cpuinfo: Path = Path("/proc/cpuinfo")) -> bool:
    """Whether the processor multiplies bf16 itself, as far as Linux says."""
    try:
        lines = cpuinfo.read_text("utf-8", "replace").splitlines()
    except OSError:
        return False
    flags = next((line for line in lines if line.startswith("flags")), "").split()
    return "avx512_bf16" in flags or "amx_bf16" in flags
