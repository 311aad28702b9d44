"""Sentence encoders in training: a transformer with its pooling, and TSDAE's decoder.

What: an autoencoder, whose decoder rebuilds a text from its embedding by cross-attention to this
one vector.
Why: encoder and decoder share all parameters except the cross-attention and the head, so what
the decoder learns of the domain reaches the encoder.
Trade-off: only architectures whose causal form takes `add_cross_attention` have a decoder (BERT,
RoBERTa, ELECTRA and similar ones); others are refused.
Reference: Wang et al. (2021), TSDAE, section 3.
"""

from __future__ import annotations

import copy
from typing import Any

import torch

from corpusfit.embed.folders import Pooling
from corpusfit.embed.prediction import evaluation_mode


class DenoisingAutoencoder(torch.nn.Module):
    """A transformer with the pooling of its states into one embedding, and a decoder of it.

    Both have the same weights. It is called like an encoder-decoder.
    """

    def __init__(self, encoder: Any, pooling: Pooling, decoder: Any) -> None:
        super().__init__()
        self.encoder = encoder
        self.pooling = pooling
        self.decoder = decoder
        self.config = copy.deepcopy(encoder.config)
        self.config.is_encoder_decoder = True
        for name, weight in decoder.base_model.named_parameters():
            part, _, leaf = name.rpartition(".")
            if name in self._names:
                setattr(encoder.get_submodule(part), leaf, weight)

    @property
    def device(self) -> torch.device:
        """Device of the weights."""
        device: torch.device = self.encoder.device
        return device

    @property
    def base_model(self) -> Any:
        """The decoder without its head, as transformers names it."""
        return self.decoder.base_model

    def get_input_embeddings(self) -> Any:
        """The table of the tokens' embeddings."""
        return self.encoder.get_input_embeddings()

    def forward(
        self,
        input_ids: torch.Tensor,
        attention_mask: torch.Tensor,
        decoder_input_ids: torch.Tensor | None = None,
    ) -> Any:
        """The decoder's output for the embeddings of rows of token ids [r, l].

        Args:
            input_ids: what the encoder reads.
            attention_mask: 1 where a token of them is real.
            decoder_input_ids: what the decoder reads.
        """
        embeddings = self._embedded(input_ids, attention_mask)
        return self._decoded(decoder_input_ids, embeddings)

    def _embedded(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> Any:
        """Embeddings [r, d] of the rows."""
        states = self.encoder(input_ids=input_ids, attention_mask=attention_mask).last_hidden_state
        if self.pooling.mode == "cls":
            return states[:, 0]
        masked = states.masked_fill(attention_mask[:, :, None] == 0, 0)
        return masked.sum(1, dtype=torch.float32) / attention_mask.sum(1, keepdim=True)

    @property
    def _names(self) -> set[str]:
        """Names of the encoder's weights, without those of a pooler, which is not trained."""
        return {name for name, p in self.encoder.named_parameters() if p.requires_grad}

    def _decoded(self, ids: torch.Tensor | None, embeddings: torch.Tensor) -> Any:
        return self.decoder(
            input_ids=ids, encoder_hidden_states=embeddings[:, None], use_cache=False
        )

    def decodes(self) -> bool:
        """Whether the decoder shares the encoder's weights, reads the embedding and is causal."""
        if not self._names <= {name for name, _ in self.base_model.named_parameters()}:
            return False
        # two texts that differ in their last token only, which the earlier ones must not see
        rows = int(self.get_input_embeddings().weight.shape[0])
        ids = torch.tensor([[1, 2, 3, 4], [1, 2, 3, 5]], device=self.device) % rows
        zeros = torch.zeros(len(ids), int(self.config.hidden_size), device=self.device)
        with evaluation_mode(self):
            try:
                one, other = (self._decoded(ids, v).logits[:, :3] for v in (zeros, zeros + 1))
            except (TypeError, ValueError, RuntimeError, AttributeError):
                return False
        causal = torch.allclose(one[0], one[1], rtol=1e-4, atol=1e-5)
        reads_embedding = not torch.equal(one, other)
        return causal and reads_embedding
