"""Open the models of an evaluation, with a new head for a task."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from functools import partial
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np

from corpusfit.core.errors import (
    ModelError,
    bad_setting,
)
from corpusfit.core.hub import pinned
from corpusfit.embed.contract import digest
from corpusfit.embed.folders import ADAPTER, ModelSetting, commit_of, find, transformer_folder
from corpusfit.embed.hardware import Hardware, seed_generators, seeded
from corpusfit.embed.prediction import evaluation_mode, relative_difference
from corpusfit.embed.transformer import (
    load_tokenizer,
    loading,
    missing_weights,
    position_limit,
)
from corpusfit.evaluation.learned import LearnedTaskType, load_learned
from corpusfit.evaluation.plan import EvaluatePlan, HeadPlan
from corpusfit.evaluation.tasks import load
from corpusfit.training.adapter import (
    adapter_fingerprint,
    adapter_plan,
    add_adapter,
    model_under,
    open_adapted,
)
from corpusfit.training.contract import Network
from corpusfit.training.models import MODEL, fingerprint
from corpusfit.training.packing import LEAK, find_packing
from corpusfit.training.plan import AdapterPlan
from corpusfit.training.special_tokens import (
    SpecialTokens,
    backend_tokenizer,
    special_tokens_of,
)

if TYPE_CHECKING:
    import torch

MODEL_TO_EVALUATE: ModelSetting = MODEL._replace(
    otherwise="run the command again when the hub can be reached"
)
BASE_TO_COMPARE: ModelSetting = MODEL_TO_EVALUATE._replace(name="`base`")
_WIDEST = 512  # tokens; wider rows hold a single long text


@dataclass(frozen=True, eq=False)
class HeadedModel:
    """A model that is ready for fine-tuning."""

    network: Network  # the model; its packing is None if each text needs its own row
    tokenizer: Any  # backend tokenizer made by `special_tokens.backend_tokenizer`
    special: SpecialTokens  # its special tokens
    max_length: int  # maximum tokens of an example, special tokens included
    widest: int  # row length at which the packing was tested
    adapter: bool  # an adapter is trained and the base model is frozen


def _load_with_head(
    task: LearnedTaskType,
    outputs: int,
    attention: str,
    setting: ModelSetting,
    folder: Any,
    **options: Any,
) -> Any:
    """Load a model with a new head; raises `ModelError` if it has no such head or lacks weights."""
    import transformers

    options |= {"num_labels": outputs, "output_loading_info": True}
    options |= {"ignore_mismatched_sizes": True}  # a head for another task
    unfit = ModelError(
        f"{setting.name}: the architecture in {folder} has no head for {task.kind}. Name an "
        "encoder, such as BERT, or a decoder."
    )
    auto = getattr(transformers, task.head)
    model, info = with_attention(auto, folder, attention, unfit, options)
    if model.config.is_encoder_decoder:
        raise ModelError(
            f"{setting.name}: {folder} is an encoder-decoder; only encoders and decoders can be "
            "evaluated. Name one of those."
        )
    # a head of another size is replaced; any other mismatch is damage
    other = [key for key, *_ in info["mismatched_keys"]]
    lacking = missing_weights(model, info["missing_keys"])[1] + [
        key for key in other if key not in _head(model)
    ]
    if lacking:
        raise ModelError(
            f"{setting.name}: {folder} lacks weights of a {type(model).__name__}: {lacking[0]} "
            "is missing or has another size. Name a folder with the complete model."
        )
    return model


def with_attention(
    auto: Any, folder: Any, attention: str, unfit: ModelError, options: dict[str, Any]
) -> Any:
    """Load a model, and list missing weights; raises `unfit` for another architecture."""
    opening = auto.from_pretrained
    try:
        return opening(folder, attn_implementation=attention, **options)
    except ValueError as e:
        if "Unrecognized configuration class" in str(e):
            raise unfit from e
        if "scaled_dot_product_attention" not in str(e):
            raise
    return opening(folder, attn_implementation="eager", **options)


def open_with_head(
    plan: HeadPlan,
    kind: str,
    outputs: int,
    hardware: Hardware,
    seed: int,
    setting: ModelSetting = MODEL_TO_EVALUATE,
) -> HeadedModel:
    """Open a model with a new head.

    Reference: Devlin et al. (2019), BERT, section 4; TADPOLE, section 4; mDAPT, section 4.
    """
    # A pooler is part of the head and starts from random weights even if the folder has one;
    # otherwise a model adapted without a pooler would be at a disadvantage.
    task = load_learned(kind)
    folder = find(plan.name, setting=setting)
    adapted = (folder / ADAPTER).is_file()
    if adapted and plan.adapter:
        cure = "The adapter in the folder is trained. Leave out `model.adapter`."
        raise bad_setting(
            "`model.adapter`", "left out with an adapter's folder", plan.adapter, cure
        )
    if not adapted:
        folder = transformer_folder(folder, setting)
    with seeded(seed):
        loader = partial(_load_with_head, task, outputs, hardware.attention, setting)
        model = open_adapted(folder, SimpleNamespace(from_pretrained=loader))
        with loading(f"{setting.name}: the tokenizer of {plan.name}"):
            tokenizer = load_tokenizer(model_under(folder), f"{setting.name}: {plan.name}")
        vocabulary_size = model.get_input_embeddings().weight.shape[0]
        special = special_tokens_of(tokenizer, plan.name, vocabulary_size, setting.name)
        if model.config.pad_token_id is None:
            model.config.pad_token_id = special.pad  # decoders find the last token by it
        # a head of the folder was trained on another task
        head = _head(model)
        _renew(head, getattr(model.config, "initializer_range", 0.02), seed)
        predictor = task.predictor(model)
        max_length = position_limit(model)
        packing = None
        widest = min(max_length, _WIDEST)
        # texts share rows where logits can be read anywhere in a row, and attention kept apart
        if predictor.hooked:
            packing = find_packing(predictor, special, widest, causal=False)
        else:
            _require_padding(model, special, f"{setting.name}: the predictions of {plan.name}")
        if plan.adapter:
            add_adapter(model, AdapterPlan(plan.adapter, rank=plan.rank), seed)
    for parameter in head.values():
        parameter.requires_grad_(True)
    model.to(hardware.device)
    network = Network(predictor, model, packing, hardware.precision)
    backend = backend_tokenizer(tokenizer, plan.name)
    return HeadedModel(network, backend, special, max_length, widest, adapted or bool(plan.adapter))


def _head(model: Any) -> dict[str, torch.nn.Parameter]:
    """Parameters of the head, including a pooler, by name."""
    inside = f"{model.base_model_prefix}."
    return {
        name: parameter
        for name, parameter in model.named_parameters()
        if not name.startswith(inside) or ".pooler." in name
    }


def _renew(head: dict[str, torch.nn.Parameter], scale: float, seed: int) -> None:
    """Initialize a head from the seed, as BERT does: normal weights, zero biases, norms at 1."""
    import torch

    seed_generators(seed)
    with torch.no_grad():
        for name, parameter in sorted(head.items()):
            if parameter.ndim >= 2:
                parameter.normal_(0.0, scale)
            else:
                parameter.fill_(0.0 if name.endswith("bias") else 1.0)


def _require_padding(model: Any, special: SpecialTokens, subject: str) -> None:
    """Raise `ModelError` if a text's logits depend on the padding after it."""
    import torch

    ordinary = np.flatnonzero(special.ordinary)[:6].tolist()
    ids = torch.tensor([[*special.prefix, *ordinary, *special.suffix]], device=model.device)
    more = torch.full((1, 5), special.pad, device=model.device)
    seen = torch.cat([torch.ones_like(ids), torch.zeros_like(more)], dim=1)
    with evaluation_mode(model):
        alone = model(input_ids=ids).logits
        padded = model(input_ids=torch.cat([ids, more], dim=1), attention_mask=seen).logits
    expected = alone.flatten(0, -2)
    if relative_difference(padded.flatten(0, -2)[: len(expected)], expected) > LEAK:
        raise ModelError(
            f"{subject} for a text depend on the padding after it, so texts cannot be evaluated in "
            "batches. Name another model."
        )


def trains_adapter(plan: HeadPlan) -> bool:
    """Whether an adapter, new or the folder's own, is trained on a frozen model."""
    return bool(plan.adapter) or (find(plan.name, setting=MODEL_TO_EVALUATE) / ADAPTER).is_file()


def base_plan(plan: HeadPlan, base: str) -> HeadPlan:
    """The plan of the base model of a comparison.

    Reference: mDAPT, Table 4 (adapter-based training against baselines of the same training).
    """
    # Against an adapter's folder, a whole base model gets a new adapter of the same kind and size,
    # so that both fine-tunings train the same weights.
    ours = adapter_plan(find(plan.name, setting=MODEL_TO_EVALUATE))
    folder = find(base, setting=BASE_TO_COMPARE)
    if ours is None or (folder / ADAPTER).is_file():
        return dataclasses.replace(plan, name=base)
    if ours.alpha != AdapterPlan().alpha:
        raise bad_setting(
            "`base`",
            f"another adapter's folder: the LoRA in {plan.name} has an alpha of {ours.alpha}, and "
            f"a new one of the base model always {AdapterPlan().alpha}",
            base,
            "Leave out `base`, or adapt with `adapter.alpha=16`.",
        )
    return HeadPlan(base, ours.kind, ours.rank)


def head_fingerprint(name: str, setting: str = "`model.name`") -> str:
    """Hex digest of a model, or of an adapter and its base model, by their weights."""
    named = MODEL_TO_EVALUATE._replace(name=setting)
    folder = find(name, setting=named)
    if not (folder / ADAPTER).is_file():
        return fingerprint(folder, named)
    return adapter_fingerprint(folder)


@dataclass(frozen=True)
class Model:
    """A model by its content, and the plan that opens it."""

    fingerprint: str
    # the evaluation's with this model: one of the hub with its commit, the same for every seed
    plan: EvaluatePlan
    commit: str = ""  # of a hub id


@dataclass(frozen=True)
class Side:
    """One of the two sides of a comparison: a model, or a model for each seed."""

    name: str  # name as given, with `{seed}` if it stands for several models
    setting: ModelSetting  # that names it, for messages
    models: tuple[Model, ...]  # the model of each seed

    @classmethod
    def of(cls, plan: EvaluatePlan, kind: str, base: str, seeds: int) -> Side:
        """The side of a plan's model, or of `base` if it is not empty."""
        pattern = base or plan.model.name
        setting = BASE_TO_COMPARE if base else MODEL_TO_EVALUATE
        models = dict[str, Model]()
        of_seed = [str(plan.seed + k) for k in range(seeds)]
        names = [pattern.replace("{seed}", seed) for seed in of_seed]
        for seed, name in zip(of_seed, names, strict=True):
            if name in models:
                continue
            ours = dataclasses.replace(plan.model, name=plan.model.name.replace("{seed}", seed))
            folder = find(name, setting=setting)
            commit = commit_of(name, folder)
            opened_as = pinned(name, commit)
            key = head_fingerprint(opened_as, setting.name)
            model = dataclasses.replace(ours, name=opened_as)
            if base and isinstance(load(kind), LearnedTaskType):
                model = base_plan(ours, opened_as)
                if model.adapter != ours.adapter:
                    # the base gets a new adapter here, so its key is not that of the whole base
                    adapter = [model.adapter, model.rank]
                    key = digest({"base": key, "adapter": adapter})
            models[name] = Model(key, dataclasses.replace(plan, model=model), commit)
        return cls(pattern, setting, tuple(models[name] for name in names))

    def plans(self) -> list[EvaluatePlan]:
        """The plan of each seed."""
        return [model.plan for model in self.models]

    def as_dict(self) -> dict[str, Any]:
        """Name, fingerprint, commit and adapter, and the fingerprints by seed if they differ."""
        first = self.models[0]
        fingerprints = [model.fingerprint for model in self.models]
        facts = {
            "name": self.name,
            "fingerprint": first.fingerprint,
            "adapter": first.plan.model.adapter,
        }
        facts |= {"commit": first.commit} if first.commit else {}
        return facts | ({"by_seed": fingerprints} if len(set(fingerprints)) > 1 else {})
