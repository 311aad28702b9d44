"""`model:MODEL`: the output of a sequence classifier of others for a label.

What: a transformer with a classification head reads each unit. The score is its only output; of
several the log odds of one label among them, or, with `method.raw` and for a model whose labels do
not exclude each other, that label's output.
Why: FineWeb-Edu's classifier and QuRating's raters are such models.
Trade-off: it knows nothing of the target, and every text needs a pass through the network, so it is
best after a cheap method. Log odds stand for probabilities, many of which are rounded to 1.
The scorer holds the name of the model, with its commit, not its weights.
Reference: Penedo et al. (2024), The FineWeb Datasets, section 4; Wettig et al. (2024), QuRating.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from corpusfit.core.artifacts import user_path
from corpusfit.core.errors import MissingDependencyError, ModelError, bad_setting
from corpusfit.core.hub import pinned
from corpusfit.core.plan import size_for
from corpusfit.core.settings import setting
from corpusfit.core.types import Reads, Texts, as_texts
from corpusfit.embed.folders import (
    ModelSetting,
    commit_of,
    find,
    model_files,
    read_json,
    transformer_folder,
)
from corpusfit.embed.hardware import resolve_device
from corpusfit.embed.transformer import (
    CHARACTERS,
    open_complete,
    position_limit,
    token_batches,
)
from corpusfit.scoring.contract import Family, Method, Scorer
from corpusfit.scoring.external import Classifier, digest_of, require_same

MODEL = ModelSetting(
    name="`method.model`",
    allowed="a model folder or a Hugging Face hub id of a sequence classifier",
    otherwise="use another method",
    extra="models",
)
_ROWS = 4_096
"""Texts scored at once: enough to pack batches by length."""
_BATCH_TOKENS = {"cpu": 1_024, "gpu": 8_192}
"""Tokens per batch."""


@dataclass(frozen=True)
class ModelScorer(Scorer[Texts]):
    """The name of a classifier, and which of its outputs is the score."""

    model: str  # a folder, or a hub id with its commit
    label: str
    place: int  # of the label among the outputs
    odds: bool  # whether the score is the label's log odds, not its output
    lower: bool  # whether lower scores are better
    length: int  # most tokens of a text that are read, special tokens included
    digest: str  # of the model's files

    @cached_property
    def _opened(self) -> tuple[Any, Any, int]:
        """The network on this machine's device, its tokenizer, and the most tokens of a text."""
        folder = transformer_folder(find(self.model, check_hub=False, setting=MODEL), MODEL)
        require_same(model_files(folder), self.digest, self.model)
        try:
            import torch  # noqa: F401 (needed by transformers)
            import transformers
        except ImportError as e:
            raise MissingDependencyError("The method model", MODEL.extra) from e
        subject = f"{MODEL.name}: the model in {folder}"
        auto = transformers.AutoModelForSequenceClassification
        tokenizer, network = open_complete(auto, folder, subject, "classifier")
        # a decoder reads its answer at the last token that is no padding
        fills = (tokenizer.pad_token_id, network.config.pad_token_id, tokenizer.eos_token_id, 0)
        network.config.pad_token_id = next(token for token in fills if token is not None)
        network = network.eval().requires_grad_(False).to(resolve_device("auto", "embed"))
        limits = (self.length, position_limit(network), tokenizer.model_max_length)
        return network, tokenizer, int(min(limits))

    def meaning(self) -> str:
        """What a score is."""
        output = "log odds" if self.odds else "output"
        return Classifier(self.model, self.label, self.lower).meaning(
            f"the {output} of {self.label}"
        )

    def score(self, batch: Texts) -> NDArray[np.float32]:
        """Score n texts: float32 [n].

        The last bits of a score depend on the other texts of its batch.
        """
        import torch

        network, tokenizer, length = self._opened
        texts = as_texts(batch)
        out = np.empty(len(batch), np.float32)
        fill = network.config.pad_token_id
        device = network.device
        budget = size_for(device.type, _BATCH_TOKENS)
        for first in range(0, len(texts), _ROWS):
            some = [t[: CHARACTERS * length] for t in texts[first : first + _ROWS].to_pylist()]
            encoded = tokenizer(some, truncation=True, max_length=length)["input_ids"]
            rows = [row or [fill] for row in encoded]
            lengths = np.array(list(map(len, rows)), np.int64)
            for numbers in token_batches(lengths, budget):
                ids = np.full((len(numbers), int(lengths[numbers].max())), fill, np.int64)
                for at, number in enumerate(numbers):
                    ids[at, : lengths[number]] = rows[number]
                seen = np.arange(ids.shape[1]) < lengths[numbers, None]
                with torch.inference_mode():
                    logits = network(
                        input_ids=torch.from_numpy(ids).to(device),
                        attention_mask=torch.from_numpy(seen.astype(np.int64)).to(device),
                    ).logits.float()
                    score = logits[:, self.place]
                    if self.odds:
                        others = [i for i in range(logits.shape[1]) if i != self.place]
                        score = score - torch.logsumexp(logits[:, others], 1)
                out[first + numbers] = score.cpu().numpy()
        return -out if self.lower else out


@dataclass(frozen=True)
class Model(Method[Texts]):
    """Output for a label of a sequence classifier of yours, as model:FOLDER_OR_HUB_ID.

    Attributes:
        model: Transformer with a classification head: a model folder or a hub id
            (OWNER/NAME[@REVISION]); with `-` before it a low score is the best, and `#LABEL` behind
            it names the label whose log odds are the score, unless it has one output (required).
        raw: Score by the label's output as it is, not by its log odds among the labels (default:
            false).
        length: Most tokens of a text that are read, special tokens included; fewer if the model
            has fewer positions (default: 512).
    """

    reads: ClassVar[Reads] = "text"
    family: ClassVar[Family] = "external"
    higher: ClassVar[str] = "more like the classifier's label"
    ignores_target: ClassVar[bool] = True
    scorer: ClassVar[type] = ModelScorer
    exact: ClassVar[bool] = False
    cost: ClassVar[str] = "20/s"
    needs: ClassVar[str] = "models"
    argument: ClassVar[str] = "model"

    model: str = ""
    raw: bool = False
    length: int = setting(512, minimum=8)

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self._named.model:
            cure = "For example model:HuggingFaceFW/fineweb-edu-classifier."
            raise bad_setting(MODEL.name, MODEL.allowed, self.model, cure)

    @property
    def _named(self) -> Classifier:
        return Classifier.of(self.model)

    @cached_property
    def _folder(self) -> Path:
        return transformer_folder(find(self._named.model, once=True, setting=MODEL), MODEL)

    @property
    def files(self) -> tuple[str, ...]:
        """The model's files."""
        return tuple(str(path) for path in model_files(self._folder))

    @property
    def models(self) -> tuple[str, ...]:
        """The model."""
        return (self._named.model,)

    def _place(self) -> tuple[int, str, bool]:
        """The label's place among the outputs, its name, and whether labels exclude each other."""
        config = read_json(self._folder / "config.json", {}, MODEL)
        heads = config.get("architectures") or ["none"]
        if not any(head.endswith("ForSequenceClassification") for head in heads):
            raise ModelError(
                f"{MODEL.name} must be {MODEL.allowed}; {self._named.model} has another head "
                f"(architectures in its config.json: {', '.join(heads)}). Name a model that an "
                "AutoModelForSequenceClassification saved."
            )
        names = config.get("id2label") or {"0": "LABEL_0", "1": "LABEL_1"}
        labels = [str(names[place]) for place in sorted(names, key=int)]
        place = self._named.place_in(labels, "model")
        kind = config.get("problem_type") or "single_label_classification"
        return place, labels[place], len(labels) > 1 and kind == "single_label_classification"

    def require(self) -> None:
        """Check that the model has a classification head with the label."""
        self._place()

    def fit(self, target: Texts, background: Texts, *, seed: int) -> ModelScorer:
        """Find the label; target and background are not used."""
        place, label, excluding = self._place()
        name = self._named.model
        named = user_path(self._named.model)
        scorer = ModelScorer(
            model=str(named.absolute())
            if named.is_dir()
            else pinned(name, commit_of(name, self._folder)),
            label=label,
            place=place,
            odds=excluding and not self.raw,
            lower=self._named.lower,
            length=self.length,
            digest=digest_of(model_files(self._folder)),
        )
        scorer._opened  # noqa: B018 (a model that does not open is an error of the fit)
        return scorer
