"""A causal model, and the likelihood of tokens under it, in the windows of lm-evaluation-harness.

Reference: Gao et al. (2021), A framework for few-shot language model evaluation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from corpusfit.core.errors import ModelError, TrainingError
from corpusfit.core.plan import size_for
from corpusfit.embed.folders import ADAPTER, ModelSetting, find, transformer_folder
from corpusfit.embed.hardware import BATCH_TOKENS, Hardware
from corpusfit.embed.losses import cross_entropies
from corpusfit.embed.prediction import Predictor, reads_ahead
from corpusfit.embed.transformer import (
    LOCAL,
    load_tokenizer,
    loading,
    missing_weights,
    position_limit,
    token_batches,
)
from corpusfit.evaluation.network import MODEL_TO_EVALUATE, with_attention
from corpusfit.training.adapter import model_under, open_adapted
from corpusfit.training.batches import PADDING
from corpusfit.training.contract import Network
from corpusfit.training.schedule import naming_memory_errors
from corpusfit.training.special_tokens import SpecialTokens, backend_tokenizer, special_tokens_of

# Tokens of a batch: each may need the logits of the whole vocabulary.
_MAX_BATCH_TOKENS = 4_096
# Tokens of context for models that state no limit, such as Mamba.
_UNLIMITED = 2**20
# Token ids, and the places of those that are predicted from those before them.
TokenSequence = tuple[list[int], NDArray[np.int64]]


@dataclass(frozen=True, eq=False)
class Decoder:
    """A causal model that is ready for inference."""

    network: Network  # the model; each sequence has its own row
    tokenizer: Any  # backend tokenizer made by `special_tokens.backend_tokenizer`
    special: SpecialTokens  # its special tokens
    # the tokens before a text: those of the tokenizer, or else the one that begins texts, or else
    # the one that ends them
    start: tuple[int, ...]
    context: int  # most tokens that the model reads at once

    def tokens(self, texts: Sequence[str]) -> list[list[int]]:
        """The token ids of each text, without special tokens."""
        return [e.ids for e in self.tokenizer.encode_batch(list(texts), add_special_tokens=False)]

    def windows(self, ids: Sequence[int], counted: NDArray[np.bool_]) -> Iterator[TokenSequence]:
        """The sequences that predict each counted token [t] once; the first token is not one."""
        # Each window begins where the one before it ends. The last one reaches back to be full, but
        # predicts only the new tokens.
        ends = [*range(self.context + 1, len(ids), self.context), len(ids)]
        for begin, end in pairwise([0, *ends]):
            at = max(0, end - self.context - 1)
            places = np.flatnonzero(counted[begin:end]) + begin - at
            if len(places):
                yield list(ids[at:end]), places

    def log_likelihoods(
        self,
        sequences: Sequence[TokenSequence],
        on_done: Callable[[NDArray[np.int64]], None] | None = None,
    ) -> NDArray[np.float64]:
        """The log-likelihood of the predicted tokens of each of n sequences, in nats."""
        import torch

        network = self.network
        model = self.network.predictor.model
        lengths = np.array([len(ids) - 1 for ids, _ in sequences], np.int64)
        budget = min(_MAX_BATCH_TOKENS, size_for(model.device.type, BATCH_TOKENS))
        sums = np.zeros(len(sequences))
        out_of_memory = TrainingError(
            f"Out of memory with {int(lengths.max(initial=0)):,} tokens at once. Set a smaller "
            "`likelihood.context`."
        )
        # sequences of similar length share a batch, so little is padding
        for numbers in token_batches(lengths, budget):
            width = int(lengths[numbers[0]])
            ids = np.full((len(numbers), width), self.special.pad, np.int64)
            chunk = np.full(ids.shape, PADDING, np.int64)
            at = []
            wanted = []
            for row, number in enumerate(numbers.tolist()):
                sequence, predicted = sequences[number]
                end = len(sequence) - 1
                ids[row, :end] = sequence[:-1]
                chunk[row, :end] = 0
                at.append(predicted - 1 + row * width)
                wanted.append(np.array(sequence)[predicted])
            with torch.no_grad(), network.scope(), naming_memory_errors(out_of_memory):
                tensors = (torch.from_numpy(x).to(model.device) for x in (ids, chunk))
                places, labels = (
                    torch.from_numpy(np.concatenate(x)).to(model.device) for x in (at, wanted)
                )
                inputs = network.inputs(*tensors)
                logits = network.predictor.logits(network.call, inputs, places)
                losses = cross_entropies(logits, labels).cpu().double().numpy()
            counts = [len(tokens) for tokens in wanted]
            # the losses of a sequence are adjacent; their negated sum is its log-likelihood
            sums[numbers] = -np.add.reduceat(losses, np.cumsum([0, *counts[:-1]]))
            if on_done is not None:
                on_done(numbers)
        return sums


def folder_of(name: str, setting: ModelSetting) -> Path:
    """The folder of a causal model or of an adapter."""
    folder = find(name, setting=setting)
    if (folder / ADAPTER).is_file():
        return folder
    return transformer_folder(folder, setting)


def open_tokenizer(name: str, setting: ModelSetting) -> Any:
    """The tokenizer of a causal model or of an adapter's base model."""
    with loading(f"{setting.name}: the tokenizer of {name}"):
        return load_tokenizer(model_under(folder_of(name, setting)), f"{setting.name}: {name}")


def open_decoder(
    name: str,
    hardware: Hardware,
    context: int | None,
    default_context: int = 0,
    setting: ModelSetting = MODEL_TO_EVALUATE,
) -> Decoder:
    """Open a causal model: a folder, an adapter's folder, or a hub id."""
    model = _open_causal(name, hardware, setting)
    tokenizer = open_tokenizer(name, setting)
    vocabulary_size = model.get_input_embeddings().weight.shape[0]
    special = special_tokens_of(tokenizer, name, vocabulary_size, setting.name)
    ends = (tokenizer.bos_token_id, tokenizer.eos_token_id)
    start = special.prefix or tuple(end for end in ends if end is not None)[:1]
    if not start:
        raise ModelError(
            f"{setting.name}: the tokenizer of {name} has no token that begins or ends a text, so "
            "the first token of a text has no likelihood. Set bos_token or eos_token in its "
            "tokenizer_config.json."
        )
    stated = getattr(model.config, "max_position_embeddings", None)
    limit = position_limit(model) if stated else _UNLIMITED
    context = min(context or default_context or limit, limit)
    predictor = Predictor(model)
    network = Network(predictor, model, None, hardware.precision)
    return Decoder(network, backend_tokenizer(tokenizer, name), special, start, context)


def _open_causal(name: str, hardware: Hardware, setting: ModelSetting) -> Any:
    """A causal model of transformers on its device."""

    def unfit(why: str) -> ModelError:
        return ModelError(
            f"{setting.name}: {name} has no likelihood of text: {why}. Name a causal language "
            "model, such as gpt2, or leave out `task.kind` to fine-tune this one on a labeled "
            "task."
        )

    def from_pretrained(folder: Any, **options: Any) -> Any:
        import transformers

        config = transformers.AutoConfig.from_pretrained(folder, **LOCAL)
        if config.is_encoder_decoder:
            raise unfit("it is an encoder-decoder")
        options["output_loading_info"] = True
        auto = transformers.AutoModelForCausalLM
        no_head = unfit("its architecture predicts no next token")
        model, info = with_attention(auto, folder, hardware.attention, no_head, options)
        model.eval()
        # an encoder with a causal head would see the tokens that it predicts
        if reads_ahead(model):
            raise unfit("its attention is not causal")
        lacking = [n for names in missing_weights(model, info["missing_keys"]) for n in names]
        if lacking:
            raise ModelError(
                f"{setting.name}: {name} lacks weights of a {type(model).__name__}: {lacking[0]} "
                "is missing. Name a folder with the complete model."
            )
        return model

    folder = folder_of(name, setting)
    model = open_adapted(folder, SimpleNamespace(from_pretrained=from_pretrained))
    return model.to(hardware.device)
