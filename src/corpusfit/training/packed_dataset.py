"""A selection as packed rows for another trainer, with the weight of each token.

What: the rows that `adapt` makes of a selection for a causal model, as a dataset of torch.
Why: who trains with `transformers.Trainer`, TRL or a loop of their own gets the same tokens, the
same packing and the same weights, without writing any of it again.
Trade-off: texts share the same rows in every epoch and only the order of the rows differs, so that
all epochs have one length, which trainers count steps and find the place to resume by.
Reference: Krell et al. (2021), Efficient Sequence Packing without Cross-contamination; TADPOLE,
equation 1 (the weights).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from corpusfit.core.artifacts import write_bytes
from corpusfit.core.errors import ChangedInputError, bad_setting, importing
from corpusfit.selection.folder import SelectionFolder
from corpusfit.text.context import Machine, local_cache, machine_of
from corpusfit.training.batches import PADDING, ChunkTokens, Passes, lay_out
from corpusfit.training.data import chunks_of, require_all_selected, selected_numbers
from corpusfit.training.inputs import finished_selection, read_of_selected
from corpusfit.training.objectives import objective
from corpusfit.training.plan import ObjectivePlan
from corpusfit.training.special_tokens import backend_tokenizer, special_tokens_of
from corpusfit.training.tokenising import Tokenising

with importing("PackedDataset", "models"):
    import torch
    from torch.utils.data import IterableDataset, get_worker_info

if TYPE_CHECKING:
    from corpusfit.selection.result import Selection

IGNORED = -100  # label of a token that no loss is computed for


class PackedDataset(IterableDataset[dict[str, torch.Tensor]]):
    """The selected texts as rows of `length` tokens, several texts in a row.

    A row is a dict of tensors [length]: `input_ids`; `position_ids`, which begin again at each
    text, so that models of transformers keep texts apart if they get no attention mask and keep no
    cache (`use_cache=False`, as the `Trainer` has it); `labels`, -100 for the first token of a text
    and for padding; `weights`, the weight of each token's text, 1 on average over the tokens of the
    selection. A text longer than a row is cut.

    Epochs have the same rows in another order, which `set_epoch` sets. Trainers that divide the
    data among processes themselves, such as `transformers.Trainer`, need no `rank`. Without such a
    trainer each process gets its own rows by `rank` and `world_size`; the first ones may get one
    row more than the others. Workers of a `DataLoader` share a rank's rows.
    """

    def __init__(
        self,
        selection: Selection | Path | str,
        tokenizer: Any,
        length: int = 1024,
        *,
        seed: int = 0,
        rank: int = 0,
        world_size: int = 1,
        machine: Machine | None = None,
    ) -> None:
        """Tokenise a selection, or find its token ids in the cache.

        Args:
            selection: a finished run of `select` or `choose`, or its folder.
            tokenizer: a fast tokenizer of transformers.
            length: tokens of a row, special tokens included.
            seed: decides the rows and their order.
            rank: number of this process, from 0.
            world_size: number of processes that share the rows.
            machine: where to tokenize, and where to show progress.

        Raises:
            CorpusfitError: the selection is not finished, or an argument has a wrong value.
        """
        if getattr(tokenizer, "backend_tokenizer", None) is None:
            cure = "For example `transformers.AutoTokenizer.from_pretrained('gpt2')`."
            allowed = "a fast tokenizer of transformers"
            raise bad_setting("`tokenizer`", allowed, type(tokenizer).__name__, cure)
        if not 0 <= rank < world_size:
            cure = "Ranks begin with 0."
            raise bad_setting("`rank`", f"less than `world_size`, {world_size}", rank, cure)
        name = tokenizer.name_or_path or type(tokenizer).__name__
        causal = objective(ObjectivePlan("causal"), special_tokens_of(tokenizer, name, rows=2**31))
        self._special, overhead = causal.special, causal.overhead()
        if length < overhead + 2:
            cure = f"{overhead} of the tokens are special ones of this tokenizer."
            raise bad_setting("`length`", f"{overhead + 2} or more", length, cure)
        folder = SelectionFolder(Path(getattr(selection, "path", selection)))
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
        # texts that were drawn by their weight are not weighted again
        drawn = manifest["plan"]["choose"]["policy"] == "resample"
        weights = None if drawn else selected_numbers(sources, "weight")
        passes = Passes(
            chunks_of(tokens, length - overhead, weights),
            None,
            0.0,
            length=length,
            overhead=overhead,
            draw=False,
            pack=True,
            batch=1,
            seed=seed,
        )
        self._rows = passes.rows(0)
        # as with `adapt --weights lambda`: a text's weight over the mean weight of all tokens
        self._tokens = ChunkTokens(passes.chunks, (tokens,), passes.scale, passes.frequency)
        self._length, self._seed = length, seed
        self._rank, self._world_size = rank, world_size
        # in shared memory, so that the workers of a `DataLoader` that stay see another epoch
        self._epoch = torch.zeros((), dtype=torch.int64)
        self._epoch.share_memory_()  # type: ignore[no-untyped-call]
        self._begin = 0  # row of the next iteration to begin with
        self._done = 0  # rows of this iteration so far

    def __len__(self) -> int:
        """Number of rows of this rank, the same in every epoch."""
        return len(range(self._rank, len(self._rows), self._world_size))

    def __iter__(self) -> Iterator[dict[str, torch.Tensor]]:
        """The rows of an epoch that this rank, or this worker of a `DataLoader`, has."""
        order = np.random.default_rng((self._seed, int(self._epoch))).permutation(len(self._rows))
        mine = order[self._rank :: self._world_size]
        worker = get_worker_info()
        if worker is not None:
            mine = mine[worker.id :: worker.num_workers]
        begin, self._begin = self._begin, 0
        for done, row in enumerate(mine[begin:].tolist(), begin + 1):
            self._done = done
            yield self._row(row)
        self._done = 0

    def _row(self, number: int) -> dict[str, torch.Tensor]:
        rows = lay_out(
            self._tokens, self._rows.between(number, number + 1), self._special, self._length
        )
        ids, chunk, scale = rows.ids[0], rows.chunk[0], rows.scale[0]
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

    def set_epoch(self, epoch: int) -> None:
        """Set the order of the rows; another epoch begins with its first row."""
        if epoch != int(self._epoch):
            self._epoch.fill_(epoch)
            self._begin = 0

    def state_dict(self) -> dict[str, Any]:
        """Epoch and row to resume at, which torchdata's `StatefulDataLoader` keeps."""
        return {"epoch": int(self._epoch), "row": self._done, "data": self._identity()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Let the next iteration resume; raises `ChangedInputError` for a state of other rows."""
        if state["data"] != self._identity():
            raise ChangedInputError(
                "The state is of a PackedDataset with other rows. Open it with the same selection, "
                "tokenizer, `length`, `seed`, `rank` and `world_size`."
            )
        self._epoch.fill_(state["epoch"])
        self._begin = self._done = state["row"]

    def _identity(self) -> list[int]:
        tokens = int(self._tokens.chunks.length.sum())
        shape = [self._length, len(self._rows), tokens]
        return [*shape, self._seed, self._rank, self._world_size]
