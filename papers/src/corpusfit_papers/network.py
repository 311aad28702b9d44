"""What the methods with a network share: batches, and a model from its stored configuration."""

from __future__ import annotations

import json
from typing import Any

from corpusfit.contracts import require_own_code, seeded

ROWS = 4_096
"""Texts scored at once: enough to pack batches by length."""


def batch_tokens(device: str) -> int:
    """Tokens per training batch; all layers' activations are in memory."""
    return 1_024 if device == "cpu" else 8_192


def new_model(kind: str, config: str, what: str) -> Any:
    """A model of one of transformers' automatic classes in float32, with weights to overwrite.

    Args:
        kind: the class's name.
        config: the model's configuration, JSON.
        what: the model, in the user's words.

    Raises:
        ModelError: the configuration names code of its own.
        ImportError: transformers or torch are not installed.
    """
    import torch
    import transformers

    fields = json.loads(config)
    require_own_code(fields, what)
    settings = transformers.AutoConfig.for_model(fields.pop("model_type"), **fields)
    with seeded(0):
        return getattr(transformers, kind).from_config(
            settings, dtype=torch.float32, trust_remote_code=False
        )
