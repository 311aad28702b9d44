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
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from corpusfit.adapt.adapters import add_adapter, model_under, open_adapted
from corpusfit.adapt.marks import Marks, bare, marks_of
from corpusfit.adapt.models import MODEL, fingerprint, without_weights
from corpusfit.adapt.objectives import Network
from corpusfit.adapt.packing import find_packing
from corpusfit.adapt.plan import AdapterPlan
from corpusfit.adapt.prediction import Predictor
from corpusfit.embed.contract import digest, file_digest
from corpusfit.embed.folders import ADAPTER, find, transformer_folder
from corpusfit.embed.hardware import Hardware, seeded
from corpusfit.embed.transformer import position_limit
from corpusfit.errors import MissingDependencyError, ModelError
from corpusfit.evaluate.plan import HeadPlan

if TYPE_CHECKING:
    import torch

__all__ = ["FirstToken", "Headed", "head_fingerprint", "open_headed"]

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

    def _parts(self) -> Iterator[Any]:
        base = self.model.base_model
        yield getattr(base, "encoder", None)  # BERT's pooler is in its base, after this
        yield base

    def _tried(self, ids: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        import torch

        own = self.model(input_ids=ids).logits.flip(0)  # a hook without effect keeps the order
        try:
            at = torch.tensor([4, 0], device=ids.device)
            return own, self.logits(self.model, {"input_ids": ids}, at)
        except Exception:  # a head refuses other rows in its own way
            return own, own[:0]

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
        self._at, self._seen = at, False
        try:
            logits: torch.Tensor = call(**inputs, **self._more).logits
        finally:
            self._at = None
        return logits


@dataclass
class _WithHead:
    """Opens a model with a head for so many labels, as `open_adapted` asks a class to.

    Attributes:
        missing: names of the weights that the file lacks, known after.
    """

    kind: Any
    labels: int
    attention: str
    missing: list[str] = field(default_factory=list)

    def from_pretrained(self, folder: Any, **given: Any) -> Any:
        """The model."""
        given |= {"num_labels": self.labels, "output_loading_info": True}
        given |= {"ignore_mismatched_sizes": True}  # of a head for another task
        try:
            model, info = self.kind.from_pretrained(
                folder, attn_implementation=self.attention, **given
            )
        except ValueError as e:
            if "scaled_dot_product_attention" not in str(e):
                raise
            model, info = self.kind.from_pretrained(folder, attn_implementation="eager", **given)
        self.missing, body = without_weights(model, info["missing_keys"])
        if body:
            raise ModelError(f"its weights are not all there: {body[0]} is missing")
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
        UsageError: it is neither a folder nor a model of the hub.
        ModelError: it cannot be loaded, or has no such head.
        MissingDependencyError: torch or transformers is not installed.
    """
    try:
        import transformers
    except ImportError as e:
        raise MissingDependencyError("corpusfit evaluate", MODEL.extra) from e
    place = find(plan.name, setting=MODEL)
    adapted = (place / ADAPTER).is_file()
    if not adapted:
        place = transformer_folder(place, MODEL)
    eager = (hardware.device, hardware.precision) == ("cpu", "bf16")  # whose sdpa is slow there
    opening = _WithHead(getattr(transformers, _HEADS[kind]), labels, "eager" if eager else "sdpa")
    with seeded(seed):
        model = open_adapted(place, opening)
        tokenizer = _tokenizer(plan.name, model_under(place))
        marks = marks_of(tokenizer, plan.name, model.get_input_embeddings().weight.shape[0])
        if model.config.pad_token_id is None:
            model.config.pad_token_id = marks.pad  # decoders look for the last token that is none
        head = list(_head(model))
        _renew(model, opening.missing, seed)
        predictor = (FirstToken if kind == "classification" else Predictor)(model)
        longest = position_limit(model)
        widest, packing = min(longest, _WIDEST), None
        if predictor.hooked:
            packing = find_packing(predictor, marks, widest, causal=False)
        if plan.adapter:
            sizes = AdapterPlan(plan.adapter, reduction=plan.reduction, rank=plan.rank)
            add_adapter(model, sizes, seed)
    for parameter in head:
        parameter.requires_grad_(True)
    model.to(hardware.device)
    bf16 = hardware.precision == "bf16"
    network = Network(predictor, model, packing, bf16)
    backend = bare(tokenizer, plan.name)
    return Headed(network, backend, marks, longest, widest, adapted or bool(plan.adapter))


def head_fingerprint(name: str) -> str:
    """Identity of a model, or of an adapter and the model under it, by their files.

    Raises:
        UsageError: it is neither a folder nor a model of the hub.
        ModelError: files are missing.
    """
    place = find(name, setting=MODEL)
    if not (place / ADAPTER).is_file():
        return fingerprint(place)
    files = {p.name: file_digest(p) for p in sorted(place.iterdir()) if p.is_file()}
    under = model_under(place)
    return digest({"adapter": files, "model": "" if under == place else fingerprint(under)})


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


def _head(model: Any) -> Iterator[torch.nn.Parameter]:
    """What is not of the model itself, and its pooler."""
    inside = f"{model.base_model_prefix}."
    for name, parameter in model.named_parameters():
        if not name.startswith(inside) or ".pooler." in name:
            yield parameter


def _renew(model: Any, missing: list[str], seed: int) -> None:
    """Give the matrices of the pooler and of what the file lacks their first values by the seed."""
    import torch

    torch.manual_seed(seed)
    scale = getattr(model.config, "initializer_range", 0.02)
    with torch.no_grad():
        for name, parameter in sorted(model.named_parameters()):
            if name not in missing and ".pooler." not in name:
                continue
            if parameter.ndim >= 2:
                parameter.normal_(0.0, scale)
            elif name.endswith("bias"):
                parameter.zero_()
