"""The keywords of the functions of the API; docs/make_settings.py writes this module."""

from collections.abc import Sequence
from pathlib import Path
from typing import Literal, TypedDict


class MachineOptions(TypedDict, total=False):
    """Keywords of every function that takes a machine, in its place."""

    engine: str | None
    workers: int | None
    cache: str | Path | None
    verify: bool | None


class ChooseOptions(MachineOptions, total=False):
    """Keywords of `choose`."""

    policy: Literal["top", "continuous", "resample"] | None
    fraction: float | None
    fraction_of: Literal["words", "segments"] | None
    segments: int | None
    tokens: int | None
    threshold: float | None
    balance: str | None
    clusters: str | Path | None
    quota: str | None
    dedup: Literal["exact", "near", "none"] | None
    keep: str | Sequence[str] | None


class SelectOptions(ChooseOptions, total=False):
    """Keywords of `select`."""

    method: str | None
    embedder: str | Path | None
    unit: Literal["window", "sentence", "paragraph", "fixed", "document"] | None
    text_field: str | None
    where: str | None
    scores: str | Path | None
    strict: bool | None
    target_field: str | None
    seed: int | None


class RankOptions(MachineOptions, total=False):
    """Keywords of `rank`."""

    fraction: float | None
    embedder: str | Path | None
    unit: Literal["window", "sentence", "paragraph", "fixed", "document"] | None
    text_field: str | None
    where: str | None
    scores: str | Path | None
    target_field: str | None
    metric: str | None
    label_field: str | None
    seed: int | None


class AdaptOptions(MachineOptions, total=False):
    """Keywords of `adapt`."""

    model: str | Path | None
    init: Literal["tiny", "mini", "small", "base"] | None
    new_head: bool | None
    add_tokens: int | None
    then_task: bool | None
    replay_share: float | None
    objective: str | None
    whole_word: bool | None
    loss_on: Literal["all", "assistant", "completion"] | None
    weights: Literal["off", "lambda", "resample", "mask+lambda"] | None
    max_steps: int | None
    epochs: float | None
    batch: int | None
    length: int | None
    learning_rate: float | None
    adapter: str | None
    text_field: str | None
    seed: int | None


class EvaluateOptions(MachineOptions, total=False):
    """Keywords of `evaluate`."""

    model: str | Path | None
    adapter: str | None
    frozen: bool | None
    kind: str | None
    metric: str | None
    text_field: str | None
    loss_on: Literal["all", "assistant", "completion"] | None
    label_field: str | None
    epochs: int | None
    learning_rate: float | None
    batch: int | None
    length: int | None
    seed: int | None


class ContaminationOptions(MachineOptions, total=False):
    """Keywords of `contamination`."""

    text_field: str | None


class SplitOptions(MachineOptions, total=False):
    """Keywords of `split`."""

    dev: float | None
    test: float | None
    near: bool | None
    text_field: str | None
    strict: bool | None
    seed: int | None


class ClustersOptions(MachineOptions, total=False):
    """Keywords of `clusters`."""

    k: str | int | Sequence[int] | None
    components: int | None
    sample: int | None
    per_source: int | None
    truth: str | None
    embedder: str | Path | None
    unit: Literal["window", "sentence", "paragraph", "fixed", "document"] | None
    text_field: str | None
    seed: int | None


class FitOptions(MachineOptions, total=False):
    """Keywords of `fit`."""

    model: str | Path | None
    kind: str | None
    metric: str | None
    text_field: str | None
    label_field: str | None
    loss_on: Literal["all", "assistant", "completion"] | None
    seed: int | None
