"""A model with a new head for a task, and what it says of chosen tokens.

What: a folder or an adapter becomes a model that gives logits for the first token of each text, or
of each word, of several texts in one row.
Why: transformers' heads for texts look at the first token of a row; a hook hands them the tokens
that are asked for as rows of their own, so that texts can share one, and the head is the library's.
Trade-off: it is tried on the model itself; where the logits are not the model's own (a head that
averages, a decoder that looks at the last token), each text gets a row. A pooler begins anew like
the rest of the head, even where a file has one: a model adapted without it would start behind.
Reference: Devlin et al. (2019), BERT, section 4; TADPOLE, section 4; mDAPT, section 4.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from corpusfit.adapt.adapters import adapter_fingerprint, add_adapter, model_under, open_adapted
from corpusfit.adapt.models import MODEL, fingerprint, without_weights
from corpusfit.adapt.objectives import Network
from corpusfit.adapt.packing import LEAK, find_packing
from corpusfit.adapt.plan import AdapterPlan
from corpusfit.adapt.prediction import Predictor, apart, still
from corpusfit.adapt.special_tokens import Marks, bare, marks_of
from corpusfit.embed.folders import ADAPTER, find, transformer_folder
from corpusfit.embed.hardware import Hardware, seeded
from corpusfit.embed.transformer import position_limit
from corpusfit.errors import ModelError, bad_setting
from corpusfit.evaluate.plan import HeadPlan

if TYPE_CHECKING:
    import torch

_WIDEST = 512  # tokens; wider rows are only for a text that is as long
_HEADS = {
    "classification": "AutoModelForSequenceClassification",
    "tagging": "AutoModelForTokenClassification",
}


@dataclass(frozen=True, eq=False)
class Headed:
    """A model that is ready to be fine-tuned.

    Attributes:
        network: how it is called; its packing is None where each text needs a row.
        tokenizer: what cuts text, as `marks.bare` gives it.
        marks: its special tokens.
        longest: tokens that an example may have, special ones included.
        widest: tokens of a row in which the packing was tried.
        adapter: whether an adapter is trained, and not the model under it.
    """

    network: Network
    tokenizer: Any
    marks: Marks
    longest: int
    widest: int
    adapter: bool


class FirstToken(Predictor):
    """The logits of texts, read off their first tokens, wherever these are.

    Where the model cannot be hooked into (`hooked` is false), they are those of each row, as the
    model has them, and a row may hold one text.
    """

    pools: ClassVar[bool] = True  # each state that is kept is the first of a row

    def _parts(self) -> Iterator[Any]:
        base = self.model.base_model
        yield getattr(base, "encoder", None)  # BERT's pooler is in its base, after this
        yield base

    def _tried(self, inputs: dict[str, torch.Tensor]) -> tuple[torch.Tensor, torch.Tensor]:
        import torch

        own = self.model(**inputs).logits.flip(0)  # a hook without effect keeps the order
        at = torch.tensor([4, 0], device=self.model.device)
        return own, self.logits(self.model, inputs, at)

    def _arranged(self, states: torch.Tensor) -> torch.Tensor:
        return states[:, None]  # each is the first and only one of its row

    def logits(self, call: Any, inputs: dict[str, Any], at: torch.Tensor) -> torch.Tensor:
        """What the model says of tokens, as of the first one of a text.

        Args:
            call: the model.
            inputs: of the model: `input_ids` [B, L] and what else it is to get.
            at: int64 [M], places in the flattened batch; one in each row unless `hooked`.

        Returns:
            [M, C].
        """
        logits: torch.Tensor = self._asked(call, inputs, at).logits
        return logits


@dataclass
class _WithHead:
    """Opens a model with a head for so many labels, as `open_adapted` asks a class to.

    Attributes:
        kind: of the task.
        labels: how many.
        attention: of the model, if it knows that one.
    """

    kind: str
    labels: int
    attention: str

    def from_pretrained(self, folder: Any, **given: Any) -> Any:
        """The model; raises `ModelError` if it has no such head or not all of its weights."""
        import transformers

        given |= {"num_labels": self.labels, "output_loading_info": True}
        given |= {"ignore_mismatched_sizes": True}  # of a head for another task
        opening = getattr(transformers, _HEADS[self.kind]).from_pretrained
        try:
            model, info = opening(folder, attn_implementation=self.attention, **given)
        except ValueError as e:
            if "Unrecognized configuration class" in str(e):
                raise ModelError(
                    f"--model: the architecture in {folder} has no head for {self.kind}. Name an "
                    "encoder, such as a BERT, or a decoder."
                ) from e
            if "scaled_dot_product_attention" not in str(e):
                raise
            model, info = opening(folder, attn_implementation="eager", **given)
        if model.config.is_encoder_decoder:
            raise ModelError(
                f"--model: {folder} is an encoder-decoder; only encoders and decoders are judged. "
                "Name one of those."
            )
        other = [key for key, *_ in info["mismatched_keys"]]
        lacking = without_weights(model, info["missing_keys"])[1] + [
            key for key in other if key not in _head(model)
        ]
        if lacking:
            raise ModelError(
                f"--model: the weights in {folder} are not all of a {type(model).__name__}: "
                f"{lacking[0]} is missing or of another size. Name a folder with the whole model."
            )
        return model


def open_headed(plan: HeadPlan, kind: str, labels: int, hardware: Hardware, seed: int) -> Headed:
    """Open a model with a new head.

    Args:
        plan: its name, and whether a new adapter is trained.
        kind: of the task.
        labels: how many the head tells apart.
        hardware: where it computes, and in what precision.
        seed: of the head and of a new adapter.

    Raises:
        UsageError: it is neither a folder nor a model of the hub; a new adapter is asked for in
            place of one.
        ModelError: it cannot be loaded, or has no such head.
        MissingDependencyError: torch or transformers is not installed.
    """
    place = find(plan.name, setting=MODEL)
    adapted = (place / ADAPTER).is_file()
    if adapted and plan.adapter:
        cure = "Its own adapter is trained."
        raise bad_setting("--adapter", "left out with an adapter's folder", plan.adapter, cure)
    if not adapted:
        place = transformer_folder(place, MODEL)
    with seeded(seed):
        model = open_adapted(place, _WithHead(kind, labels, hardware.attention))
        tokenizer = _tokenizer(plan.name, model_under(place))
        marks = marks_of(tokenizer, plan.name, model.get_input_embeddings().weight.shape[0])
        if model.config.pad_token_id is None:
            model.config.pad_token_id = marks.pad  # decoders look for the last token that is none
        head = _head(model)
        _renew(head, getattr(model.config, "initializer_range", 0.02), seed)
        predictor = (FirstToken if kind == "classification" else Predictor)(model)
        longest, packing = position_limit(model), None
        widest = min(longest, _WIDEST)
        if predictor.hooked:
            packing = find_packing(predictor, marks, widest, causal=False)
        else:
            _require_padding(model, marks, plan.name)
        if plan.adapter:
            sizes = AdapterPlan(plan.adapter, reduction=plan.reduction, rank=plan.rank)
            add_adapter(model, sizes, seed)
    for parameter in head.values():
        parameter.requires_grad_(True)
    model.to(hardware.device)
    network = Network(predictor, model, packing, hardware.precision == "bf16")
    backend = bare(tokenizer, plan.name)
    return Headed(network, backend, marks, longest, widest, adapted or bool(plan.adapter))


def _head(model: Any) -> dict[str, torch.nn.Parameter]:
    """What is not of the model itself, and its pooler, by name."""
    inside = f"{model.base_model_prefix}."
    return {
        name: parameter
        for name, parameter in model.named_parameters()
        if not name.startswith(inside) or ".pooler." in name
    }


def _renew(head: dict[str, torch.nn.Parameter], scale: float, seed: int) -> None:
    """Give all of a head its first values by the seed: BERT's way, norms at 1."""
    import torch

    torch.manual_seed(seed)
    with torch.no_grad():
        for name, parameter in sorted(head.items()):
            if parameter.ndim >= 2:
                parameter.normal_(0.0, scale)
            else:
                parameter.fill_(0.0 if name.endswith("bias") else 1.0)


def _require_padding(model: Any, marks: Marks, name: str) -> None:
    """Raise `ModelError` if what a model says of a text depends on the padding after it."""
    import torch

    words = np.flatnonzero(marks.ordinary)[:6].tolist()
    ids = torch.tensor([[*marks.prefix, *words, *marks.suffix]], device=model.device)
    more = torch.full((1, 5), marks.pad, device=model.device)
    seen = torch.cat([torch.ones_like(ids), torch.zeros_like(more)], dim=1)
    with still(model):
        alone = model(input_ids=ids).logits
        padded = model(input_ids=torch.cat([ids, more], dim=1), attention_mask=seen).logits
    if (
        apart(padded.flatten(0, -2)[: alone.numel() // alone.shape[-1]], alone.flatten(0, -2))
        > LEAK
    ):
        raise ModelError(
            f"--model: what {name} says of a text depends on the padding after it, so no batch of "
            "texts can be trusted. Name another model."
        )


def trains_adapter(plan: HeadPlan) -> bool:
    """Whether an adapter is trained and not the model: a new one, or the one in its folder."""
    return bool(plan.adapter) or (find(plan.name, setting=MODEL) / ADAPTER).is_file()


def head_fingerprint(name: str, flag: str = "--model") -> str:
    """Identity of a model, or of an adapter and the model under it, by their weights.

    Args:
        name: a folder or a hub id.
        flag: the setting that named it, for errors.

    Raises:
        UsageError: it is neither a folder nor a model of the hub.
        ModelError: files are missing.
    """
    place = find(name, setting=MODEL._replace(flag=flag))
    if not (place / ADAPTER).is_file():
        return fingerprint(place)
    return adapter_fingerprint(place)


def _tokenizer(name: str, place: Any) -> Any:
    """The tokenizer of a model's folder."""
    import transformers

    try:
        return transformers.AutoTokenizer.from_pretrained(
            place, use_fast=True, local_files_only=True, trust_remote_code=False
        )
    except Exception as e:  # a broken folder shows as any of a dozen kinds
        reason = (str(e).strip() or type(e).__name__).splitlines()[0]
        raise ModelError(f"--model: the tokenizer of {name} cannot be loaded: {reason}") from e
