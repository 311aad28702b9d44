"""Beam search for encoder-decoders: batches by length, one encoding for all beams of a sentence.

What: the sentences of `transformers.generate`, which prepares each batch (the encoder, the rules
for tokens, the cache) and calls this search in place of its own.
Why: the search of `generate` copies the encoded sentence for every beam, reorders the copies at
every step, and keeps a sentence in the batch until the last one is finished.
How: the beams of a sentence attend to it as rows of one query, so its keys and values are computed
and stored once; a finished sentence leaves the batch; sentences of similar length share a batch.
Trade-off: rounding depends on the batch, as in every matrix product, so two translations that score
the same to the last digits can change places.
Reference: Vaswani et al. (2017), section 6.1; Wu et al. (2016), section 7 (length penalty).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from corpusfit.core.plan import size_for
from corpusfit.embed.transformer import position_limit, token_batches
from corpusfit.training.plan import DecodePlan
from corpusfit.training.special_tokens import known_tag, source_prefix

if TYPE_CHECKING:
    import torch

BUDGET = {"cpu": 1_024, "gpu": 16_384}
"""Source tokens of a batch, padding included."""

_NEVER = -1e9  # score of a missing hypothesis, as in `generate`
_FOLDED = "corpusfit_folded"
_CROSS_ATTENTION = ("encoder_attn", "EncDecAttention")  # of the BART and T5 families


class Translated(NamedTuple):
    """Translations of n texts, and the number of truncated texts."""

    texts: list[str]
    truncated: int


def translate(
    model: Any,
    tokenizer: Any,
    texts: Sequence[str],
    search: DecodePlan,
    *,
    budget: int = 0,
    on_done: Callable[[int], None] | None = None,
) -> Translated:
    """Translate texts by beam search, each as one sentence."""
    # a model without tokens of domains reads the texts as they are
    longest = min(position_limit(model), tokenizer.model_max_length)
    prefix = known_tag(tokenizer, search.domain) or source_prefix(model)
    sources = [prefix + text.strip() for text in texts]
    rows = tokenizer(sources, return_attention_mask=False, verbose=False)["input_ids"]
    truncated = sum(len(row) > longest for row in rows)
    rows = [row if len(row) <= longest else [*row[: longest - 1], row[-1]] for row in rows]
    tokens = beam_search(model, rows, search, budget=budget, on_done=on_done)
    translations = tokenizer.batch_decode(tokens, skip_special_tokens=True)
    return Translated([text.strip() for text in translations], truncated)


def beam_search(
    model: Any,
    rows: Sequence[Sequence[int]],
    search: DecodePlan,
    *,
    budget: int = 0,
    on_done: Callable[[int], None] | None = None,
) -> list[list[int]]:
    """Translate token lists, as `model.generate(num_beams=…, max_new_tokens=…)` does."""
    import torch

    stated = model.generation_config
    penalties = (search.penalty, getattr(stated, "length_penalty", None), 1.0)
    penalty = next(p for p in penalties if p is not None)
    longest = min(search.longest, position_limit(model))
    search = replace(search, longest=longest, penalty=penalty)
    pad = model.config.pad_token_id or 0
    # mask forbidden single tokens ourselves, as transformers would copy all scores
    bad_words = stated.bad_words_ids or []
    forbidden = [w[0] for w in bad_words if len(w) == 1 and w[0] != stated.eos_token_id]
    # tell `generate` of a single beam, so that it neither expands its inputs nor warns
    options: dict[str, Any] = {"num_beams": 1, "early_stopping": False, "length_penalty": 1.0}
    # a model's own `max_length`, which Marian's have, would be warned of in every batch
    options |= {"max_new_tokens": longest, "max_length": None}
    options |= {"do_sample": False, "pad_token_id": pad}
    options["bad_words_ids"] = [word for word in bad_words if len(word) > 1] or None
    translations: list[list[int]] = [[] for _ in rows]
    lengths = np.fromiter(map(len, rows), np.int64, len(rows))
    with torch.inference_mode(), _folding(model) as folding:
        early = getattr(stated, "early_stopping", None) or False
        decode = partial(_decode, search, early, forbidden, folding)
        for batch in token_batches(lengths, budget or size_for(model.device.type, BUDGET)):
            tensors = [torch.tensor(rows[i], dtype=torch.long) for i in batch]
            ids = torch.nn.utils.rnn.pad_sequence(tensors, batch_first=True, padding_value=pad)
            mask = torch.arange(ids.shape[1]) < torch.from_numpy(lengths[batch])[:, None]
            decoded = model.generate(
                input_ids=ids.to(model.device),
                attention_mask=mask.long().to(model.device),
                custom_generate=decode,
                **options,
            )
            for i, tokens in zip(batch.tolist(), decoded, strict=True):
                translations[i] = tokens
            if on_done is not None:
                on_done(len(batch))
    return translations


def _decode(
    search: DecodePlan,
    early: bool | str,
    forbidden: list[int],
    folding: _Folding,
    model: Any,
    input_ids: torch.Tensor,
    logits_processor: Any,
    generation_config: Any,
    **inputs: Any,  # positional: `generate` withholds named arguments from the encoder
) -> list[list[int]]:
    """Decode a batch for `generate`: the first call has one row for each sentence."""
    import torch

    encoded, cache = inputs["encoder_outputs"], inputs["past_key_values"]
    mask = inputs["attention_mask"]
    beams = _Beams(input_ids, generation_config.eos_token_id, search, early)
    for length in range(1, search.longest + 1):
        tokens = beams.tokens.flatten(0, 1)
        folding.mask = mask[:, None, None, :].bool()
        out = model(
            encoder_outputs=encoded,
            attention_mask=mask if len(tokens) == len(mask) else None,
            decoder_input_ids=tokens[:, -1:],
            past_key_values=cache,
            use_cache=True,
            return_dict=True,
        )
        scores = torch.log_softmax(out.logits[:, -1].float(), -1)
        scores[:, forbidden] = -torch.inf
        parents, left = beams.extend(logits_processor(tokens, scores), length)
        if not len(beams.place):
            break
        if parents is not None:
            cache.self_attention_cache.batch_select_indices(parents)
        # without folding every beam has its own copy of the encoded sentence, and all are alike
        sources = parents if parents is not None and not folding.used else left
        if sources is not None:
            cache.cross_attention_cache.batch_select_indices(sources)
            encoded.last_hidden_state = encoded.last_hidden_state[sources]
            mask = mask[sources]
    return beams.translations


class _Beams:
    """The beams of the sentences of a batch: tokens and scores, running and finished.

    Shapes: n sentences, b beams, 2 b candidates, so that b are left if b of them end (as in
    `generate`).
    """

    def __init__(
        self, first: torch.Tensor, end: Any, search: DecodePlan, early: bool | str
    ) -> None:
        import torch

        n, b, device = len(first), search.beam, first.device
        self.search, self.early = search, early
        self.ends = torch.tensor([end] if isinstance(end, int) else end or [], device=device)
        self.candidates = b * max(2, 1 + len(self.ends))
        self.translations: list[list[int]] = [[] for _ in range(n)]
        self.place = torch.arange(n, device=device)
        self.tokens, self.scores = first[:, None, :], torch.zeros((n, 1), device=device)
        self.best = torch.full((n, b), _NEVER, device=device)
        self.finished = torch.full((n, b, search.longest), -1, device=device)  # -1 after the end

    def extend(
        self, scores: torch.Tensor, made: int
    ) -> tuple[torch.Tensor | None, torch.Tensor | None]:
        """Add a token to every beam; returns the rows and sentences to keep, None for all."""
        import torch

        (n, beams), b = self.scores.shape, self.search.beam
        penalty, longest = self.search.penalty or 0.0, self.search.longest
        values, ids = scores.topk(min(self.candidates, scores.shape[1]), dim=1)
        totals = (values.view(n, beams, -1) + self.scores[:, :, None]).flatten(1)
        totals, places = totals.topk(min(self.candidates, totals.shape[1]), dim=1)
        token = ids.view(n, -1).gather(1, places)
        parent = places // values.shape[1]
        ends = torch.isin(token, self.ends) | (made == longest)
        finishing = ends.clone()
        finishing[:, b:] = False  # the lower b candidates only replace beams that end
        if bool(finishing.any()):
            ranked = totals / made**penalty + ~finishing * _NEVER
            before = self.tokens.gather(1, parent[:, :, None].expand(-1, -1, made))
            new = torch.full((*ends.shape, longest), -1, device=token.device)
            new[:, :, : made - 1], new[:, :, made - 1] = before[:, :, 1:], token
            self.best, order = torch.cat([self.best, ranked], 1).topk(b, dim=1)
            both = torch.cat([self.finished, new], 1)
            self.finished = both.gather(1, order[:, :, None].expand(-1, -1, longest))
        running, order = (totals + ends * _NEVER).topk(b, dim=1)
        parent, token = parent.gather(1, order), token.gather(1, order)
        # a sentence is done when no running beam is expected to beat its finished ones
        worst = self.best.min(1).values
        done = worst > _NEVER / 2
        if self.early is not True:
            length = longest if self.early == "never" and penalty > 0 else made
            done &= running[:, 0] / length**penalty <= worst
        done |= ends.all(1)
        for i in torch.nonzero(done)[:, 0].tolist():
            tokens = self.finished[i, 0]
            self.translations[int(self.place[i])] = tokens[tokens >= 0].tolist()
        left = torch.nonzero(~done)[:, 0]
        rows = (left[:, None] * beams + parent[left]).flatten()
        before = self.tokens.flatten(0, 1)[rows].view(*parent[left].shape, made)
        self.tokens = torch.cat([before, token[left][:, :, None]], dim=2)
        self.scores = running[left]
        if len(left) < n:
            for name in ("place", "best", "finished"):
                setattr(self, name, getattr(self, name)[left])
            return rows, left
        same = beams == b and torch.equal(rows, torch.arange(len(rows), device=rows.device))
        return None if same else rows, None


class _Folding:
    """Attention of all beams of a sentence to the sentence, as rows of one query."""

    mask: torch.Tensor | None = None  # bool [n, 1, 1, S] of the sentences' real tokens
    used = False  # T5 before transformers 5 does not ask the interface of attentions

    def __call__(
        self, module: Any, query: Any, key: Any, value: Any, mask: Any, **options: Any
    ) -> Any:
        from torch.nn.functional import scaled_dot_product_attention
        from transformers import AttentionInterface

        if not hasattr(module, _FOLDED):
            return AttentionInterface()["sdpa"](module, query, key, value, mask, **options)
        self.used = True
        heads, width = query.shape[1], query.shape[3]
        rows = query.reshape(key.shape[0], -1, heads, width).transpose(1, 2)
        scale = options.get("scaling")
        out = scaled_dot_product_attention(rows, key, value, attn_mask=self.mask, scale=scale)
        return out.transpose(1, 2).reshape(query.shape[0], 1, heads, width), None


@contextmanager
def _folding(model: Any) -> Iterator[_Folding]:
    """Give a model's decoder the folded attention, for as long as it decodes."""
    from transformers import AttentionInterface, AttentionMaskInterface

    folding, decoder = _Folding(), model.get_decoder()
    AttentionInterface.register(_FOLDED, folding)
    AttentionMaskInterface.register(_FOLDED, AttentionMaskInterface()["sdpa"])
    config, before = decoder.config, decoder.config._attn_implementation
    crossing = [m for name, m in decoder.named_modules() if name.endswith(_CROSS_ATTENTION)]
    try:
        if before == "sdpa":
            config._attn_implementation = _FOLDED
            for module in crossing:
                setattr(module, _FOLDED, True)
        yield folding
    finally:
        config._attn_implementation = before
        for module in crossing:
            module.__dict__.pop(_FOLDED, None)
