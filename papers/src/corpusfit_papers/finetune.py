"""Fine-tune an encoder with a linear head to classify texts as in-domain or not."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from corpusfit.contracts import (
    EmbedPlan,
    MissingDependencyError,
    ModelError,
    ModelSetting,
    TransformerEncoder,
    bad_setting,
    find,
    load_transformer,
    resolve,
    seeded,
    token_batches,
    transformer_folder,
    write_bytes,
)
from corpusfit_papers.network import batch_tokens, new_model

EMBEDDER = ModelSetting(
    name="`method.embedder`",
    allowed="a transformer: minilm, a model folder or a Hugging Face hub id",
    otherwise="use `method.embedder=minilm`",
    extra="models",
)


@dataclass(frozen=True)
class Tuning:
    """Training settings."""

    epochs: int
    learning_rate: float  # constant learning rate of Adam
    batch: int  # most texts per step; an epoch is split into steps of equal size
    seed: int  # random seed of the head's weights, the order of texts and dropout


@dataclass(frozen=True, eq=False)
class Examples:
    """The n training texts."""

    ids: Sequence[list[int]]  # token ids of each text, none of them empty
    labels: NDArray[np.float32]  # float32 [n], 1 for texts of the domain and 0 for others
    weights: NDArray[np.float32]  # float32 [n], weights in the loss


@dataclass(frozen=True, eq=False)
class Tuned:
    """A fine-tuned encoder and its head in picklable form, for any process to open."""

    weights: NDArray[np.uint8]  # float32 parameters, as the bytes of a safetensors file
    config: str  # the model's configuration, JSON
    tokenizer: str  # tokenizer.json
    head: NDArray[np.float32]  # [d + 1], a weight for each dimension and the bias
    length: int  # most tokens of a text that are read, special tokens included


def finetune(
    folder: Path, inside: Sequence[str], outside: Sequence[str], weight: float, tuning: Tuning
) -> Tuned:
    """Train a transformer to classify texts as in-domain or not, by cross-entropy with Adam."""
    # A linear head reads the encoder's pooled states. Gradients are accumulated over as many
    # batches as a step needs. Master weights are float32; products run in bf16 where the hardware
    # supports it, so a logit can change by up to half a percent of their spread with the batch.
    # The head starts like torch's linear layer: starting at zero ranked as well, but made the
    # threshold at 0 worse (F1 0.68 and 0.77 against 0.83 and 0.89).
    # Reference: Aharoni and Goldberg (2020), Unsupervised Domain Clusters, sections 4.1 and A.4.
    hardware = resolve(EmbedPlan())
    import torch

    with seeded(tuning.seed):
        plan = EmbedPlan(embedder=str(folder), precision="fp32", unit_length=False)
        encoder = load_transformer(folder, plan, str(folder))
        labels = np.repeat([1.0, 0.0], [len(inside), len(outside)])
        weights = np.where(labels == 1.0, 1.0, weight)
        ids = encoder.tokens([*inside, *outside])
        examples = Examples(ids, labels.astype(np.float32), weights.astype(np.float32))
        head = torch.nn.Linear(encoder.dim, 1, device=encoder.model.device)
        parameters = [*encoder.model.parameters(), *head.parameters()]
        optimizer = torch.optim.Adam(parameters, lr=tuning.learning_rate)
        rng = np.random.default_rng(tuning.seed)
        n = len(ids)
        budget = batch_tokens(hardware.device)
        bf16 = hardware.precision == "bf16"
        encoder.model.train()
        for _ in range(tuning.epochs):
            for step in np.array_split(rng.permutation(n), -(-n // tuning.batch)):
                optimizer.zero_grad()
                accumulate(encoder, head, examples, step, budget, bf16=bf16)
                optimizer.step()
        encoder.model.eval()
        # a diverged model would score every text NaN
        if not all(bool(torch.isfinite(p).all()) for p in parameters):
            allowed = "small enough that weights stay finite"
            cure = "Use the default rate."
            raise bad_setting("`method.learning_rate`", allowed, tuning.learning_rate, cure)
    return _as_arrays(encoder, head)


def accumulate(
    encoder: TransformerEncoder,
    head: Any,
    examples: Examples,
    step: NDArray[np.int64],
    budget: int,
    *,
    bf16: bool,
) -> float:
    """Add the gradient of one step's mean loss to the parameters."""
    import torch

    device = encoder.model.device
    lengths = np.fromiter((len(examples.ids[i]) for i in step), np.int64, len(step))
    total = 0.0
    share = float(examples.weights[step].sum())
    for batch in token_batches(lengths, budget):
        places = step[batch]
        label, weight = (
            torch.from_numpy(a[places]).to(device) for a in (examples.labels, examples.weights)
        )
        with torch.autocast(device.type, torch.bfloat16, enabled=bf16):
            pooled = encoder.pooled([examples.ids[i] for i in places], lengths[batch])
        logits = head(pooled.float())[:, 0]
        loss = torch.nn.functional.binary_cross_entropy_with_logits(
            logits, label, weight, reduction="sum"
        )
        torch.autograd.backward(loss / share)
        total += loss.item()
    return total / share


def _as_arrays(encoder: TransformerEncoder, head: Any) -> Tuned:
    """Convert a trained encoder and head to their picklable form."""
    import torch
    from safetensors.torch import save

    backend = getattr(encoder.tokenizer, "backend_tokenizer", None)
    if backend is None:
        raise ModelError(
            f"`embed.embedder`: the tokenizer of {encoder.name} cannot be saved as JSON. Fine-tune "
            "a model with a fast tokenizer, such as minilm."
        )
    state = {k: v.detach().cpu().clone() for k, v in encoder.model.state_dict().items()}
    config = encoder.model.config.to_dict()
    config.pop("_name_or_path", None)
    flat = torch.cat([head.weight.detach()[0], head.bias.detach()]).cpu().numpy()
    return Tuned(
        weights=np.frombuffer(save(state, {"format": "pt"}), np.uint8),
        config=json.dumps(config, sort_keys=True),
        tokenizer=backend.to_str(),
        head=flat.astype(np.float32),
        length=encoder.max_length,
    )


def open_tuned(tuned: Tuned) -> TransformerEncoder:
    """Open a fine-tuned encoder with this machine's device and precision."""
    try:
        import torch
        from safetensors.torch import load
        from tokenizers import Tokenizer
        from transformers import PreTrainedTokenizerFast
    except ImportError as e:
        raise MissingDependencyError("A fine-tuned model", "models") from e
    hardware = resolve(EmbedPlan())
    model = new_model("AutoModel", tuned.config, "The fine-tuned encoder")
    data = tuned.weights.tobytes()
    if model.config.is_encoder_decoder:
        model = model.get_encoder()
    model.load_state_dict(load(data))
    model.config.use_cache = False
    dtype = torch.bfloat16 if hardware.precision == "bf16" else torch.float32
    return TransformerEncoder(
        name="fine-tuned",
        dim=int(model.config.hidden_size),
        fingerprint=hashlib.sha256(data).hexdigest(),
        model=model.eval().to(hardware.device, dtype),
        tokenizer=PreTrainedTokenizerFast(tokenizer_object=Tokenizer.from_str(tuned.tokenizer)),
        pooling="mean",
        max_length=tuned.length,
        batch_tokens=hardware.batch_tokens,
        unit_length=False,
        precision=hardware.precision,
    )


def write_folder(tuned: Tuned, folder: Path) -> None:
    """Write the encoder as a folder that `AutoModel.from_pretrained` and `--embedder` read."""
    from safetensors.numpy import save

    if json.loads(tuned.config).get("is_encoder_decoder"):
        raise ModelError(
            "The encoder of an encoder-decoder model cannot be saved as a model folder: "
            "transformers would initialize the decoder at random. Fine-tune another model."
        )
    head = {"weight": tuned.head[:-1].copy(), "bias": tuned.head[-1:].copy()}
    tokens = {"tokenizer_class": "PreTrainedTokenizerFast", "model_max_length": tuned.length}
    write_bytes(folder / "tokenizer.json", tuned.tokenizer.encode())
    write_bytes(folder / "tokenizer_config.json", json.dumps(tokens).encode())
    write_bytes(folder / "head.safetensors", save(head))
    write_bytes(folder / "model.safetensors", tuned.weights.tobytes())
    write_bytes(folder / "config.json", tuned.config.encode())


def encoder_folder(embedder: str) -> Path:
    """The folder of a transformer that can be fine-tuned; a hub id is downloaded."""
    if embedder == "static":
        cure = "A static embedder has no network to fine-tune; use `method.embedder=minilm`."
        raise bad_setting(EMBEDDER.name, EMBEDDER.allowed, embedder, cure)
    return transformer_folder(find(embedder, once=True, setting=EMBEDDER), EMBEDDER)
