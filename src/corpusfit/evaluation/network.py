"""A model with a new head for a task, and its logits at selected tokens."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from corpusfit.core.errors import ModelError, bad_setting
from corpusfit.embed.folders import ADAPTER, find, transformer_folder
from corpusfit.embed.hardware import Hardware, seed_generators, seeded
from corpusfit.embed.transformer import load_tokenizer, loading, position_limit
from corpusfit.evaluation.contract import TaskType
from corpusfit.evaluation.plan import HeadPlan
from corpusfit.evaluation.registry import load
from corpusfit.training.adapters import (
    adapter_fingerprint,
    adapter_plan,
    add_adapter,
    model_under,
    open_adapted,
)
from corpusfit.training.models import MODEL, fingerprint, missing_weights
from corpusfit.training.objectives import Network
from corpusfit.training.packing import LEAK, find_packing
from corpusfit.training.plan import AdapterPlan
from corpusfit.training.prediction import evaluation_mode, relative_difference
from corpusfit.training.special_tokens import SpecialTokens, backend_tokenizer, special_tokens_of

if TYPE_CHECKING:
    import torch

MODEL_TO_EVALUATE = MODEL._replace(otherwise="run the command again when the hub can be reached")
_WIDEST = 512  # tokens; wider rows hold a single long text


@dataclass(frozen=True, eq=False)
class HeadedModel:
    """A model that is ready for fine-tuning.

    Attributes:
        network: the model; its packing is None if each text needs its own row.
        tokenizer: backend tokenizer made by `special_tokens.backend_tokenizer`.
        special: its special tokens.
        longest: maximum tokens of an example, special tokens included.
        widest: row length at which the packing was tested.
        adapter: an adapter is trained and the base model is frozen.
    """

    network: Network
    tokenizer: Any
    special: SpecialTokens
    longest: int
    widest: int
    adapter: bool


@dataclass
class _WithHead:
    """An auto class for `open_adapted` that opens a model with a new head."""

    task: TaskType
    outputs: int
    attention: str

    def from_pretrained(self, folder: Any, **options: Any) -> Any:
        """Open the model; raises `ModelError` if a head or weights are missing."""
        import transformers

        options |= {"num_labels": self.outputs, "output_loading_info": True}
        options |= {"ignore_mismatched_sizes": True}  # a head for another task
        opening = getattr(transformers, self.task.head).from_pretrained
        try:
            model, info = opening(folder, attn_implementation=self.attention, **options)
        except ValueError as e:
            if "Unrecognized configuration class" in str(e):
                raise ModelError(
                    f"`model.name`: the architecture in {folder} has no head for {self.task.kind}. "
                    "Name an encoder, such as BERT, or a decoder."
                ) from e
            if "scaled_dot_product_attention" not in str(e):
                raise
            model, info = opening(folder, attn_implementation="eager", **options)
        if model.config.is_encoder_decoder:
            raise ModelError(
                f"`model.name`: {folder} is an encoder-decoder; only encoders and decoders can be "
                "evaluated. Name one of those."
            )
        other = [key for key, *_ in info["mismatched_keys"]]
        lacking = missing_weights(model, info["missing_keys"])[1] + [
            key for key in other if key not in _head(model)
        ]
        if lacking:
            raise ModelError(
                f"`model.name`: {folder} lacks weights of a {type(model).__name__}: {lacking[0]} "
                "is missing or has another size. Name a folder with the complete model."
            )
        return model


def open_with_head(
    plan: HeadPlan, kind: str, outputs: int, hardware: Hardware, seed: int
) -> HeadedModel:
    """Open a model with a new head.

    A pooler is part of the head and starts from random weights even if the folder has one;
    otherwise a model adapted without a pooler would be at a disadvantage.

    Reference: Devlin et al. (2019), BERT, section 4; TADPOLE, section 4; mDAPT, section 4.
    """
    task, place = load(kind), find(plan.name, setting=MODEL_TO_EVALUATE)
    adapted = (place / ADAPTER).is_file()
    if adapted and plan.adapter:
        cure = "The adapter in the folder is trained. Leave out `model.adapter`."
        raise bad_setting(
            "`model.adapter`", "left out with an adapter's folder", plan.adapter, cure
        )
    if not adapted:
        place = transformer_folder(place, MODEL_TO_EVALUATE)
    with seeded(seed):
        model = open_adapted(place, _WithHead(task, outputs, hardware.attention))
        with loading(f"`model.name`: the tokenizer of {plan.name}"):
            tokenizer = load_tokenizer(model_under(place), f"`model.name`: {plan.name}")
        special = special_tokens_of(
            tokenizer, plan.name, model.get_input_embeddings().weight.shape[0]
        )
        if model.config.pad_token_id is None:
            model.config.pad_token_id = special.pad  # decoders find the last token by it
        head = _head(model)
        _renew(head, getattr(model.config, "initializer_range", 0.02), seed)
        predictor = task.predictor(model)
        longest, packing = position_limit(model), None
        widest = min(longest, _WIDEST)
        if predictor.hooked:
            packing = find_packing(predictor, special, widest, causal=False)
        else:
            _require_padding(model, special, plan.name)
        if plan.adapter:
            sizes = AdapterPlan(plan.adapter, reduction=plan.reduction, rank=plan.rank)
            add_adapter(model, sizes, seed)
    for parameter in head.values():
        parameter.requires_grad_(True)
    model.to(hardware.device)
    network = Network(predictor, model, packing, hardware.precision == "bf16")
    backend = backend_tokenizer(tokenizer, plan.name)
    return HeadedModel(network, backend, special, longest, widest, adapted or bool(plan.adapter))


def _head(model: Any) -> dict[str, torch.nn.Parameter]:
    """Parameters of the head, including a pooler, by name."""
    inside = f"{model.base_model_prefix}."
    return {
        name: parameter
        for name, parameter in model.named_parameters()
        if not name.startswith(inside) or ".pooler." in name
    }


def _renew(head: dict[str, torch.nn.Parameter], scale: float, seed: int) -> None:
    """Initialise a head from the seed, as BERT does: normal weights, zero biases, norms at 1."""
    import torch

    seed_generators(seed)
    with torch.no_grad():
        for name, parameter in sorted(head.items()):
            if parameter.ndim >= 2:
                parameter.normal_(0.0, scale)
            else:
                parameter.fill_(0.0 if name.endswith("bias") else 1.0)


def _require_padding(model: Any, special: SpecialTokens, name: str) -> None:
    """Raise `ModelError` if a text's logits depend on the padding after it."""
    import torch

    words = np.flatnonzero(special.ordinary)[:6].tolist()
    ids = torch.tensor([[*special.prefix, *words, *special.suffix]], device=model.device)
    more = torch.full((1, 5), special.pad, device=model.device)
    seen = torch.cat([torch.ones_like(ids), torch.zeros_like(more)], dim=1)
    with evaluation_mode(model):
        alone = model(input_ids=ids).logits
        padded = model(input_ids=torch.cat([ids, more], dim=1), attention_mask=seen).logits
    own = alone.flatten(0, -2)
    if relative_difference(padded.flatten(0, -2)[: len(own)], own) > LEAK:
        raise ModelError(
            f"`model.name`: the predictions of {name} for a text depend on the padding after it, "
            "so texts cannot be evaluated in batches. Name another model."
        )


def trains_adapter(plan: HeadPlan) -> bool:
    """Whether an adapter is trained and the model is frozen: a new adapter or the folder's own."""
    return bool(plan.adapter) or (find(plan.name, setting=MODEL_TO_EVALUATE) / ADAPTER).is_file()


def base_plan(plan: HeadPlan, base: str) -> HeadPlan:
    """The plan of the base model of a comparison.

    Against an adapter's folder, a whole base model gets a new adapter of the same kind and size, so
    that both fine-tunings train the same weights.

    Reference: mDAPT, Table 4 (adapter-based training against baselines of the same training).
    """
    ours = adapter_plan(find(plan.name, setting=MODEL_TO_EVALUATE))
    place = find(base, setting=MODEL_TO_EVALUATE._replace(flag="`base`"))
    if ours is None or (place / ADAPTER).is_file():
        return dataclasses.replace(plan, name=base)
    if ours.alpha != AdapterPlan().alpha:
        raise bad_setting(
            "`base`",
            f"another adapter's folder: the LoRA in {plan.name} has an alpha of {ours.alpha}, and "
            f"a new one of the base model always {AdapterPlan().alpha}",
            base,
            "Leave out `base`, or adapt with `adapter.alpha=16`.",
        )
    return HeadPlan(base, ours.kind, ours.reduction, ours.rank)


def head_fingerprint(name: str, flag: str = "`model.name`") -> str:
    """Hex digest of a model, or of an adapter and its base model, by their weights."""
    place = find(name, setting=MODEL_TO_EVALUATE._replace(flag=flag))
    if not (place / ADAPTER).is_file():
        return fingerprint(place)
    return adapter_fingerprint(place)
