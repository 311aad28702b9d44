"""Encode units: an encoder is prepared once and loaded in each worker."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

from corpusfit.core.artifacts import user_path
from corpusfit.core.engine.worker import on_device
from corpusfit.core.hub import HubName
from corpusfit.core.plan import AUTO, EmbedPlan
from corpusfit.embed.contract import Encoder
from corpusfit.embed.feeding import load_fed
from corpusfit.embed.folders import (
    MINILM,
    commit_of,
    default_embedder,
    find,
    is_static,
)
from corpusfit.embed.hardware import resolve, to_feed
from corpusfit.embed.static import PACKAGED, load_static, static_fingerprint
from corpusfit.embed.transformer import fingerprint, load_transformer

__all__ = [
    "Encoder",
    "commit",
    "feeds",
    "has_network",
    "is_of_hub",
    "load",
    "precision_of",
    "prepare",
    "reads_whole",
    "wants_gpu",
]


def prepare(plan: EmbedPlan) -> str:
    """Make the planned encoder ready to load, once, before the first worker starts."""
    plan.check()
    if on_device() is not None and has_network(plan.embedder):
        # to look at a GPU would take some of its memory in each worker
        return load(plan).fingerprint
    folder, static = _folder(plan.embedder, check_hub=True)
    return static_fingerprint(folder) if static else fingerprint(folder, plan)


def load(plan: EmbedPlan) -> Encoder:
    """Load the planned encoder; steps that `prepare` has not done are done now."""
    folder, static = _folder(plan.embedder, check_hub=False)
    if static:
        return load_static(folder, plan.embedder)
    if on_device() is not None:
        return load_fed(folder, plan)
    return load_transformer(folder, plan, plan.embedder)


def precision_of(plan: EmbedPlan) -> str:
    """What a prepared transformer computes in on this machine; empty for a static encoder."""
    static = _folder(plan.embedder, check_hub=False)[1]
    return "" if static else resolve(plan).precision


def commit(embedder: str) -> str:
    """The commit of an embedder of the hub that `prepare` has downloaded; empty if unknown."""
    return commit_of(embedder, find(embedder, check_hub=False))


def is_of_hub(embedder: str) -> bool:
    """Whether an embedder is named by a hub id."""
    if embedder in (MINILM, "static", AUTO):
        return False
    return HubName.parsed(embedder) is not None and not user_path(embedder).is_dir()


def reads_whole(plan: EmbedPlan) -> bool:
    """Whether a static encoder's tokenizer reads every text whole, some ten times slower."""
    # needed where a text's tokens may differ from those of its words
    folder, static = _folder(plan.embedder, check_hub=False)
    return static and load_static(folder, plan.embedder).words is None


def wants_gpu(plan: EmbedPlan) -> bool:
    """Whether the planned encoder uses a GPU if there is one; static embedders do not."""
    return plan.device != "cpu" and has_network(plan.embedder)


def feeds(plan: EmbedPlan) -> Callable[[], tuple[str, ...]] | None:
    """What lists the GPUs that a job feeds which encodes by a plan (`Job.devices`)."""
    return partial(to_feed, plan.device) if has_network(plan.embedder) else None


def has_network(embedder: str) -> bool:
    """Whether an embedder is a transformer, not static, by its name or folder (unopened)."""
    named = user_path(embedder)
    static = embedder == "static" or (named.is_dir() and is_static(named))
    return not static


def _folder(embedder: str, *, check_hub: bool) -> tuple[Path, bool]:
    """Folder of the model to load, and whether the model is static."""
    embedder = default_embedder() if embedder == AUTO else embedder
    if embedder == "static":
        return PACKAGED, True
    folder = find(embedder, check_hub=check_hub)
    return folder, is_static(folder)
