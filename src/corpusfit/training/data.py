"""The chunks that a model trains on, with their weights, and those held out to measure the loss."""

from __future__ import annotations

import dataclasses
import itertools
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from corpusfit.core.errors import EmptyInputError, InputError, bad_setting
from corpusfit.core.types import Source
from corpusfit.selection.choosing import moments, relevance
from corpusfit.selection.fit import Sample
from corpusfit.selection.folder import SelectionFolder
from corpusfit.selection.result import read_selected
from corpusfit.text.context import RunContext, local_cache
from corpusfit.training.chats import Chats
from corpusfit.training.chunks import Chunks, chunks_of, exclude_keys, split_heldout
from corpusfit.training.folder import AdaptFolder
from corpusfit.training.inputs import TrainingInputs
from corpusfit.training.plan import TASK, AdaptPlan
from corpusfit.training.token_store import Tokens
from corpusfit.training.tokenising import Tokenising

_OF_TASK = 0.1  # share of the task's texts to hold out where they are trained on


@dataclass(frozen=True, eq=False)
class TrainingText:
    """Chunks to train on and to measure on."""

    tokens: tuple[Tokens, ...]  # tokens of the data, and of general text if there is any
    train: Chunks  # the data's chunks, with their weights
    replay: Chunks | None  # general chunks to mix in, if any
    # held-out tokens and chunks, by the kind of text
    heldout: dict[str, tuple[Tokens, Chunks]] = field(default_factory=dict)
    figures: dict[str, Any] = field(default_factory=dict)  # counts, by the kind of text
    # the task's chunks, to train on after the data, if the plan asks for that
    then: TrainingText | None = None


def training_text(
    plan: AdaptPlan,
    texts: TrainingInputs,
    folder: AdaptFolder,
    length: int,
    end: int | None,
    context: RunContext,
    *,
    dropped: NDArray[np.uint64],
    chats: Chats | None = None,
) -> TrainingText:
    """Tokenise the texts, weight them, cut them into chunks, and hold some out."""
    # No copy of a held-out text is trained on. Without `--replay`, general text is the
    # selection's sample of its corpus: texts of the sample that are trained on are left out,
    # but longer segments that contain one are not found. Both phases of `--then-task` measure
    # the same held-out texts.
    cache_place = local_cache(context.cache) / "tokens"
    pairs = plan.objective.name if plan.objective.kind.columns == 2 else ""
    tokenizer = folder.pair_tokenizer if pairs or chats else folder.tokenizer
    tokenising = Tokenising(texts.read, tokenizer, cache_place, end, context, pairs, length, chats)
    # general text, and texts that are only measured on, need not be conversations
    plain = chats and dataclasses.replace(chats, plain=True)
    figures: dict[str, Any] = {}
    heldout: dict[str, tuple[Tokens, Chunks]] = {}
    if texts.on_task:
        data, figures[TASK] = tokenising.corpus(TASK, texts.task)
        share = _OF_TASK
        name = TASK
        max_heldout = plan.mix.task_sequences or plan.mix.heldout
    else:
        data, figures["data"] = tokenising.corpus("data", texts.data)
        if texts.selection is not None and texts.folder is not None:
            require_all_selected(data, texts.selection, texts.folder)
        share = 0.05
        name = "data"
        max_heldout = plan.mix.heldout
    chunks = chunks_of(data, length, weights_of(plan, data, texts))
    clean = exclude_keys(chunks, data.keys, dropped)
    if len(chunks) and not len(clean):
        raise EmptyInputError(
            "Every text of `data` contains a text of `guard`, so none is left to train on. Name "
            "other data."
        )
    train, heldout_chunks = split_heldout(clean, data.keys, max_heldout, plan.seed, share)
    if texts.task and not texts.on_task:
        trained = plan.then_task.on
        reading = dataclasses.replace(
            tokenising, read=texts.task_read, chats=chats if trained else plain
        )
        task, figures[TASK] = reading.corpus(TASK, texts.task)
        _require_text(task, figures[TASK])
        chunks = chunks_of(task, length)
        share_measured = 1.0
        if plan.then_task.on:  # trained on in the second phase
            chunks = exclude_keys(chunks, task.keys, dropped)
            share_measured = _OF_TASK
        max_heldout = plan.mix.task_sequences or plan.mix.heldout
        then, measured = split_heldout(chunks, task.keys, max_heldout, plan.seed, share_measured)
        if len(measured):
            heldout[TASK] = task, measured
    if len(heldout_chunks):
        heldout[name] = data, heldout_chunks
    replay = None
    reading = dataclasses.replace(tokenising, read=plan.read, chats=plain)
    general = _general_text(texts, reading, folder, figures)
    if general is not None and texts.replay:
        chunks = chunks_of(general, length, store=1)
        chunks = exclude_keys(chunks, general.keys, dropped)
        replay, measured = split_heldout(chunks, general.keys, plan.mix.heldout, plan.seed)
        replay = exclude_keys(replay, general.keys, _keys(heldout))
        heldout["general"] = general, measured
    train = exclude_keys(train, data.keys, _keys(heldout))
    if general is not None and not texts.replay:
        # of texts that are not trained on, if any
        chunks = chunks_of(general, length)
        apart = exclude_keys(chunks, general.keys, data.keys[train.text])
        chunks = apart if len(apart) else chunks
        measured = split_heldout(chunks, general.keys, plan.mix.heldout, plan.seed, 1.0)[1]
        heldout["general"] = general, measured
    others = () if general is None else (general,)
    whole = TrainingText((data, *others), train, replay, heldout, figures)
    if not plan.then_task.on:
        return whole
    then = exclude_keys(then, task.keys, _keys(heldout))
    _require_task_text(then, measured=TASK in heldout)
    second = dataclasses.replace(whole, tokens=(task, *others), train=then)
    return dataclasses.replace(whole, then=second)


def _keys(heldout: dict[str, tuple[Tokens, Chunks]]) -> NDArray[np.uint64]:
    keys = [tokens.keys[chunks.text].reshape(-1) for tokens, chunks in heldout.values()]
    return np.concatenate([np.empty(0, np.uint64), *keys])


def _require_text(tokens: Tokens, figures: dict[str, Any]) -> None:
    if not tokens.lengths.any():
        reasons = ", ".join(figures["reasons"]) or "empty input"
        raise EmptyInputError(
            f"`task` has no usable text ({reasons}). Set `read.text_field` to the field with the "
            "text, or name another file."
        )


def _require_task_text(chunks: Chunks, *, measured: bool) -> None:
    """Raise `EmptyInputError` without text for the second phase, or to choose its best model."""
    if not len(chunks):
        raise EmptyInputError(
            "No text of `task` is left for `then_task.on`: each contains a text of `guard` or of "
            "the task's dev or test split, or equals a held-out text. Name other texts, or leave "
            "out `then_task.on`."
        )
    if not measured:
        raise EmptyInputError(
            "`task` has only one distinct text, so none can be held out to choose the best model. "
            "Name more texts."
        )


def _general_text(
    texts: TrainingInputs, tokenising: Tokenising, folder: AdaptFolder, figures: dict[str, Any]
) -> Tokens | None:
    """General text: that of --replay, or the selection's sample of its corpus."""
    if texts.replay:
        general, figures["general"] = tokenising.corpus("general", texts.replay)
        return general
    if texts.folder is None or tokenising.pairs:
        return None  # the sample has no translations
    sample = Sample(SelectionFolder(texts.folder).fit, "background")
    if not sample.texts.exists():
        tokenising.context.progress.note(
            f"General text is not measured: {texts.folder} keeps no sample of its corpus. To "
            "measure it, add `replay` with general text."
        )
        return None
    general, figures["general"] = tokenising.texts("general", sample.read_texts(), folder.general)
    return general


def require_suitable(plan: AdaptPlan, texts: TrainingInputs) -> None:
    """Raise `UsageError` for settings that do not suit the kinds of texts, before they are read."""
    policy = plan.weights.policy
    if policy == "off":
        return
    if texts.selection is None or texts.folder is None:
        cure = "Name the folder of a `corpusfit select` as `data`."
        raise bad_setting("`weights.policy`", "off for data that is no selection", policy, cure)
    chosen = texts.selection["plan"]["choose"]
    named = shlex.quote(str(texts.folder))
    # masks are for selections of a part; weights alone for those of everything
    everything = chosen["policy"] == "continuous"
    if policy == "mask+lambda" and chosen["policy"] == "resample":
        cure = "Use `weights.policy=off`, as the selection was drawn by the weights already."
        raise bad_setting("`weights.policy`", "off for a selection by resampling", policy, cure)
    if policy == "mask+lambda" and everything:
        cure = f"Or choose a part: corpusfit choose {named} --fraction 0.2 --out part/"
        allowed = "lambda or resample for a selection of all segments"
        raise bad_setting("`weights.policy`", allowed, policy, cure)
    if policy != "mask+lambda" and not everything:
        cure = f"Or select all segments: corpusfit choose {named} --weights continuous --out all/"
        allowed = "mask+lambda or off for a selection of some segments"
        raise bad_setting("`weights.policy`", allowed, policy, cure)


def require_all_selected(tokens: Tokens, manifest: dict[str, Any], folder: Path) -> None:
    """Raise `InputError` unless a finished selection has all of its texts."""
    selected = manifest["selected"]["rows"]
    if len(tokens) != selected:
        raise InputError(
            f"{folder / 'selected'} has {len(tokens):,} of the {selected:,} texts that "
            "`corpusfit select` wrote. Run the selection again, with another `out`."
        )


def selected_numbers(parts: Sequence[Source], name: str) -> NDArray[np.float32]:
    """float32 [n]: the score or the weight of each text of a selection, from its files."""
    texts = itertools.chain.from_iterable(read_selected(Path(part.url)) for part in parts)
    return np.array([text[name] for text in texts], np.float32)


def weights_of(plan: AdaptPlan, tokens: Tokens, texts: TrainingInputs) -> NDArray[np.float32]:
    """float32 [n]: the relevance weight of each text, 1 with --weights off."""
    # Reference: TADPOLE, section 3.2 (lambda) and appendix E.
    if plan.weights.policy == "off":
        return np.ones(len(tokens), np.float32)
    if plan.weights.policy != "mask+lambda":  # the selection stored lambda
        return selected_numbers(texts.data, "weight")
    # over the corpus, the best of its segments would all have nearly the same lambda
    scores = selected_numbers(texts.data, "score")
    c, alpha = sharpness(plan, texts)
    return relevance(scores, moments([scores]), c=c, alpha=alpha)


def sharpness(plan: AdaptPlan, texts: TrainingInputs) -> tuple[float, float]:
    """C and alpha of the selection's lambda; zeros without weights."""
    if plan.weights.policy == "off" or texts.selection is None:
        return 0.0, 0.0
    chosen = texts.selection["plan"]["choose"]
    return chosen["c"], chosen["alpha"]
