"""Beam search for encoder-decoders: batches by length, one encoding for all beams of a sentence.

What: the beam search of `transformers.generate`, with its scores, length penalty and stopping rule.
Why: `generate` copies the encoded sentence for every beam, reorders the copies at every step, and
keeps a sentence in the batch until the last one is finished.
How: the beams of a sentence attend to it as rows of one query, so its keys and values are computed
and stored once; a finished sentence leaves the batch; sentences of similar length share a batch.
Trade-off: rounding depends on the batch, as in every matrix product, so two translations that score
the same to the last digits can change places.
Reference: Vaswani et al. (2017), section 6.1 (beam search with a length penalty); Wu et al. (2016),
section 7.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from corpusfit.embed.transformer import position_limit, token_batches
from corpusfit.training.decode_plan import DecodePlan
from corpusfit.training.folded_attention import Folding, folding_attention
from corpusfit.training.token_rules import TokenRules

if TYPE_CHECKING:
    import torch

BUDGET = {"cpu": 1_024, "cuda": 16_384}
"""Source tokens of a batch, padding included."""

_NEVER = -1e9  # the score of what is not there, as in `generate`


def beam_search(
    model: Any,
    rows: Sequence[Sequence[int]],
    search: DecodePlan,
    *,
    budget: int = 0,
    on_done: Callable[[int], None] | None = None,
) -> list[list[int]]:
    """Translate token lists, as `model.generate(num_beams=…, max_new_tokens=…)` does.

    Of the model's generation config it follows `length_penalty`, `early_stopping` and everything in
    `TokenRules`.
    """
    import torch

    found: list[list[int]] = [[] for _ in rows]
    lengths = np.fromiter(map(len, rows), np.int64, len(rows))
    budget = budget or BUDGET[model.device.type]
    search = replace(search, longest=min(search.longest, position_limit(model)))
    with torch.inference_mode(), folding_attention(model) as folding:
        for batch in token_batches(lengths, budget):
            beams = _Beams(_Decoder(model, [rows[i] for i in batch], folding), search)
            for i, tokens in zip(batch.tolist(), beams.run(), strict=True):
                found[i] = tokens
            if on_done is not None:
                on_done(len(batch))
    return found


class _Decoder:
    """The model's decoder with its cache, for the sentences that are not finished.

    If the model's attention cannot be folded (T5 before transformers 5), the sentences are repeated
    for every beam.
    """

    def __init__(self, model: Any, rows: Sequence[Sequence[int]], folding: Folding) -> None:
        import torch
        from transformers import DynamicCache, EncoderDecoderCache

        self.model, self.folding, self.sentences = model, folding, len(rows)
        ids = torch.nn.utils.rnn.pad_sequence(
            [torch.tensor(row, dtype=torch.long) for row in rows],
            batch_first=True,
            padding_value=model.config.pad_token_id or 0,
        ).to(model.device)
        lengths = torch.tensor([len(row) for row in rows], device=ids.device)[:, None]
        self.mask = torch.arange(ids.shape[1], device=ids.device) < lengths
        self.cache = EncoderDecoderCache(DynamicCache(), DynamicCache())
        self.encoded = model.get_encoder()(
            input_ids=ids, attention_mask=self.mask.long(), return_dict=True
        )

    def logits(self, tokens: torch.Tensor) -> torch.Tensor:
        """Float32 [rows, vocabulary] after the tokens, int64 [rows]; rows are sentences by beams.

        The first call has one row for each sentence.
        """
        self.folding.mask = self.mask[:, None, None, :]
        alike = len(tokens) == len(self.mask)
        out = self.model(
            encoder_outputs=self.encoded,
            attention_mask=self.mask.long() if alike else None,
            decoder_input_ids=tokens[:, None],
            past_key_values=self.cache,
            use_cache=True,
            return_dict=True,
        )
        found: torch.Tensor = out.logits[:, -1].float()
        return found

    def take(self, beams: torch.Tensor | None, sentences: torch.Tensor | None) -> None:
        """Keep rows of the cache."""
        if beams is not None:
            self.cache.self_attention_cache.batch_select_indices(beams)
        repeated = None
        if beams is not None and not self.folding.used:
            repeated = beams  # the rows of a sentence are alike, so any of them will do
        elif sentences is not None:
            repeated = sentences
        if repeated is not None:
            self.cache.cross_attention_cache.batch_select_indices(repeated)
            self.encoded.last_hidden_state = self.encoded.last_hidden_state[repeated]
            self.mask = self.mask[repeated]


class _Beams:
    """The beams of the sentences of a batch: tokens and scores, running and finished.

    Shapes: n sentences, b beams, 2 b candidates, so that b are left if b of them end (as in
    `generate`).
    """

    def __init__(self, decoder: _Decoder, search: DecodePlan) -> None:
        import torch

        self.decoder, self.beam = decoder, search.beam
        config = decoder.model.generation_config
        penalties = (search.penalty, getattr(config, "length_penalty", None), 1.0)
        self.penalty = next(p for p in penalties if p is not None)
        self.early = getattr(config, "early_stopping", None) or False
        self.longest = search.longest
        self.rules = TokenRules.of(decoder.model, search.longest)
        n, device = decoder.sentences, decoder.model.device
        self.place = torch.arange(n, device=device)
        self.order = torch.arange(self.beam, device=device)
        self.tokens = torch.full((n, 1, 1), self.rules.start, device=device)
        self.scores = torch.zeros((n, 1), device=device)
        self.ended = torch.zeros((n, self.beam), dtype=torch.bool, device=device)
        self.best = torch.full((n, self.beam), _NEVER, device=device)
        self.kept = torch.zeros((n, self.beam, search.longest), dtype=torch.long, device=device)
        self.lengths = torch.zeros((n, self.beam), dtype=torch.long, device=device)
        self.found: list[list[int]] = [[] for _ in range(n)]

    def run(self) -> list[list[int]]:
        """The best translation of every sentence, without the start token."""
        for made in range(1, self.longest + 1):
            rows = self.tokens.flatten(0, 1)
            scores = self.rules.scores(rows, self.decoder.logits(rows[:, -1]))
            self._extend(scores, made)
            if not len(self.place):
                break
        return self.found

    def _extend(self, scores: torch.Tensor, made: int) -> None:
        """Add a token to every beam."""
        import torch

        n, beams = self.scores.shape
        values, ids = scores.topk(min(self.rules.spare * self.beam, scores.shape[1]), dim=1)
        totals = (values.view(n, beams, -1) + self.scores[:, :, None]).flatten(1)
        totals, places = totals.topk(min(self.rules.spare * self.beam, totals.shape[1]), dim=1)
        token = ids.view(n, -1).gather(1, places)
        parent = places // values.shape[1]
        ends = self.rules.ends(token) | (made == self.longest)
        self._finish(totals, parent, token, ends, made)
        running, order = (totals + ends * _NEVER).topk(self.beam, dim=1)
        parent, token = parent.gather(1, order), token.gather(1, order)
        done = self._done(running, made) | ends.all(1)
        left = torch.nonzero(~done)[:, 0]
        self._release(torch.nonzero(done)[:, 0].tolist())
        self._keep(running, parent, token, left, beams)

    def _keep(
        self,
        running: torch.Tensor,
        parent: torch.Tensor,
        token: torch.Tensor,
        left: torch.Tensor,
        beams: int,
    ) -> None:
        """Go on with the beams of the sentences that are left."""
        import torch

        every = len(left) == len(self.place)
        rows = (left[:, None] * beams + parent[left]).flatten()
        before = self.tokens.flatten(0, 1)[rows].view(*parent[left].shape, self.tokens.shape[2])
        self.tokens = torch.cat([before, token[left][:, :, None]], dim=2)
        self.scores = running[left]
        if not every:
            for name in ("place", "ended", "best", "kept", "lengths"):
                setattr(self, name, getattr(self, name)[left])
        if len(left):
            still = (
                every and beams == self.beam and torch.equal(parent, self.order.expand_as(parent))
            )
            self.decoder.take(None if still else rows, None if every else left)

    def _finish(
        self,
        totals: torch.Tensor,
        parent: torch.Tensor,
        token: torch.Tensor,
        ends: torch.Tensor,
        made: int,
    ) -> None:
        """Put candidates that end among the finished ones, of which each sentence keeps the best.

        Only the first b candidates may finish; the others are there to go on.
        """
        import torch

        ends = ends.clone()
        ends[:, self.beam :] = False
        if not bool(ends.any()):
            return
        scores = totals / made**self.penalty + ~ends * _NEVER
        before = self.tokens.gather(1, parent[:, :, None].expand(-1, -1, made))
        new = torch.zeros((*ends.shape, self.longest), dtype=torch.long, device=token.device)
        new[:, :, : made - 1], new[:, :, made - 1] = before[:, :, 1:], token
        self.best, order = torch.cat([self.best, scores], 1).topk(self.beam, dim=1)
        self.ended = torch.cat([self.ended, ends], 1).gather(1, order)
        lengths = torch.cat([self.lengths, torch.full_like(parent, made)], 1)
        self.lengths = lengths.gather(1, order)
        both = torch.cat([self.kept, new], 1)
        self.kept = both.gather(1, order[:, :, None].expand(-1, -1, self.longest))

    def _done(self, running: torch.Tensor, made: int) -> torch.Tensor:
        """Bool [n]: whether no running beam is expected to beat the finished ones."""
        full = self.ended.all(1)
        if self.early is True:
            return full
        longest = self.longest if self.early == "never" and self.penalty > 0 else made
        possible = running[:, 0] / longest**self.penalty
        done: torch.Tensor = full & (possible <= self.best.min(1).values)
        return done

    def _release(self, done: list[int]) -> None:
        """Store the best translation of finished sentences."""
        for i in done:
            length = int(self.lengths[i, 0])
            self.found[int(self.place[i])] = self.kept[i, 0, :length].tolist()
