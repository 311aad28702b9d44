"""A selection as packed rows for another trainer, with the weight of each token.

What: the rows that `adapt` makes of a selection for a causal model, as a dataset of torch.
Why: who trains with `transformers.Trainer`, TRL or a loop of their own gets the same tokens, the
same packing and the same weights, without writing any of it again.
Trade-off: texts share the same rows in every epoch, so that all epochs have one length; the order
of the rows, their division among processes and the place to resume at are the trainer's.
Reference: Krell et al. (2021), Efficient Sequence Packing without Cross-contamination; TADPOLE,
equation 1 (the weights).
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from corpusfit.core.artifacts import folder_path, write_bytes
from corpusfit.core.errors import CorpusfitWarning, bad_setting, importing
from corpusfit.selection.folder import SelectionFolder
from corpusfit.text.context import Machine, local_cache, machine_of
from corpusfit.training.batches import PADDING, ChunkTokens, Passes, lay_out
from corpusfit.training.chunks import chunks_of
from corpusfit.training.data import require_all_selected, selected_numbers
from corpusfit.training.inputs import finished_selection, read_of_selected
from corpusfit.training.objectives import objective
from corpusfit.training.plan import ObjectivePlan
from corpusfit.training.special_tokens import backend_tokenizer, special_tokens_of
from corpusfit.training.tokenising import Tokenising

with importing("PackedDataset", "models"):
    import torch
    from torch.utils.data import Dataset

if TYPE_CHECKING:
    from corpusfit.selection.result import Selection

IGNORED = -100  # label of a token that no loss is computed for


class PackedDataset(Dataset[dict[str, torch.Tensor]]):
    """The selected texts as rows of `length` tokens, several texts in a row.

    A row is a dict of tensors [length]: `input_ids`; `position_ids`, which begin again at each
    text, so that models of transformers keep texts apart if they get no attention mask and keep no
    cache (`use_cache=False`, as the `Trainer` has it); `labels`, -100 for the first token of a text
    and for padding; `weights`, the weight of each token's text, 1 on average over the tokens of the
    selection. A text longer than a row is cut.
    """

    def __init__(
        self,
        selection: Selection | Path | str,
        tokenizer: Any,
        length: int = 1024,
        *,
        seed: int = 0,
        machine: Machine | None = None,
    ) -> None:
        """Tokenise a selection, or find its token ids in the cache.

        Args:
            selection: a finished run of `select` or `choose`, or its folder.
            tokenizer: a fast tokenizer of transformers.
            length: tokens of a row, special tokens included.
            seed: decides which texts share a row.
            machine: where to tokenize, and where to show progress.

        Raises:
            CorpusfitError: the selection is not finished, or an argument has a wrong value.
        """
        if getattr(tokenizer, "backend_tokenizer", None) is None:
            cure = "For example `transformers.AutoTokenizer.from_pretrained('gpt2')`."
            allowed = "a fast tokenizer of transformers"
            raise bad_setting("`tokenizer`", allowed, type(tokenizer).__name__, cure)
        name = tokenizer.name_or_path or type(tokenizer).__name__
        if getattr(tokenizer, "mask_token", None):
            masked = (
                f"{name} has a mask token: no token of these rows is masked, and a masked model "
                "learns nothing from them. Train one by `corpusfit adapt`, or from "
                "`datasets.load_dataset(OUT)` with transformers' DataCollatorForLanguageModeling; "
                "a causal model is right here."
            )
            warnings.warn(masked, CorpusfitWarning, stacklevel=2)
        causal = objective(ObjectivePlan("causal"), special_tokens_of(tokenizer, name, rows=2**31))
        self._special = causal.special
        overhead = causal.overhead()
        if length < overhead + 2:
            cure = f"{overhead} of the tokens are special ones of this tokenizer."
            raise bad_setting("`length`", f"{overhead + 2} or more", length, cure)
        folder = SelectionFolder(folder_path(getattr(selection, "path", selection), "`selection`"))
        manifest = finished_selection(folder, "selection")
        with machine_of(machine, {}).running() as context:
            read = read_of_selected(manifest)
            sources = context.find([str(folder.selected)], read, "selection")
            file = context.work / "tokenizer.json"
            write_bytes(file, backend_tokenizer(tokenizer, name).to_str().encode())
            tokenising = Tokenising(
                read, file, local_cache(context.cache) / "tokens", self._special.end, context
            )
            tokens, _ = tokenising.corpus("selection", sources)
        require_all_selected(tokens, manifest, folder.path)
        # texts that were sampled by their weight are not weighted again
        resampled = manifest["plan"]["choose"]["policy"] == "resample"
        weights = None if resampled else selected_numbers(sources, "weight")
        passes = Passes(
            chunks_of(tokens, length - overhead, weights),
            None,
            0.0,
            length=length,
            overhead=overhead,
            resample=False,
            pack=True,
            batch=1,
            seed=seed,
        )
        self._rows = passes.rows(0)
        # as with `adapt --weights lambda`: a text's weight over the mean weight of all tokens
        self._tokens = ChunkTokens(passes.chunks, (tokens,), passes.scale, passes.frequency)
        self._length = length

    def __len__(self) -> int:
        """Number of rows."""
        return len(self._rows)

    def __getitem__(self, number: int) -> dict[str, torch.Tensor]:
        """A row, by its number from 0."""
        if not 0 <= number < len(self):
            raise IndexError(number)
        rows = lay_out(
            self._tokens, self._rows.between(number, number + 1), self._special, self._length
        )
        ids = rows.ids[0]
        chunk = rows.chunk[0]
        scale = rows.scale[0]
        first = np.diff(chunk, prepend=chunk[0] - 1) != 0
        places = np.arange(self._length)
        begins = np.maximum.accumulate(np.where(first, places, 0))
        return {
            "input_ids": torch.from_numpy(ids),
            "position_ids": torch.from_numpy(places - begins),
            "labels": torch.from_numpy(np.where(first | (chunk == PADDING), IGNORED, ids)),
            "weights": torch.from_numpy(scale),
        }

    @staticmethod
    def collate(rows: Sequence[Mapping[str, torch.Tensor]]) -> dict[str, torch.Tensor]:
        """A batch of rows, without an attention mask: the `data_collator` of a trainer."""
        return {name: torch.stack([row[name] for row in rows]) for name in rows[0]}

    @staticmethod
    def weighted_loss(
        outputs: Any,
        labels: torch.Tensor,
        num_items_in_batch: torch.Tensor | int | None = None,
        *,
        weights: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """The loss of a causal model in nats per token, each token's times its weight.

        With `weights` bound by `functools.partial` it is a `compute_loss_func` of
        `transformers.Trainer`; without weights it is the loss of transformers itself.

        Args:
            outputs: a model's outputs, with logits [rows, length, vocabulary].
            labels: int64 [rows, length], -100 where no token is predicted.
            num_items_in_batch: what to divide the sum by (default: the number of predicted tokens).
            weights: float32 [rows, length], the weight of each token (default: 1).
        """
        targets = labels[:, 1:].flatten()
        logits = outputs.logits[:, :-1].flatten(0, 1).float()
        losses = torch.nn.functional.cross_entropy(
            logits, targets.to(logits.device), ignore_index=IGNORED, reduction="none"
        )
        if weights is not None:
            losses = losses * weights[:, 1:].flatten().to(losses.device)
        count = (targets != IGNORED).sum() if num_items_in_batch is None else num_items_in_batch
        return losses.sum() / torch.as_tensor(count, device=losses.device)
