"""Contextual embeddings from any Hugging Face transformer."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from corpusfit.core.errors import MissingDependencyError, ModelError, raise_machine_fault
from corpusfit.core.plan import AUTO, EmbedPlan
from corpusfit.core.types import Texts, Vectors
from corpusfit.embed.contract import Encoder, Progress, digest
from corpusfit.embed.folders import (
    EMBEDDER,
    MINILM,
    Pooling,
    file_digests,
    read_pooling,
    transformer_folder,
)
from corpusfit.embed.hardware import fast_products, resolve
from corpusfit.embed.prediction import reads_ahead
from corpusfit.kernels.word_form import word_form

if TYPE_CHECKING:
    import torch

# Texts tokenised at once: few enough to bound the lists of tokens, enough to sort by length.
CHUNK = 16_384
# Tokens of a text: one of 128,000 tokens, which some decoders allow, would need hours and all
# memory.
MAX_TOKENS = 8_192
DEFAULT_LENGTH = 512  # for models that state no limit, such as T5 and XLNet
LOCAL = {"local_files_only": True, "trust_remote_code": False}
# Characters per token: no tokenizer averages more, so a text is cut to that many before it is
# tokenised.
CHARACTERS = 64

_FEW = 3  # tokens
# of the largest number of an embedding; in half precision it may differ by some hundredths
_ROUNDING = {"fp32": 1e-3, "bf16": 0.05, "fp16": 0.05}

Ids: TypeAlias = Sequence[Sequence[int] | NDArray[np.int32]]
"""Token ids of n texts."""


@dataclass(frozen=True, eq=False)
class TransformerEncoder(Encoder):
    """A loaded transformer and the pooling of its states into one embedding."""

    # The model can be an encoder, a decoder (GPT-2) or the encoder half of an encoder-decoder (T5),
    # in eager PyTorch with its library code. In bf16 the last bits of an embedding depend on the
    # texts in its batch; repeating a call gives the same bits.
    # Reference: Aharoni & Goldberg, Unsupervised Domain Clusters, section 2.2, for the mean.
    name: str
    dim: int
    fingerprint: str
    model: Any  # torch module in evaluation mode, on its device
    tokenizer: Any
    pooling: str  # `mean` of the last hidden states of a text's tokens, or `cls`
    max_length: int  # most tokens of a text, special tokens included; the rest is truncated
    batch_tokens: int  # most tokens of a batch, rows times longest row
    unit_length: bool  # scale embeddings to length 1
    precision: str  # `fp32`, `bf16` (of the weights too) or `fp16` (of products alone)
    prompt: str = ""  # before each text
    pads: bool = True  # whether texts of several lengths go through the model together

    def encode(self, texts: Sequence[str] | Texts, on_progress: Progress | None = None) -> Vectors:
        """One embedding per text; see `Encoder.encode`."""
        out = np.empty((len(texts), self.dim), dtype=np.float32)
        for start in range(0, len(texts), CHUNK):
            part = texts[start : start + CHUNK]
            written = part.to_pylist() if isinstance(part, pa.Array) else part
            ids = self.tokens([word_form(text) for text in written])
            out[start : start + CHUNK] = self.encode_ids(ids, on_progress)
        return out

    def encode_ids(self, ids: Ids, on_progress: Progress | None = None) -> Vectors:
        """One embedding per list of token ids, float32 [n, dim]; no list may be empty."""
        import torch

        lengths = np.fromiter(map(len, ids), dtype=np.int64, count=len(ids))
        out = np.empty((len(ids), self.dim), dtype=np.float32)
        done = 0
        reported = 0
        every = int(lengths.sum())
        encoded = []
        kind = self.model.device.type
        try:
            with torch.inference_mode(), fast_products(kind, self.precision):
                for batch in token_batches(lengths, self.batch_tokens, pads=self.pads):
                    # stays on the device, as waiting for it would leave a GPU idle
                    vectors = self.pooled([ids[i] for i in batch], lengths[batch])
                    encoded.append((batch, vectors.float()))
                    if on_progress is not None:
                        done += int(lengths[batch].sum())
                        # texts are counted by their tokens, because the longest come first
                        on_progress(len(ids) * done // every - reported)
                        reported = len(ids) * done // every
                for batch, vectors in encoded:
                    out[batch] = vectors.cpu().numpy()
        except torch.OutOfMemoryError as e:
            raise _too_large(self.batch_tokens, kind) from e
        if self.precision == "fp16" and not np.isfinite(out).all():
            raise ModelError(
                f"{self.name} has numbers that are too large for fp16, which GPUs without bf16 "
                "compute in. Run the same command again with `embed.precision=fp32`."
            )
        return out

    def tokens(self, texts: Sequence[str]) -> list[list[int]]:
        """Token ids of each text, truncated; a text without tokens is one padding token."""
        ids: list[list[int]] = self.tokenizer(
            [(self.prompt + text)[: CHARACTERS * self.max_length] for text in texts],
            truncation=True,
            max_length=self.max_length,
            return_attention_mask=False,
            return_token_type_ids=False,
        )["input_ids"]
        return [row or [self._fill] for row in ids]

    @property
    def _fill(self) -> int:
        """Token id for padding; any id works because it is masked (GPT-2 has no padding token)."""
        tokenizer = self.tokenizer
        for token in (tokenizer.pad_token_id, tokenizer.eos_token_id, tokenizer.bos_token_id):
            if token is not None:
                return int(token)
        return 0

    def pooled(self, ids: Ids, lengths: NDArray[np.int64]) -> torch.Tensor:
        """Embeddings of one batch on the model's device, with gradients."""
        import torch

        device = self.model.device
        rows = [torch.tensor(row, dtype=torch.long) for row in ids]
        tokens = torch.nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=self._fill)
        cls = self.tokenizer.cls_token_id
        begins = cls is not None and bool((tokens[:, 0] == cls).all())
        real = torch.from_numpy(lengths)
        if device.type == "cuda":  # from pinned memory it is copied while the GPU computes
            tokens = tokens.pin_memory()
            real = real.pin_memory()
        tokens = tokens.to(device, non_blocking=True)
        real = real.to(device, non_blocking=True)
        mask = torch.arange(tokens.shape[1], device=device) < real[:, None]
        full = lengths[0] == lengths[-1]  # no padding: attention without a mask is faster
        states = self.model(
            input_ids=tokens, attention_mask=None if full else mask.long()
        ).last_hidden_state
        if self.pooling == "mean":  # summed in float32 for any type of states
            masked = states.masked_fill(~mask[:, :, None], 0)
            pooled = masked.sum(1, dtype=torch.float32) / real[:, None]
        else:
            # a decoder's first state has read nothing; its last state has read the whole text
            at = torch.zeros_like(real) if begins else real - 1
            pooled = states[torch.arange(len(states), device=device), at]
        return torch.nn.functional.normalize(pooled.float(), dim=1) if self.unit_length else pooled


def _too_large(batch_tokens: int, kind: str) -> ModelError:
    """The error for a batch that a GPU has no memory for."""
    return ModelError(
        f"Out of memory on {kind}: a batch of up to {batch_tokens:,} tokens does not fit beside "
        "the model, or other programs use the GPU. Run the same command again with "
        f"`embed.batch_tokens={max(1, batch_tokens // 2)}`; finished shards are kept."
    )


def token_batches(
    lengths: NDArray[np.int64], budget: int, *, pads: bool = True
) -> Iterator[NDArray[np.int64]]:
    """Batches of texts of similar length, the longest first, ties in the given order.

    Unless they are padded (`pads`), the texts of a batch have the same length.
    """
    # The cost of a batch is its rows times its longest row, so sorting by length wastes little. A
    # budget in tokens keeps activations inside the processor's cache (on CPU) and memory constant.
    order = np.argsort(-lengths, kind="stable")
    at = 0
    while at < len(order):
        longest = int(lengths[order[at]])
        rows = max(1, budget // max(1, longest))
        if not pads:
            rows = min(rows, int((lengths == longest).sum()))
        yield order[at : at + rows]
        at += rows


def fingerprint(folder: Path, plan: EmbedPlan) -> str:
    """Fingerprint of a model folder's embeddings under a plan, from its files."""
    # precision, device and batching are part of it because they change an embedding's last bits
    hardware = resolve(plan, batch_tokens=plan.batch_tokens)
    pooling = _pooling(folder, plan)
    identity = {
        "kind": "transformer 2",  # 1: of texts as they are written
        "files": file_digests(transformer_folder(folder)),
        "pooling": pooling.mode,
        "unit_length": plan.unit_length,
        **({"max_tokens": pooling.max_tokens} if pooling.max_tokens else {}),
        **({"prompt": pooling.prompt} if pooling.prompt else {}),
        **hardware._asdict(),
    }
    if (hardware.kind, hardware.precision) == ("cuda", "fp32"):
        identity["products"] = "tf32"  # earlier versions multiplied float32 there
    return digest(identity)


def _pooling(folder: Path, plan: EmbedPlan) -> Pooling:
    """How a plan makes an embedding of a folder's transformer."""
    if plan.pooling:
        return Pooling(plan.pooling)
    stated = read_pooling(folder, "", EMBEDDER)
    # it states 256 tokens and was trained with 512 positions, which our windows use
    return replace(stated, max_tokens=0) if plan.embedder in (AUTO, MINILM) else stated


def load_transformer(folder: Path, plan: EmbedPlan, name: str) -> TransformerEncoder:
    """Load an encoder from a local model folder."""
    hardware = resolve(plan, batch_tokens=plan.batch_tokens)
    try:
        import torch
        from transformers import AutoModel
    except ImportError as e:
        raise MissingDependencyError("A transformer as `embed.embedder`", "models") from e
    path = transformer_folder(folder)
    pooling = _pooling(folder, plan)
    dtype = torch.bfloat16 if hardware.precision == "bf16" else torch.float32
    subject = f"`embed.embedder`: the model in {folder}"
    with loading(subject):
        tokenizer = load_tokenizer(path, subject)
        options = {"use_safetensors": True, "dtype": dtype, **LOCAL}
        model, info = AutoModel.from_pretrained(str(path), output_loading_info=True, **options)
    missing = info["missing_keys"]
    # an encoder that is saved alone, such as a T5EncoderModel, is opened with a decoder too
    saved_as = model.config.architectures or [""]
    if model.config.is_encoder_decoder or saved_as[0].endswith("EncoderModel"):
        missing = [n.removeprefix("encoder.") for n in missing if n.startswith("encoder.")]
        model = model.get_encoder()
    # transformers fills missing weights with random numbers, others in each process
    _require_weights(missing_weights(model, missing)[1], model, subject)
    model.config.use_cache = False
    model = model.eval()
    with loading(subject), torch.inference_mode():
        tried = {"input_ids": torch.zeros((2, 8), dtype=torch.long), "attention_mask": None}
        try:
            states = model(**tried).last_hidden_state
        except RuntimeError:  # code that mixes types cannot compute in that of the weights
            model = model.float()
            states = model(**tried).last_hidden_state
    small, large = (tokenizer(letter)["input_ids"] for letter in "aA")
    if pooling.lower_case and small != large:
        raise _unlike(subject, "makes texts lower case before its tokenizer reads them")
    if pooling.mode == "cls" and not plan.pooling and small[:1] != [tokenizer.cls_token_id]:
        raise _unlike(subject, "pools by the first token, which is not one for the whole text")
    stated = pooling.max_tokens or tokenizer.model_max_length
    encoder = TransformerEncoder(
        name=name,
        dim=int(states.shape[-1]),  # that of Reformer is not its configuration's
        fingerprint=fingerprint(folder, plan),
        model=model.to(hardware.device),
        tokenizer=tokenizer,
        pooling=pooling.mode,
        max_length=int(min(position_limit(model), stated, MAX_TOKENS)),
        batch_tokens=hardware.batch_tokens,
        unit_length=plan.unit_length,
        precision=hardware.precision,
        prompt=pooling.prompt,
    )
    with loading(subject):
        return replace(encoder, pads=_padding_is_unseen(encoder))


def _padding_is_unseen(encoder: TransformerEncoder) -> bool:
    """Whether a text has the same embedding beside a longer one.

    Not so where padding takes part: FNet's Fourier transform, ConvBERT's convolutions,
    Nystromformer's landmarks, MobileBERT's trigrams.
    """
    longer = encoder.tokens(["a b c d e f g h i j k l"])
    short = [longer[0][:_FEW]]
    alone = encoder.encode_ids(short)[0]
    beside = encoder.encode_ids([*longer, *short])[1]
    most = _ROUNDING[encoder.precision] * float(np.abs(alone).max())
    return float(np.abs(beside - alone).max()) <= most


def _unlike(subject: str, why: str) -> ModelError:
    return ModelError(
        f"{subject} {why}. Set `embed.pooling=mean` for the transformer alone, or name another "
        "model."
    )


def load_tokenizer(folder: Path, subject: str) -> Any:
    """The tokenizer in a model's folder, a fast one if there is one."""
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(folder, use_fast=True, **LOCAL)
    # without its files transformers makes up one of special tokens, to which all words are unknown
    files = [f for f in tokenizer.vocab_files_names.values() if isinstance(f, str)]
    if files and not any((folder / file).is_file() for file in ["tokenizer.json", *files]):
        raise ModelError(
            f"{subject} has no tokenizer: no file "
            f"{' or '.join(sorted({'tokenizer.json', *files}))}. Name a folder with the model and "
            "its tokenizer."
        )
    return tokenizer


def save_tokenizer(tokenizer: Any, folder: Path) -> None:
    """Write a tokenizer that versions 4 and 5 of transformers open, on any machine."""
    tokenizer.save_pretrained(folder)
    path = folder / "tokenizer_config.json"
    fields = json.loads(path.read_text("utf-8"))
    for how_it_was_opened in ("local_files_only", "is_local"):
        fields.pop(how_it_was_opened, None)
    if fields.get("tokenizer_class") == "TokenizersBackend":
        fields["tokenizer_class"] = "PreTrainedTokenizerFast"  # version 4's name for it
    path.write_bytes(json.dumps(fields, indent=2, sort_keys=True).encode())


def position_limit(model: Any) -> int:
    """Most tokens that a model's positions allow; `DEFAULT_LENGTH` if it states no limit."""
    # T5 states no limit, XLNet -1
    positions = int(getattr(model.config, "max_position_embeddings", None) or -1)
    return positions - first_position(model) if positions > 0 else DEFAULT_LENGTH


def first_position(model: Any) -> int:
    """Number of a text's first position."""
    # RoBERTa's positions begin after its padding index, so its 514 positions hold 512 tokens
    embeddings = getattr(model.base_model, "embeddings", None)
    padding = getattr(getattr(embeddings, "position_embeddings", None), "padding_idx", None)
    return 0 if padding is None else int(padding) + 1


def missing_weights(model: Any, missing: Sequence[str]) -> tuple[list[str], list[str]]:
    """Names of missing weights, of the head and of the rest; tied weights count as loaded."""
    names: dict[int, list[str]] = {}
    for name, weight in model.named_parameters(remove_duplicate=False):
        names.setdefault(id(weight), []).append(name)
    lacking = sorted(same[0] for same in names.values() if set(same) <= set(missing))
    inside = "" if model.base_model is model else f"{model.base_model_prefix}."
    body = [n for n in lacking if n.startswith(inside) and ".pooler." not in f".{n}"]
    return [n for n in lacking if n not in body], body


def open_complete(auto: Any, folder: Path, subject: str, kind: str = "model") -> tuple[Any, Any]:
    """The tokenizer and the model with its head in float32, whose weights must all be stored.

    Raises:
        ModelError: it cannot be opened, or is opened as a causal model and tokens see later ones.
    """
    import torch
    from transformers import AutoModelForCausalLM

    options = {"use_safetensors": True, "dtype": torch.float32, **LOCAL}
    with loading(subject):
        tokenizer = load_tokenizer(folder, subject)
        model, info = auto.from_pretrained(str(folder), output_loading_info=True, **options)
    head, body = missing_weights(model, info["missing_keys"])
    _require_weights(head + body, model, subject, kind)
    if auto is AutoModelForCausalLM and reads_ahead(model):
        raise ModelError(f"{subject} is not causal: tokens see later ones. Name another model.")
    return tokenizer, model


def _require_weights(lacking: Sequence[str], model: Any, subject: str, kind: str = "model") -> None:
    if lacking:
        raise ModelError(
            f"{subject} lacks weights of a {type(model).__name__}: {lacking[0]} is missing. Name a "
            f"folder with the complete {kind}."
        )


@contextmanager
def loading(subject: str) -> Iterator[None]:
    """Load quietly; `ModelError` for any of the many kinds of exceptions of a broken folder."""
    try:
        with quiet():
            yield
    except ModelError:
        raise
    except Exception as e:
        raise_machine_fault(e, f"{subject} cannot be loaded")
        reason = (str(e).strip() or type(e).__name__).splitlines()[0]
        raise ModelError(f"{subject} cannot be loaded: {reason}") from e


@contextmanager
def quiet() -> Iterator[None]:
    """Silence transformers' progress bars and reports while a model loads."""
    from transformers.utils import logging

    level = logging.get_verbosity()
    bar = logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(level)
        if bar:
            logging.enable_progress_bar()
