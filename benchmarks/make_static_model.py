"""Make the model of the embedder `static`: all-MiniLM-L6-v2 distilled, in 8 bits.

`static:minilm` distils 256 dimensions in 32 bits (embed/distill.py). Here each token's vector
becomes whole numbers of -127 to 127 and one float32 that scales them, which model2vec reads too
(`weights`). The last bits of a distillation can differ between machines, and so can the bytes that
this writes.

Run: .venv/bin/python benchmarks/make_static_model.py
It writes src/corpusfit/embed/static_model/ and needs the extra minilm.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
from safetensors.numpy import load_file, save

from corpusfit.embed.folders import minilm_folder
from corpusfit.embed.static import PACKAGED, distilled_folder


def main() -> None:
    with tempfile.TemporaryDirectory() as cache:
        source = distilled_folder(minilm_folder(), Path(cache))
        table = load_file(source / "model.safetensors")["embeddings"]
        PACKAGED.mkdir(exist_ok=True)
        (PACKAGED / "model.safetensors").write_bytes(save(quantized(table)))
        for name in ("tokenizer.json", "config.json"):
            (PACKAGED / name).write_bytes((source / name).read_bytes())


def quantized(table: np.ndarray) -> dict[str, np.ndarray]:
    """A float32 table [tokens, dim] as int8 [tokens, dim] and a weight for each token."""
    weights = np.abs(table).max(axis=1) / np.float32(127)
    rounded = np.rint(table / np.where(weights > 0, weights, 1)[:, None])
    return {"embeddings": rounded.astype(np.int8), "weights": weights}


if __name__ == "__main__":
    main()
