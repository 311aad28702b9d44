"""The tokens that a model's generation config forbids or forces."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True, eq=False)
class TokenRules:
    """The rules of a generation config for the next token.

    Words of one token are forbidden in place; all other rules are those of transformers, applied in
    the order of `generate`.

    Attributes:
        start: first token of the decoder.
        end: int64 [e], the end tokens.
        forbidden: int64 [k], tokens that never come.
        others: logits processors of transformers.
        normal: whether probabilities are normalised again after the rules.
    """

    start: int
    end: torch.Tensor
    forbidden: torch.Tensor
    others: Any
    normal: bool

    @classmethod
    def of(cls, model: Any, longest: int) -> TokenRules:
        """The rules of a model for translations of at most `longest` tokens."""
        import torch
        import transformers as t

        def get(name: str) -> Any:
            found = getattr(model.generation_config, name, None)
            return getattr(model.config, name, None) if found is None else found

        device = model.device
        end = _as_list(get("eos_token_id"))
        words = [
            list(word) for word in get("bad_words_ids") or [] if [*word] not in [[e] for e in end]
        ]
        forbidden = [word[0] for word in words if len(word) == 1]
        forbidden += _as_list(get("suppress_tokens"))
        others = t.LogitsProcessorList()
        if (get("repetition_penalty") or 1.0) != 1.0:
            others.append(t.RepetitionPenaltyLogitsProcessor(get("repetition_penalty")))
        if get("no_repeat_ngram_size"):
            others.append(t.NoRepeatNGramLogitsProcessor(get("no_repeat_ngram_size")))
        longer = [word for word in words if len(word) > 1]
        if longer:
            others.append(t.NoBadWordsLogitsProcessor(longer, end))
        if get("min_length") and end:
            others.append(t.MinLengthLogitsProcessor(get("min_length"), end, device=str(device)))
        if get("forced_bos_token_id") is not None:
            others.append(t.ForcedBOSTokenLogitsProcessor(get("forced_bos_token_id")))
        if get("forced_eos_token_id") is not None:
            others.append(
                t.ForcedEOSTokenLogitsProcessor(
                    longest + 1, get("forced_eos_token_id"), str(device)
                )
            )
        if get("begin_suppress_tokens"):
            others.append(
                t.SuppressTokensAtBeginLogitsProcessor(get("begin_suppress_tokens"), 1, str(device))
            )
        start = get("decoder_start_token_id")
        start = get("bos_token_id") if start is None else start
        return cls(
            int(start),
            torch.tensor(end, device=device),
            torch.tensor(sorted(set(forbidden)), dtype=torch.long, device=device),
            others,
            bool(get("renormalize_logits")),
        )

    @property
    def spare(self) -> int:
        """Candidates for every beam, so that one is left where each end token comes."""
        return max(2, 1 + len(self.end))

    def ends(self, tokens: torch.Tensor) -> torch.Tensor:
        """Whether tokens are end tokens."""
        import torch

        return torch.isin(tokens, self.end)

    def scores(self, tokens: torch.Tensor, logits: torch.Tensor) -> torch.Tensor:
        """Log probabilities of the next token, by the rules."""
        import torch

        found = torch.log_softmax(logits, -1)
        if len(self.forbidden):
            found[:, self.forbidden] = -torch.inf
        found = self.others(tokens, found)
        return torch.log_softmax(found, -1) if self.normal else torch.as_tensor(found)


def _as_list(found: Any) -> list[int]:
    return [] if found is None else [found] if isinstance(found, int) else [int(i) for i in found]
