"""A model's logits at selected positions, computed only where needed, and their loss.

A masked language model is trained on about 15 % of its tokens, a classifier on one token of each
text. transformers' models compute the logits of all tokens; most of this work, and of the memory of
a large vocabulary, is thrown away. A `Predictor` makes any of these models compute less, by hooks,
without a class of our own for each architecture.

What is hooked. The caller names M positions of a batch [B, L], numbered through its rows. A hook
replaces the hidden states [B, L, d] by those at the positions. The later it is, the surer it works,
and the earlier, the more it saves:

- `head`: the output of what the head reads (`_parts` has the candidates). The head then works on M
  states. This is tried first, and the others only if it works.
- `layer`: the inputs of `attention.output` in the last layer of models written like BERT: its
  projection and the feed-forward layers work on M states. No such hook where a pooler reads the
  first token of each row, unless every selected state is one (`selects_first`).
- `attention`: the `forward` of the last layer's self-attention, replaced by `attend_at`: all tokens
  are still keys and values, but only the M tokens are queries.

Besides, where the head is one matrix (`matrix`), `loss` leaves the head out, takes its input and
multiplies it in pieces, so that the logits [M, V] never exist at once.

Which shape the head sees. Token heads work on any [rows, tokens, d], so the M states become one row
[1, M, d] (`_for_head`). Heads of texts read the first token of each row, so a subclass makes each
state a row of its own, [M, 1, d].

What proves it. Nothing is assumed of an architecture. Each hook is set on the model at hand and
called once with two rows of four tokens, of which one is padding; the result must equal `expected`,
the model's own logits at the same positions, within `TOLERANCE`, and the hook must have been
reached where it is meant to be (`_selected_in`). In a test of heads of texts the positions are the
rows' first tokens in reverse, and `expected` is flipped: a hook that changes nothing would return
the rows in their order, and look right if it were not. Where a test fails or raises, as modules may
raise anything on states of another shape, the hook is removed.

When it falls back. Without a hook, `logits` computes all logits and selects afterwards. A hook
passes its input on when the call is not the predictor's (`_at` is None: the model is used by others
too), and in one call when the layer's states are not of the batch's shape, as some models pad rows;
the attention also on a GPU, where reading the longest row's count would wait for the device, with a
mask that is not [B, heads, queries, keys], and while a graph is compiled. Then the next later hook
selects. `loss` computes logits where an adapter has replaced the matrix since.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

from corpusfit.embed.hardware import seeded
from corpusfit.embed.losses import head_loss, weighted_sum

if TYPE_CHECKING:
    import torch

TOLERANCE = 1e-4  # of the largest logit: float32 sums of other shapes differ by less than 1e-5
_HEAD = "head"  # where hidden states are selected
_LAYER = "layer"
_ATTENTION = "attention"
_MAPS = ("query", "key", "value")


def is_bert_attention(part: Any) -> bool:
    """Whether a module has the parts that `attend_at` uses; `Predictor` tests the results."""
    # Causal attention is excluded, because it may work without a mask.
    import torch

    maps = all(isinstance(getattr(part, name, None), torch.nn.Module) for name in _MAPS)
    dropout = isinstance(getattr(part, "dropout", None), torch.nn.Dropout)
    ahead = getattr(part, "is_causal", False) or getattr(part, "is_decoder", False)
    return maps and dropout and hasattr(part, "attention_head_size") and not ahead


def attend_at(
    part: Any, states: torch.Tensor, mask: torch.Tensor | None, at: torch.Tensor
) -> torch.Tensor:
    """Output of self-attention for some tokens."""
    # The last layer of a classifier needs the first token alone, that of a masked LM the 15 %
    # of predicted tokens. Queries are gathered into as many columns as the fullest row needs;
    # reading that number would stall a GPU in every step, so this is used on a CPU.
    import torch
    from torch.nn.functional import scaled_dot_product_attention

    # row and slot of each token, and the column in each slot: 0 in unused slots
    rows = at // states.shape[1]
    column = at % states.shape[1]
    counts = torch.bincount(rows, minlength=len(states))
    order = rows.argsort(stable=True)
    slots = torch.empty_like(at)
    starts = (counts.cumsum(0) - counts)[rows[order]]
    slots[order] = torch.arange(len(at), device=at.device) - starts
    columns = at.new_zeros(len(states), int(counts.max()))
    columns[rows, slots] = column
    queries = part.query(states.gather(1, columns[..., None].expand(-1, -1, states.shape[2])))
    if mask is not None and mask.shape[2] > 1:
        of_query = columns[:, None, :, None].expand(-1, mask.shape[1], -1, mask.shape[3])
        mask = mask.expand(len(states), -1, -1, -1).gather(2, of_query)

    def heads(states: torch.Tensor) -> torch.Tensor:
        return states.view(*states.shape[:2], -1, part.attention_head_size).transpose(1, 2)

    out: torch.Tensor = scaled_dot_product_attention(
        heads(queries),
        heads(part.key(states)),
        heads(part.value(states)),
        attn_mask=mask,
        dropout_p=part.dropout.p if part.dropout.training else 0.0,
    )
    return out.transpose(1, 2).flatten(2).flatten(0, 1)[rows * columns.shape[1] + slots]


class Predictor:
    """The logits at selected positions, for any model whose head works token by token.

    Create it before an adapter or a distributed wrapper is added.
    """

    # The hooks stay on the model.
    # Reference: Liu et al. (2019), RoBERTa, whose head does the same.

    # whether each selected state is the first of a row, which a pooler reads
    selects_first: ClassVar[bool] = False

    def __init__(self, model: Any) -> None:
        self.model = model
        self.hooked = False  # whether the head sees the selected positions alone
        # the place before the head where states are selected, if there is one
        self.early = ""
        # the head, if it is one matrix, so that the loss needs no logits of all positions at once
        self.matrix: Any = None
        self._at: torch.Tensor | None = None
        # the selected states, for the loss without logits; the head is then left out
        self._states: torch.Tensor | None = None
        self._leaves_head_out = False
        self._shape: torch.Size | None = None  # rows and columns that `_at` refers to
        self._selected_in = ""  # where states were selected in the last call
        takes = inspect.signature(model.forward).parameters
        self._more = {"use_cache": False} if "use_cache" in takes else {}
        for part in self._parts():
            if part is not None and self._keep_if_exact(
                _HEAD, part.register_forward_hook(self._select_output)
            ):
                self.hooked = True
                break
        if self.hooked and self._is_matrix():
            self.matrix = model.get_output_embeddings()
            _Patch(self.matrix, self._skip_head)
        last = self._last_attention() if self.hooked else None
        if last and self._keep_if_exact(
            _LAYER, last.output.register_forward_pre_hook(self._select_input)
        ):
            self.early = _LAYER
            inside = last.self
            if is_bert_attention(inside) and self._keep_if_exact(
                _ATTENTION, _Patch(inside, self._attend)
            ):
                self.early = _ATTENTION

    def _last_attention(self) -> Any:
        """The last layer's attention, if it has BERT's submodules `self` and `output`."""
        # None for a model with a pooler, too, as that needs the first token of each row.
        base = self.model.base_model
        layers = getattr(getattr(base, "encoder", None), "layer", None)
        if not layers or not (self.selects_first or getattr(base, "pooler", None) is None):
            return None
        attention = getattr(layers[-1], "attention", None)
        return attention if hasattr(attention, "output") and hasattr(attention, "self") else None

    def _parts(self) -> Iterator[Any]:
        """Modules that may pass the hidden states to the head."""
        base = self.model.base_model
        yield base
        # the head of OPT reads a submodule of its base model
        yield getattr(base, "decoder", None)
        yield getattr(self.model, "model", None)  # Gemma 3 is its own base model

    def _keep_if_exact(self, where: str, handle: Any) -> bool:
        """Whether a hook selects states there without changing the logits; removes it if not."""
        import torch

        rows = self.model.get_input_embeddings().weight.shape[0]
        ids = torch.arange(8, device=self.model.device).reshape(2, 4) % rows
        seen = torch.ones_like(ids)
        seen[1, 3] = 0
        try:
            inputs = {"input_ids": ids, "attention_mask": seen}
            if self.model.config.is_encoder_decoder:
                inputs["decoder_input_ids"] = ids
            with evaluation_mode(self.model):
                expected, hooked = self._expected_and_hooked(inputs)
            same_shape = hooked.shape == expected.shape and self._selected_in == where
            good = same_shape and relative_difference(hooked, expected) < TOLERANCE
        except Exception:
            # layers and heads raise many kinds of exceptions when states are missing
            good = False
        if not good:
            handle.remove()
        return good

    def _is_matrix(self) -> bool:
        """Whether the logits are one matrix times the states that the head gets."""
        import torch

        # sentence encoders have no head, and heads of encoder-decoders see another sequence
        matrix = getattr(self.model, "get_output_embeddings", lambda: None)()
        if type(matrix) is not torch.nn.Linear or self.model.config.is_encoder_decoder:
            return False
        ids = torch.arange(8, device=self.model.device).reshape(2, 4) % len(matrix.weight)
        inputs = {"input_ids": ids}
        at = torch.tensor([1, 6], device=self.model.device)
        try:
            with evaluation_mode(self.model):
                logits = self.logits(self.model, inputs, at)
                product = matrix(self._states_at(self.model, inputs, at))
            return relative_difference(product, logits) < TOLERANCE
        except Exception:  # the states may be of another width
            return False

    def _expected_and_hooked(
        self, inputs: dict[str, torch.Tensor]
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """The model's own logits at some positions, and those with the hook."""
        import torch

        at = torch.tensor([1, 2, 6], device=self.model.device)
        expected = _logits(self.model(**inputs)).flatten(0, 1)[at]
        return expected, self.logits(self.model, inputs, at)

    def _select_output(self, _module: Any, _args: Any, out: Any) -> Any:
        """Hook: select states from a module's output."""
        if self._at is None:
            return out
        if not self._selected_in:
            self._selected_in = _HEAD
            states = self._select(out[0])
            if self._leaves_head_out:
                self._states = states.flatten(0, -2)
                states = states[:, :1]
            out.last_hidden_state = states
        return out

    def _skip_head(self, forward: Any, _part: Any, states: Any) -> Any:
        """Replacement of the head's `forward`: nothing, where the loss multiplies its matrix."""
        # even for one position it would copy the matrix, which took a tenth of a step
        return states if self._leaves_head_out else forward(states)

    def _attend(self, forward: Any, part: Any, states: Any, *args: Any, **more: Any) -> Any:
        """Replacement of the last attention's `forward`: the selected positions only."""
        import torch

        at = self._at
        mask = args[0] if args else more.get("attention_mask")
        # batch, heads, queries, keys; a varlen kernel has the lengths of chunks instead
        plain_mask = mask.ndim == 4 if mask is not None else "cu_seq_lens_q" not in more
        if (
            at is None
            or not len(at)
            or at.is_cuda
            or states.shape[:2] != self._shape
            or not plain_mask
            or torch.compiler.is_compiling()  # it reads a number, which would end a graph
        ):
            return forward(states, *args, **more)
        self._selected_in = _ATTENTION
        return self._for_head(attend_at(part, states, mask, at)), None

    def _select_input(self, _module: Any, args: Any) -> Any:
        """Hook: select states from a module's inputs; not if the model has padded the rows."""
        if self._at is None or args[-1].shape[:2] != self._shape:
            return None
        # the attention has selected its states already
        rest = args[1:] if self._selected_in == _ATTENTION else args
        self._selected_in = self._selected_in or _LAYER
        return *args[: len(args) - len(rest)], *map(self._select, rest)

    def _select(self, states: torch.Tensor) -> torch.Tensor:
        """Select from states [B, L, d], and shape them for the head."""
        assert self._at is not None  # noqa: S101
        return self._for_head(states.flatten(0, 1).index_select(0, self._at))

    def _for_head(self, states: torch.Tensor) -> torch.Tensor:
        """Shape states [M, d] for the head: one row."""
        return states[None]

    def _call_with_hooks(self, call: Any, inputs: dict[str, Any], at: torch.Tensor) -> Any:
        """The model's output with hooks active; `_selected_in` is where states were selected."""
        self._at = at
        self._shape = inputs["input_ids"].shape
        self._selected_in = ""
        try:
            return call(**inputs, **self._more)
        finally:
            self._at = None

    def logits(self, call: Any, inputs: dict[str, Any], at: torch.Tensor) -> torch.Tensor:
        """Logits [M, V] at some positions."""
        logits: torch.Tensor = _logits(self._call_with_hooks(call, inputs, at)).flatten(0, 1)
        return logits if self._selected_in else logits.index_select(0, at)

    def _states_at(self, call: Any, inputs: dict[str, Any], at: torch.Tensor) -> torch.Tensor:
        """What the head gets at some positions, [M, d]."""
        self._leaves_head_out = True
        try:
            self._call_with_hooks(call, inputs, at)
            states = self._states
            self._states = None
        finally:
            self._leaves_head_out = False
        assert states is not None  # noqa: S101
        return states

    def loss(
        self,
        call: Any,
        inputs: dict[str, Any],
        at: torch.Tensor,
        labels: torch.Tensor,
        scale: torch.Tensor,
    ) -> torch.Tensor:
        """Weighted sum of the cross-entropies [M] at some positions, in nats, in float32."""
        # A head that is one matrix is multiplied in pieces, each with its loss and gradient, so
        # that a large vocabulary's logits are never held at once. Not where an adapter has changed
        # the matrix since. FSDP has put it together for the call, and divides it again, and its
        # gradient, at the end of the backward pass.
        # Reference: Hsu et al. (2024), Liger Kernel, section 3.2 (FusedLinearCrossEntropy).
        matrix = self.matrix
        plain = matrix is not None and matrix is self.model.get_output_embeddings()
        if not plain or not len(at):
            return weighted_sum(self.logits(call, inputs, at), labels, scale)
        states = self._states_at(call, inputs, at)
        return head_loss(states, matrix.weight, matrix.bias, labels, scale)

    def pair(
        self, call: Any, inputs: dict[str, Any], at: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Logits [M, V] as in `logits`, and next-sentence logits [B, 2]; class 0: it follows."""
        out = self._call_with_hooks(call, inputs, at)
        logits: torch.Tensor = out.prediction_logits.flatten(0, 1)
        logits = logits if self._selected_in else logits.index_select(0, at)
        return logits, out.seq_relationship_logits


class _Patch:
    """Replaces a module's `forward` by a call with the old one, until it is removed."""

    def __init__(self, part: Any, called: Any) -> None:
        self._part = part
        part.forward = partial(called, part.forward, part)

    def remove(self) -> None:
        """Restore the module's `forward`."""
        del self._part.forward


def _logits(out: Any) -> Any:
    """Token logits of a model's output."""
    return out["logits"] if "logits" in out else out["prediction_logits"]


def relative_difference(ours: torch.Tensor, others: torch.Tensor) -> float:
    """Largest difference relative to the largest logit; infinite for NaN."""
    largest = (ours - others).abs().max() / others.abs().max()
    return float(largest.nan_to_num(float("inf")))


@contextmanager
def evaluation_mode(model: Any) -> Iterator[None]:
    """Evaluation mode without gradients; restores the mode and torch's random state on exit."""
    import torch

    modes = [(part, part.training) for part in model.modules()]
    model.eval()
    try:
        with seeded(0), torch.no_grad():
            yield
    finally:
        model.train(modes[0][1])  # BigBird replaces modules while it runs
        for part, mode in modes:
            part.training = mode


def reads_ahead(model: Any) -> bool:
    """Whether a token's logits depend on later tokens."""
    import torch

    ids = torch.tensor([[1, 2, 3, 4], [1, 2, 3, 5]])
    ids %= model.get_input_embeddings().weight.shape[0]
    with torch.no_grad():
        logits = model(input_ids=ids).logits[:, :3]
    return not torch.allclose(logits[0], logits[1], rtol=1e-4, atol=1e-5)
