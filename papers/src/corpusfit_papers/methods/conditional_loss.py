"""`conditional_loss`: how much a language model's loss on a text falls once it has seen the target.

What: the mean over a text's tokens of loss before minus loss after, in nats, under one language
model as it is and after a short adaptation to the target. Masked models predict 15 % of the tokens
in each of four random masks, which depend on the text alone; causal ones predict each token from
those before it.
Why: Moore-Lewis with the user's own network in place of n-gram models: what is hard for both
cancels, and what the model would learn from the target remains. With `steps=1` it is, to first
order, an influence score: the inner product of the text's gradient with the change of the weights,
found by finite difference, which needs forward passes alone.
Trade-off: two passes through the network per text: best after a cheap method. The change is
Adam's, whose first step is nearly the sign of the target's mean gradient; LESS normalizes and
projects gradients instead. Differences of losses are smaller than bf16 resolves, so texts are
scored in float32; only the adaptation computes in bf16 where the hardware supports it. Dropout is
off throughout, so that a step is the gradient's alone. The model learns the target's style and
markup, too, and forgets a little of all else, so scores of the corpus are mostly below 0 and only
their order counts. What is noise in it comes from few masked tokens, in scoring and in the steps
(benchmarks/log.md). The cost is that of BERT-mini's size (3 layers, 384 wide) on texts of 136
words. The scorer holds the model twice. It uses a GPU if there is one, whatever `embed.device` and
`embed.precision` say.
Reference: Brandfonbrener et al. (2024), CoLoR-Filter, section 3; Moore and Lewis (2010),
Intelligent Selection of Language Model Training Data; Xia et al. (2024), LESS, section 3.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from hashlib import blake2b
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from corpusfit.contracts import (
    EmbedPlan,
    Method,
    MissingDependencyError,
    ModelSetting,
    Predictor,
    Scorer,
    Texts,
    as_texts,
    bad_setting,
    model_files,
    place_keys,
    position_limit,
    resolve,
    setting,
    token_batches,
)
from corpusfit_papers.network import (
    ROWS,
    Row,
    auto_class,
    batch_tokens,
    language_model_folder,
    new_model,
    open_language_model,
    padding,
    row_losses,
)

MODEL = ModelSetting(
    name="`method.model`",
    allowed="a model folder or a Hugging Face hub id of a masked or causal language model",
    otherwise="use `method.name=moore_lewis`, which needs no model",
    extra="models",
)
SHARE = 0.15
"""Share of a text's tokens that each random mask hides."""
DRAWS = 4
"""Draws per text in scoring; no token is masked twice. Each costs as much time as the first."""
WORDLESS = -32.0
"""Score of a text without tokens, as of n-gram models."""
CHARACTERS = 64
"""Most characters of a text that are read for each token of its limit."""
READ = 4_000
"""Texts that the adaptation reads: each text of the target several times, or some of them."""


@dataclass(frozen=True)
class Reading:
    """How texts become rows."""

    tokenizer: str  # tokenizer.json
    special: tuple[int, ...]  # token ids that are never predicted
    mask: int  # id of the mask token; -1 for a causal model
    fill: int  # id for padding
    length: int  # most tokens of a text that are read, special tokens included

    @cached_property
    def _backend(self) -> Any:
        from tokenizers import Tokenizer

        backend = Tokenizer.from_str(self.tokenizer)
        backend.enable_truncation(self.length)
        backend.no_padding()
        return backend

    def rows(self, texts: Sequence[str], *, stream: int, draws: int) -> list[Row]:
        """The rows of texts, one for each random mask; none for a text with nothing to predict.

        A text's masks depend on its tokens and the stream, not on other texts.
        """
        rows = []
        cut = [text[: CHARACTERS * self.length] for text in texts]
        for number, encoding in enumerate(self._backend.encode_batch(cut)):
            ids = np.array(encoding.ids, np.int64)
            places = np.flatnonzero(~np.isin(ids, self.special))
            if self.mask < 0:
                places = places[places > 0]  # nothing stands before the first token
                if len(places):
                    rows.append(Row(number, ids, places - 1, ids[places]))
                continue
            content = blake2b(ids.astype("<i8").tobytes(), digest_size=8).digest()
            keys = place_keys(int.from_bytes(content, "little"), stream, len(places))
            order = places[np.argsort(keys, kind="stable")]
            count = math.ceil(SHARE * len(places))
            for begin in range(0, draws * count, max(1, count)):
                masked = np.sort(order[begin : begin + count])
                if len(masked):
                    row = ids.copy()
                    row[masked] = self.mask
                    rows.append(Row(number, row, masked, ids[masked]))
        return rows


@dataclass(frozen=True)
class ConditionalLossScorer(Scorer[Texts]):
    """The language model before and after the adaptation, and how it reads texts."""

    # [b], the model's parameters in float32, bytes of safetensors files
    before: NDArray[np.uint8]
    after: NDArray[np.uint8]
    config: str  # its configuration, JSON
    tokenizer: str  # see `Reading`, as all that follow
    special: tuple[int, ...]
    mask: int
    fill: int
    length: int

    @cached_property
    def _reading(self) -> Reading:
        return Reading(self.tokenizer, self.special, self.mask, self.fill, self.length)

    @cached_property
    def _predictors(self) -> tuple[Predictor, Predictor]:
        return self._opened(self.before), self._opened(self.after)

    def _opened(self, weights: NDArray[np.uint8]) -> Predictor:
        """The model with some weights in float32, on this machine's device."""
        try:
            import torch
            from safetensors.torch import load
        except ImportError as e:
            raise MissingDependencyError("The method conditional_loss", "models") from e
        model = new_model(auto_class(self.mask < 0), self.config, "The model of the scores")
        stored = load(weights.tobytes())
        with torch.no_grad():
            for name, parameter in model.named_parameters():
                parameter.copy_(stored[name])
        return Predictor(model.eval().requires_grad_(False).to(resolve(EmbedPlan()).device))

    def meaning(self) -> str:
        """What a score is."""
        return (
            "The score is how much lower the model's loss on the text is after the adaptation to "
            "the target, in nats per token."
        )

    def score(self, batch: Texts) -> NDArray[np.float32]:
        """Score n texts: float32 [n], nats per token; a text without tokens gets `WORDLESS`.

        The last bits of a score depend on the other texts of its batch.
        """
        import torch

        texts = as_texts(batch)
        out = np.empty(len(batch), np.float32)
        budget = batch_tokens(resolve(EmbedPlan()).device)
        for first in range(0, len(texts), ROWS):
            some = texts[first : first + ROWS].to_pylist()
            rows = self._reading.rows(some, stream=0, draws=DRAWS)
            total = np.zeros(len(some))
            count = np.zeros(len(some))
            lengths = np.array([len(row.ids) for row in rows], np.int64)
            for numbers in token_batches(lengths, budget):
                together = [rows[i] for i in numbers]
                with torch.inference_mode():
                    before, after = (row_losses(p, together, self.fill) for p in self._predictors)
                owner = np.repeat([r.text for r in together], [len(r.labels) for r in together])
                fall = (before - after).cpu().double().numpy()
                total += np.bincount(owner, fall, len(some))
                count += np.bincount(owner, minlength=len(some))
            out[first : first + ROWS] = np.where(count, total / np.maximum(count, 1), WORDLESS)
        return out


@dataclass(frozen=True)
class ConditionalLoss(Method[Texts]):
    """Fall of a language model's loss by an adaptation to the target (CoLoR-Filter).

    Attributes:
        model: Language model with its head, masked or causal: a model folder or a hub id
            (OWNER/NAME[@REVISION]), best the model that the selection is for (required).
        max_steps: Steps of the adaptation, which reads 4,000 texts of the target in them, each text
            several times if there are fewer; with 1 a score is an influence (default: 60).
        learning_rate: Learning rate of Adam (default: 5e-5).
        length: Most tokens of a text that are read, special tokens included; fewer if the model
            has fewer positions (default: 256).
    """

    reads = "text"
    family = "lexical"
    scorer: ClassVar[type] = ConditionalLossScorer
    exact: ClassVar[bool] = False
    cost: ClassVar[str] = "4/s"
    needs: ClassVar[str] = "models"

    model: str = ""
    max_steps: int = setting(60, minimum=1)
    learning_rate: float = setting(5e-5, above=0, maximum=1)
    length: int = setting(256, minimum=8)

    @property
    def files(self) -> tuple[str, ...]:
        """The model's files."""
        return tuple(str(path) for path in model_files(self._folder()[0]))

    def _folder(self) -> tuple[Path, bool]:
        """The model's folder, and whether the model is causal, by its config.json."""
        if not self.model:
            cure = "For instance `method.model=distilbert/distilbert-base-uncased`."
            raise bad_setting(MODEL.name, MODEL.allowed, self.model, cure)
        return language_model_folder(self.model, MODEL)

    def fit(self, target: Texts, background: Texts, *, seed: int) -> ConditionalLossScorer:
        """Adapt the model to the target; the background is not read."""
        folder, causal = self._folder()
        tokenizer, model = open_language_model(
            folder, causal, MODEL, seed=seed, user="The method conditional_loss"
        )
        import torch
        from safetensors.torch import save

        reading = Reading(
            tokenizer=tokenizer.backend_tokenizer.to_str(),
            special=tuple(tokenizer.all_special_ids),
            mask=-1 if causal else int(tokenizer.mask_token_id),
            fill=padding(tokenizer),
            length=int(min(self.length, position_limit(model), tokenizer.model_max_length)),
        )

        def weights() -> NDArray[np.uint8]:
            state = {n: p.detach().cpu().contiguous() for n, p in model.named_parameters()}
            return np.frombuffer(save(state), np.uint8)

        before = weights()
        config = model.config.to_dict()
        config.pop("_name_or_path", None)

        # all steps together read `READ` texts; a masked model sees other masks in each pass over
        # the target, and others than those of scoring
        rng = np.random.default_rng(seed % 2**64)
        rows: list[Row] = []
        for stream in range(1, 1 + math.ceil(READ / len(target))):
            order = rng.permutation(len(target))[: READ - (stream - 1) * len(target)]
            texts = target.take(order).to_pylist()
            rows += reading.rows(texts, stream=stream + READ * seed, draws=1)
        hardware = resolve(EmbedPlan())
        predictor = Predictor(model.to(hardware.device))
        parameters = list(model.parameters())
        optimizer = torch.optim.Adam(parameters, lr=self.learning_rate)
        for step in np.array_split(np.arange(len(rows)), min(self.max_steps, len(rows)) or 1):
            optimizer.zero_grad()
            tokens = sum(len(rows[i].labels) for i in step)
            lengths = np.array([len(rows[i].ids) for i in step], np.int64)
            for batch in token_batches(lengths, batch_tokens(hardware.device)):
                bf16 = hardware.precision == "bf16"
                with torch.autocast(model.device.type, torch.bfloat16, enabled=bf16):
                    losses = row_losses(predictor, [rows[i] for i in step[batch]], reading.fill)
                torch.autograd.backward(losses.sum() / tokens)
            torch.nn.utils.clip_grad_norm_(parameters, 1.0)
            optimizer.step()
        # a diverged model would score every text NaN
        if not all(bool(torch.isfinite(p).all()) for p in parameters):
            allowed = "small enough that weights stay finite"
            cure = "Use the default rate."
            raise bad_setting("`method.learning_rate`", allowed, self.learning_rate, cure)
        return ConditionalLossScorer(
            before=before,
            after=weights(),
            config=json.dumps(config, sort_keys=True),
            **asdict(reading),
        )
