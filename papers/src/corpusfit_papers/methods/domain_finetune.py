"""`domain_finetune`: an encoder fine-tuned to separate the target from the corpus.

What: the log odds of a binary classifier, a pretrained encoder with a linear head, all of whose
weights are trained on the target's units against units of the background.
Why: the strongest selector of Unsupervised Domain Clusters: it found at least 97.5 % of every
domain (Table 7), and the threshold 0 (`--threshold 0`) replaces the choice of an amount.
Trade-off: training takes minutes to hours on a CPU, and every text of the corpus needs a pass
through the network. The background also holds texts of the domain, so negatives come from its
bottom two thirds by Domain-Cosine, not centered and over vectors of any length (Table 5: higher F1
in all five domains); `preranked = false` is the ablation. The paper does not state its number of
negatives; one per target unit makes 0 the natural threshold. More training narrows the classifier
from the domain to the target's style (500 ChemProt texts, MiniLM: average precision of biomedical
text 0.98 after 20 steps, which the defaults give for so few texts, and 0.87 after 64). It uses a
GPU if there is one and bf16 if the hardware supports it, whatever the settings of `embed` say.
`Selection.scorer().save_pretrained(folder)` writes the encoder for `AutoModel.from_pretrained` and
`--embedder`.
Reference: Aharoni and Goldberg (2020), Unsupervised Domain Clusters, sections 4.1 and A.4.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from corpusfit.contracts import (
    EmbedPlan,
    Method,
    Scorer,
    Texts,
    TransformerEncoder,
    as_texts,
    lengths,
    load_transformer,
    model_files,
    plain_rows,
    products,
    setting,
)
from corpusfit_papers.finetune import (
    Tuned,
    Tuning,
    encoder_folder,
    finetune,
    open_tuned,
    write_folder,
)
from corpusfit_papers.network import ROWS


@dataclass(frozen=True)
class DomainFinetuneScorer(Scorer[Texts]):
    """The fine-tuned encoder and its head; see `finetune.Tuned`."""

    # [b], the encoder's parameters in float32, bytes of a safetensors file
    weights: NDArray[np.uint8]
    config: str  # its configuration, JSON
    tokenizer: str  # its tokenizer, JSON
    head: NDArray[np.float32]  # [d + 1], a weight for each dimension and the bias
    length: int  # most tokens of a text that are read

    @property
    def _tuned(self) -> Tuned:
        return Tuned(self.weights, self.config, self.tokenizer, self.head, self.length)

    @cached_property
    def _encoder(self) -> TransformerEncoder:
        return open_tuned(self._tuned)

    def score(self, batch: Texts) -> NDArray[np.float32]:
        """Score n texts: float32 [n], log odds of the target's domain.

        The last bits of a score depend on the other texts of its batch.
        """
        texts = as_texts(batch)
        out = np.empty(len(batch), np.float32)
        for first in range(0, len(texts), ROWS):
            vectors = self._encoder.encode(texts[first : first + ROWS])
            out[first : first + ROWS] = products(vectors, self.head[None, :-1])[:, 0]
        return np.asarray(out + self.head[-1])

    def save_pretrained(self, folder: Path) -> None:
        """Write the encoder as a Hugging Face folder; see `finetune.write_folder`."""
        write_folder(self._tuned, folder)


@dataclass(frozen=True)
class DomainFinetune(Method[Texts]):
    """Log odds of the target's domain, by a fine-tuned encoder (Domain-Finetune).

    Attributes:
        embedder: Encoder to fine-tune: minilm, a model folder or a hub id
            OWNER/NAME[@REVISION] (default: --embedder).
        epochs: Passes over the training texts (default: 5).
        learning_rate: Learning rate of Adam (default: 2e-5).
        batch: Most texts per step (default: 256).
        negatives: Background units per target unit; if the background has too few, each weighs more
            (default: 1).
        preranked: Draw negatives only from the bottom two thirds by Domain-Cosine (default: true).
    """

    reads = "text"
    family = "classifier"
    scorer: ClassVar[type] = DomainFinetuneScorer
    exact: ClassVar[bool] = False
    cost: ClassVar[str] = "40/s"
    needs: ClassVar[str] = "models"

    embedder: str = "minilm"
    epochs: int = setting(5, minimum=1)
    learning_rate: float = setting(2e-5, above=0, maximum=1)
    batch: int = setting(256, minimum=1)
    negatives: float = setting(1.0, above=0)
    preranked: bool = True

    @property
    def files(self) -> tuple[str, ...]:
        """The model's files; none for `minilm`, whose bytes are fixed."""
        if self.embedder == "minilm":
            return ()
        return tuple(str(path) for path in model_files(encoder_folder(self.embedder)))

    def fit(self, target: Texts, background: Texts, *, seed: int) -> DomainFinetuneScorer:
        """Draw negatives from the background and train, with one random seed."""
        folder = encoder_folder(self.embedder)
        places = np.arange(len(background))
        if self.preranked:
            plan = EmbedPlan(embedder=self.embedder, unit_length=False)
            encoder = load_transformer(folder, plan, self.embedder)
            inside, outside = (encoder.encode(t) for t in (target, background))
            # the two thirds of the lowest cosine to the mean of the target's vectors, which keep
            # their lengths as in the paper's Domain-Cosine (section 4.1)
            mean = plain_rows(inside.mean(axis=0, keepdims=True, dtype=np.float64))
            order = np.argsort((products(outside, mean) / lengths(outside))[:, 0], kind="stable")
            places = order[: -(-2 * len(order) // 3)]
        count = max(1, round(self.negatives * len(target)))
        rng = np.random.default_rng(seed)
        sampled = np.sort(rng.permutation(places)[:count])
        tuned = finetune(
            folder,
            target.to_pylist(),
            background.take(sampled).to_pylist(),
            count / len(sampled),
            Tuning(self.epochs, self.learning_rate, self.batch, seed),
        )
        return DomainFinetuneScorer(**vars(tuned))
