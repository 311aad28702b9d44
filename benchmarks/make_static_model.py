"""Make the model of the embedder `static`: all-MiniLM-L6-v2 distilled, in 8 bits.

The recipe is model2vec's: each token of the vocabulary alone through the model, the mean of its
states, PCA to 256 dimensions, and weights that fall with the token's frequency (Zipf by rank, then
SIF). Each token's vector becomes whole numbers of -127 to 127 and one float32 that scales them,
which model2vec reads too (`weights`). Last bits can differ between machines, and so can the bytes
that this writes.

Run: .venv/bin/python benchmarks/make_static_model.py
It writes src/corpusfit/embed/static_model/ and needs the extra minilm.
References: model2vec (https://github.com/MinishLab/model2vec); Arora et al. 2017 (SIF).
"""

from __future__ import annotations

import json
import re

import numpy as np
from safetensors.numpy import save
from threadpoolctl import threadpool_limits

from corpusfit.core.plan import EmbedPlan
from corpusfit.embed.folders import minilm_folder
from corpusfit.embed.static import PACKAGED
from corpusfit.embed.transformer import load_transformer

DIMENSIONS = 256
SIF = 1e-4  # the parameter `a` of Arora et al., with the value of model2vec
THREADS = 2  # as the last bits of LAPACK's results depend on their number
UNUSED = re.compile(r"\[unused\d+\]")
CONFIG = {
    "model_type": "model2vec",
    "architectures": ["StaticModel"],
    "normalize": True,
    "hidden_dim": DIMENSIONS,
    "max_length": 512,
}


def main() -> None:
    plan = EmbedPlan(precision="fp32", unit_length=False)
    encoder = load_transformer(minilm_folder(), plan, "minilm")
    tokenizer = encoder.tokenizer
    tokens = sorted(tokenizer.get_vocab().items(), key=lambda item: item[1])
    special = set(tokenizer.all_special_ids)
    used = np.array([i for t, i in tokens if i not in special and not UNUSED.fullmatch(t)])
    begin = tokenizer.cls_token_id
    end = tokenizer.sep_token_id
    reduced = principal_components(encoder.encode_ids([[begin, int(i), end] for i in used]))
    # special and unused tokens have zero vectors
    table = np.zeros((len(tokens), DIMENSIONS), dtype=np.float32)
    table[used] = reduced * sif_weights(len(used))[:, None]
    PACKAGED.mkdir(exist_ok=True)
    (PACKAGED / "model.safetensors").write_bytes(save(quantized(table)))
    (PACKAGED / "tokenizer.json").write_text(tokenizer.backend_tokenizer.to_str(), "utf-8")
    (PACKAGED / "config.json").write_text(json.dumps(CONFIG) + "\n")


def principal_components(vectors: np.ndarray) -> np.ndarray:
    """Project vectors onto their leading principal components, centered."""
    centered = vectors - vectors.mean(axis=0, dtype=np.float64).astype(np.float32)
    with threadpool_limits(THREADS, user_api="blas"):
        _, axes = np.linalg.eigh((centered.T @ centered).astype(np.float64))
        projected = centered @ axes[:, ::-1][:, :DIMENSIONS].astype(np.float32)
    # the sign of an eigenvector is arbitrary: make the largest entry of each component positive
    largest = np.abs(projected).argmax(axis=0)
    projected *= np.where(projected[largest, np.arange(DIMENSIONS)] < 0, -1, 1)
    return projected


def sif_weights(n: int) -> np.ndarray:
    """SIF weights of n tokens in order of frequency, estimated by Zipf's law; float32 [n]."""
    share = 1 / np.arange(2, n + 2)
    return (SIF / (SIF + share / share.sum())).astype(np.float32)


def quantized(table: np.ndarray) -> dict[str, np.ndarray]:
    """A float32 table [tokens, dim] as int8 [tokens, dim] and a weight for each token."""
    weights = np.abs(table).max(axis=1) / np.float32(127)
    rounded = np.rint(table / np.where(weights > 0, weights, 1)[:, None])
    return {"embeddings": rounded.astype(np.int8), "weights": weights}


if __name__ == "__main__":
    main()
